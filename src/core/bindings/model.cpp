// Bindings of a model: learning, predicting, saving, loading, queries and attributes.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/requirements.hpp"
#include "learner/model.hpp"

using namespace nb::literals;

namespace budgetron {

namespace {

// Attaches the scores of another model to the rows, one per row and output.
void set_offsets(RowBlock& block, const Array1d<double>& offsets, std::size_t outputs) {
  require(offsets.shape(0) == block.rows.count * outputs, "_core: there must be one offset per row and output");
  for (std::size_t i = 0; i < offsets.shape(0); ++i) require(std::isfinite(offsets.data()[i]), "_core: an offset must be finite");
  block.rows.offsets = offsets.data();
  block.outputs = outputs;
}

std::optional<std::size_t> first_bad_row(const Model& model, const RowBlock& block) {
  require_values(model.config(), block);
  std::size_t bad;
  {
    nb::gil_scoped_release free;
    std::shared_lock<FairLock> hold(model.lock);
    bad = model.learner().first_bad_row(block.rows);
  }
  if (bad == block.rows.count) return std::nullopt;
  return bad;
}

using MarginsAndFlags = nb::typed<nb::tuple, Out<double>, Out<std::uint8_t>>;

MarginsAndFlags learn(Model& model, const RowBlock& block, const Array1d<std::int32_t>& labels, const Array1d<std::int64_t>& task_ids,
                      const Array1d<std::int64_t>& clusters, const std::optional<Array1d<double>>& weights) {
  const Config& c = model.config();
  const std::size_t n = block.rows.count;
  require(labels.shape(0) == n && task_ids.shape(0) == n && clusters.shape(0) == n && (!weights || weights->shape(0) == n),
          "_core: labels, task_ids, clusters and weights must have one entry per row");
  require_rows(c, block);
  require_tasks(c, task_ids.data(), n);
  for (std::size_t i = 0; i < n; ++i) require_label(c, labels.data()[i]);
  for (std::size_t i = 0; weights && i < n; ++i) require_weight(weights->data()[i]);
  // The results are allocated before anything is learned, so that running out of memory changes nothing.
  OutputArray<double> margins(n * c.n_outputs);
  OutputArray<std::uint8_t> flags(n);
  nb::tuple out = nb::make_tuple(margins.object, flags.object);
  {
    nb::gil_scoped_release free;
    model.learn(block.rows, labels.data(), task_ids.data(), clusters.data(), weights ? weights->data() : nullptr, margins.data(),
                flags.data(), [] {
                  nb::gil_scoped_acquire acquired;  // an interrupt ends a long call
                  if (PyErr_CheckSignals()) throw nb::python_error();
                });
  }
  return out;
}

Out<double> margins(const Model& model, const RowBlock& block, const Array1d<std::int64_t>& task_ids,
                   const Array1d<std::int64_t>& clusters, std::size_t threads) {
  const Config& c = model.config();
  const std::size_t n = block.rows.count;
  require(task_ids.shape(0) == n && clusters.shape(0) == n, "_core: task_ids and clusters must have one entry per row");
  require_rows(c, block);
  require_tasks(c, task_ids.data(), n);
  std::vector<double> out(n * c.n_outputs);
  {
    nb::gil_scoped_release free;
    // Each thread takes the next chunk of rows when it has finished one. So a thread on a busy core takes fewer chunks, and all chunks
    // are computed even if a thread cannot be started. Results do not depend on which thread computes a row. A thread locks the model
    // for one chunk at a time, so that learning waits for at most 64 rows per thread, not for all rows.
    constexpr std::size_t kChunk = 64, kRowsPerThread = 512;
    const std::size_t chunks = (n + kChunk - 1) / kChunk;
    threads = std::max<std::size_t>(1, std::min(threads, (n + kRowsPerThread - 1) / kRowsPerThread));
    std::atomic<std::size_t> next{0};
    std::vector<std::exception_ptr> failures(threads);
    const auto work = [&](std::size_t t) noexcept {
      try {
        for (std::size_t p = next++; p < chunks; p = next++) {
          const std::shared_lock<FairLock> hold(model.lock);
          model.learner().margins(block.rows, p * kChunk, std::min(n, (p + 1) * kChunk), task_ids.data(), clusters.data(), out.data());
        }
      } catch (...) {
        failures[t] = std::current_exception();  // rethrown in the calling thread
      }
    };
    std::vector<std::thread> workers;
    workers.reserve(threads - 1);
    // If there is no memory or no further thread, the threads that did start do the work. No exception may leave this scope while
    // threads run, because destroying a thread that was not joined ends the process.
    try {
      for (std::size_t t = 1; t < threads; ++t) workers.emplace_back(work, t);
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {
    }
    work(0);
    for (auto& worker : workers) worker.join();
    for (auto& failure : failures)
      if (failure) std::rethrow_exception(failure);
  }
  return to_numpy(std::move(out));
}

// Dicts of named arrays. Arguments have one dict per type; results have one dict for both types.
using Reals = nb::typed<nb::dict, nb::str, Array1d<double>>;
using Integers = nb::typed<nb::dict, nb::str, Array1d<std::int64_t>>;
using Arrays = nb::typed<nb::dict, nb::str, std::variant<Out<double>, Out<std::int64_t>>>;

State state_of(const nb::dict& reals, const nb::dict& integers) {
  State state;
  for (auto [name, values] : reals) {
    const auto array = nb::cast<Array1d<double>>(values);
    state.reals[nb::cast<std::string>(name)].assign(array.data(), array.data() + array.shape(0));
  }
  for (auto [name, values] : integers) {
    const auto array = nb::cast<Array1d<std::int64_t>>(values);
    state.integers[nb::cast<std::string>(name)].assign(array.data(), array.data() + array.shape(0));
  }
  return state;
}

Arrays to_dict(State&& state) {
  Arrays out;
  for (auto& [name, values] : state.reals) out[name.c_str()] = to_numpy(std::move(values));
  for (auto& [name, values] : state.integers) out[name.c_str()] = to_numpy(std::move(values));
  return out;
}

Arrays query(Model& model, const std::string& name, const RowBlock* block, const Array1d<std::int64_t>& task_ids,
             const Array1d<std::int64_t>& clusters) {
  const Config& c = model.config();
  const std::size_t n = block ? block->rows.count : 0;
  require(task_ids.shape(0) == n && clusters.shape(0) == n, "_core: task_ids and clusters must have one entry per row");
  if (block) require_rows(c, *block);
  require_tasks(c, task_ids.data(), n);
  const Query request{name, block ? &block->rows : nullptr, task_ids.data(), clusters.data()};
  State answer;
  {
    nb::gil_scoped_release free;
    const Model::Exclusive hold(model);
    answer = model.learner().query(request);
  }
  return to_dict(std::move(answer));
}

Arrays save(Model& model) {
  State state;
  Store::Dump rows;
  {
    nb::gil_scoped_release free;
    const Model::Exclusive hold(model);
    model.learner().save(state);
    rows = model.learner().store().dump();
  }
  Arrays out = to_dict(std::move(state));
  out["rows"] = to_numpy(std::move(rows.values));
  out["indptr"] = to_numpy(std::move(rows.indptr));
  out["indices"] = to_numpy(std::move(rows.indices));
  return out;
}

void load(Model& model, const Reals& reals, const Integers& integers, const RowBlock& block) {
  const Config& c = model.config();
  if (block.rows.count) require_rows(c, block);
  else require_kind(c, block.sparse, block.single);
  const State state = state_of(reals, integers);
  nb::gil_scoped_release free;
  model.load(state, block.rows);
}

template <class Read>
Out<double> per_slot(const Model& model, Read read) {
  std::vector<double> out;
  {
    nb::gil_scoped_release free;
    std::shared_lock<FairLock> hold(model.lock);
    out.resize(model.config().n_outputs * model.learner().size());
    read(model.learner(), out.data());
  }
  return to_numpy(std::move(out));
}

template <class Get>
auto read_shared(const Model& model, Get get) {
  nb::gil_scoped_release free;
  std::shared_lock<FairLock> hold(model.lock);
  return get(model.learner());
}

}  // namespace

void bind_model(nb::module_& m) {
  nb::class_<RowBlock>(m, "RowBlock")
      .def("set_offsets", &set_offsets, "offsets"_a.noconvert(), "outputs"_a, nb::keep_alive<1, 2>());
  m.def("rows", &RowBlock::dense<float>, "x"_a.noconvert(), nb::keep_alive<0, 1>());
  m.def("rows", &RowBlock::dense<double>, "x"_a.noconvert(), nb::keep_alive<0, 1>());
  m.def("csr", &RowBlock::csr<float>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "data"_a.noconvert(),
        nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());
  m.def("csr", &RowBlock::csr<double>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "data"_a.noconvert(),
        nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());

  nb::class_<Model> learner(m, "Learner");
  learner.def("first_bad_row", &first_bad_row, "rows"_a)
      .def("learn", &learn, "rows"_a, "labels"_a.noconvert(), "task_ids"_a.noconvert(), "clusters"_a.noconvert(),
           "weights"_a.none() = nb::none())
      .def("margins", &margins, "rows"_a, "task_ids"_a.noconvert(), "clusters"_a.noconvert(), "threads"_a = 1)
      .def("query", &query, "name"_a, "rows"_a.none(), "task_ids"_a.noconvert(), "clusters"_a.noconvert())
      .def("forget",
           [](Model& model, std::int64_t task_id) {
             nb::gil_scoped_release free;
             const Model::Exclusive hold(model);
             model.learner().forget(task_id);
           },
           "task_id"_a)
      .def("set_counts",
           [](Model& model, std::int64_t n_seen, std::int64_t n_mistakes) {
             require(0 <= n_mistakes && n_mistakes <= n_seen, "_core: there cannot be more mistakes than examples");
             nb::gil_scoped_release free;  // a thread that learns may wait for the GIL while it holds a lock of the model
             const Model::Exclusive hold(model);
             model.learner().set_counts(n_seen, n_mistakes);
           },
           "n_seen"_a, "n_mistakes"_a)
      .def("save", &save)
      .def("load", &load, "reals"_a, "integers"_a, "rows"_a)
      .def("coefficients",
           [](const Model& model) { return per_slot(model, [](const Learner& l, double* out) { l.coefficients(out); }); })
      .def("task_weights",
           [](const Model& model, std::int64_t task_id, std::int64_t cluster) {
             require_tasks(model.config(), &task_id, 1);
             return per_slot(model, [&](const Learner& l, double* out) { l.task_weights({task_id, cluster}, out); });
           },
           "task_id"_a, "cluster"_a)
      .def_prop_ro("task_ids",
                   [](const Model& model) {
                     return to_numpy(read_shared(model, [](const Learner& l) {
                       return std::vector<std::int64_t>(l.task_ids().begin(), l.task_ids().end());
                     }));
                   },
                   nb::rv_policy::move)  // the array owns its memory, so it need not keep the model alive
      .def_prop_ro("gamma", [](const Model& model) { return read_shared(model, [](const Learner& l) { return l.gamma(); }); })
      .def_prop_ro("n_stored", [](const Model& model) { return read_shared(model, [](const Learner& l) { return l.size(); }); })
      .def_prop_ro("n_seen", [](const Model& model) { return read_shared(model, [](const Learner& l) { return l.n_seen(); }); })
      .def_prop_ro("n_mistakes", [](const Model& model) { return read_shared(model, [](const Learner& l) { return l.n_mistakes(); }); })
      .def_prop_ro("memory_bytes", [](const Model& model) { return read_shared(model, [](const Learner& l) { return sizeof(Model) + l.memory_bytes(); }); });
  bind_single_rows(m, learner);
}

}  // namespace budgetron
