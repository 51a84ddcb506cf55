// Python bindings. Contiguous arrays, sizes and plain settings are passed, a whole block per call, with the GIL released.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "readers/delimited.hpp"
#include "readers/sparse_lines.hpp"
#include "rules/model.hpp"
#include "rules/registry.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace budgetron {

namespace {

template <class T, class Shape>
using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu, Shape>;
template <class T>
using Line = In<T, nb::ndim<1>>;

template <class T>
nb::object to_numpy(std::vector<T>&& values) {
  auto kept = std::make_unique<std::vector<T>>(std::move(values));
  nb::capsule owner(kept.get(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  const std::vector<T>* held = kept.release();  // the capsule owns it now
  return nb::cast(nb::ndarray<nb::numpy, T>(const_cast<T*>(held->data()), {held->size()}, owner));
}

// A NumPy array that is allocated before learning begins, and filled by it.
template <class T>
struct Made {
  explicit Made(std::size_t n) : memory(new T[n ? n : 1]) {
    nb::capsule owner(memory.get(), [](void* p) noexcept { delete[] static_cast<T*>(p); });
    T* held = memory.release();
    object = nb::cast(nb::ndarray<nb::numpy, T>(held, {n}, owner));
    at = held;
  }
  T* data() const { return at; }
  std::unique_ptr<T[]> memory;
  T* at;
  nb::object object;
};

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

template <class Value>
Value named(const char* what, const std::string& name, std::initializer_list<std::pair<const char*, Value>> known) {
  std::string names;
  for (const auto& [one, value] : known) {
    if (name == one) return value;
    names += (names.empty() ? "" : ", ") + std::string(one);
  }
  throw std::invalid_argument(std::string("_core.make: ") + what + " must be one of " + names + "; got " + name);
}

// Whole numbers, booleans among them; other numbers; arrays of doubles.
Parameters parameters_of(const nb::dict& given) {
  Parameters parameters;
  for (auto [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    if (nb::isinstance<nb::bool_>(value) || (nb::isinstance<nb::int_>(value) && nb::cast<double>(value) >= 0)) {
      parameters.set(name, nb::isinstance<nb::bool_>(value) ? std::uint64_t{nb::cast<bool>(value)} : nb::cast<std::uint64_t>(value));
    } else if (nb::isinstance<nb::int_>(value) || nb::isinstance<nb::float_>(value)) {
      parameters.set(name, nb::cast<double>(value));
    } else {
      Line<double> array;
      if (!nb::try_cast(value, array)) throw std::invalid_argument("_core.make: parameters must be numbers or arrays of doubles; got another " + name);
      parameters.set(name, std::vector<double>(array.data(), array.data() + array.shape(0)));
    }
  }
  return parameters;
}

Config config_of(const nb::dict& d) {
  Config c;
  const auto text = [&](const char* name) { return nb::cast<std::string>(d[name]); };
  const auto whole = [&](const char* name) { return nb::cast<std::size_t>(d[name]); };
  c.rule = text("rule");
  c.kernel.kind = named<Kernel::Kind>("kernel", text("kernel"),
                                      {{"none", Kernel::Kind::none},
                                       {"linear", Kernel::Kind::linear},
                                       {"polynomial", Kernel::Kind::polynomial},
                                       {"gaussian", Kernel::Kind::gaussian}});
  c.kernel.gamma = nb::cast<double>(d["gamma"]);
  c.follow_scale = nb::cast<bool>(d["follow_scale"]);
  c.kernel.bias = nb::cast<double>(d["bias"]);
  c.kernel.degree = nb::cast<int>(d["degree"]);
  c.kernel.normalize = nb::cast<bool>(d["normalize"]);
  c.similarity = nb::cast<std::shared_ptr<Similarity>>(d["similarity"]);
  c.d = whole("d");
  c.n_outputs = whole("n_outputs");
  c.sparse = nb::cast<bool>(d["sparse"]);
  c.single = nb::cast<bool>(d["single"]);
  c.capacity = whole("capacity");
  c.pool = whole("pool");
  c.hash_seed = nb::cast<std::uint64_t>(d["hash_seed"]);
  c.n_tasks = whole("n_tasks");
  c.parameters = parameters_of(nb::cast<nb::dict>(d["parameters"]));
  constexpr std::size_t kLargest = std::size_t{1} << 40;
  require(c.similarity != nullptr, "_core.make: similarity must be a graph");
  require(c.n_outputs == 1 || (c.n_outputs > 2 && c.n_outputs <= kLargest),
          "_core.make: n_outputs must be 1 for two classes, else the number of classes");
  require(c.d > 0 && c.d <= static_cast<std::size_t>(INT32_MAX), "_core.make: d must be from 1 to 2**31 - 1");
  require(c.capacity <= kLargest && c.pool <= kLargest, "_core.make: capacity and pool must be at most 2**40");
  require(c.pool == 0 || (c.sparse && c.capacity > 0), "_core.make: pool needs sparse rows and a capacity");
  require(c.kernel.degree >= 1 && c.kernel.degree <= 1000, "_core.make: degree must be from 1 to 1000");
  return c;
}

// Row starts in order, all of them inside of `size` entries.
void require_starts(const std::int64_t* indptr, std::size_t n, std::size_t size) {
  require(n > 0 && indptr[0] >= 0 && indptr[n - 1] <= static_cast<std::int64_t>(size), "rows must lie within their entries");
  for (std::size_t i = 1; i < n; ++i) require(indptr[i - 1] <= indptr[i], "rows must follow each other");
}

// Rows from Python: a dense array, or the three arrays of a CSR matrix.
struct Block {
  Rows rows;
  bool sparse = false, single = false;

  template <class T>
  static Block dense(const In<T, nb::ndim<2>>& x) {
    Block block;
    block.rows.count = x.shape(0);
    block.rows.d = x.shape(1);
    block.single = std::is_same_v<T, float>;
    if constexpr (std::is_same_v<T, float>)
      block.rows.dense_f32 = x.data();
    else
      block.rows.dense_f64 = x.data();
    return block;
  }
  template <class T>
  static Block csr(const Line<std::int64_t>& indptr, const Line<std::int32_t>& indices, const Line<T>& data) {
    require(indices.shape(0) == data.shape(0), "_core.csr: indices and data must be equally long");
    require_starts(indptr.data(), indptr.shape(0), indices.shape(0));
    Block block;
    block.rows.count = indptr.shape(0) - 1;
    block.rows.indptr = indptr.data();
    block.rows.indices = indices.data();
    block.sparse = true;
    block.single = std::is_same_v<T, float>;
    if constexpr (std::is_same_v<T, float>)
      block.rows.data_f32 = data.data();
    else
      block.rows.data_f64 = data.data();
    for (std::size_t i = 0; i < block.rows.count; ++i)
      for (std::int64_t e = indptr.data()[i], before = -1; e < indptr.data()[i + 1]; ++e) {
        require(indices.data()[e] > before, "_core.csr: the column indices of a row must be ascending, from 0 on");
        before = indices.data()[e];
        block.width = std::max(block.width, static_cast<std::size_t>(before) + 1);
      }
    return block;
  }
  std::size_t width = 0;  // sparse: one more than the largest column
};

// A TypeError, because rows of another kind would be read through a null pointer.
void require_kind(const Config& c, bool sparse, bool single) {
  if (sparse == c.sparse && single == c.single) return;
  const auto kind = [](bool is_sparse, bool is_single) {
    return std::string(is_sparse ? "sparse" : "dense") + " float" + (is_single ? "32" : "64");
  };
  throw nb::type_error(("_core: this model takes " + kind(c.sparse, c.single) + " rows; got " + kind(sparse, single)).c_str());
}

void require_rows(const Config& c, const Block& block) {
  require_kind(c, block.sparse, block.single);
  if (block.sparse)
    require(block.width <= c.d, "_core: the rows must not have more columns than the model");
  else
    require(block.rows.d == c.d, "_core: the rows must have as many columns as the model");
}

// An explicit graph uses the task id as an index into a column.
void require_tasks(const Config& c, const std::int64_t* keys, std::size_t n) {
  const auto* graph = dynamic_cast<const Explicit*>(c.similarity.get());
  if (!graph) return;
  for (std::size_t i = 0; i < n; ++i)
    require(keys[i] >= 0 && static_cast<std::size_t>(keys[i]) < graph->tasks(), "_core: a task must be one of the graph's");
}

void require_label(const Config& c, std::int32_t label) {
  require(label >= 0 && static_cast<std::size_t>(label) < (c.n_outputs == 1 ? 2 : c.n_outputs),
          "_core: a label must be the number of a class, from 0 on");
}

void require_weight(double weight) {
  require(weight >= 0 && std::isfinite(weight), "_core: a weight must be a number from 0 on");
}

nb::object first_bad_row(const Model& model, const Block& block) {
  require_rows(model.config(), block);
  std::size_t bad;
  {
    nb::gil_scoped_release free;
    std::shared_lock<FairLock> hold(model.lock);
    bad = model.learner().first_bad_row(block.rows);
  }
  return bad == block.rows.count ? nb::none() : nb::cast(bad);
}

nb::tuple learn(Model& model, const Block& block, const Line<std::int32_t>& labels, const Line<std::int64_t>& keys,
                const Line<std::int64_t>& clusters, const std::optional<Line<double>>& weights) {
  const Config& c = model.config();
  const std::size_t n = block.rows.count;
  require(labels.shape(0) == n && keys.shape(0) == n && clusters.shape(0) == n && (!weights || weights->shape(0) == n),
          "_core: labels, keys, clusters and weights must be as many as the rows");
  require_rows(c, block);
  require_tasks(c, keys.data(), n);
  for (std::size_t i = 0; i < n; ++i) require_label(c, labels.data()[i]);
  for (std::size_t i = 0; weights && i < n; ++i) require_weight(weights->data()[i]);
  // The results are allocated before anything is learned, so that running out of memory changes nothing.
  Made<double> margins(n * c.n_outputs);
  Made<std::uint8_t> flags(n);
  nb::tuple out = nb::make_tuple(margins.object, flags.object);
  {
    nb::gil_scoped_release free;
    model.learn(block.rows, labels.data(), keys.data(), clusters.data(), weights ? weights->data() : nullptr, margins.data(),
                flags.data(), [] {
                  nb::gil_scoped_acquire held;  // an interrupt ends a long call
                  if (PyErr_CheckSignals()) throw nb::python_error();
                });
  }
  return out;
}

nb::object margins(const Model& model, const Block& block, const Line<std::int64_t>& keys,
                   const Line<std::int64_t>& clusters, std::size_t threads) {
  const Config& c = model.config();
  const std::size_t n = block.rows.count;
  require(keys.shape(0) == n && clusters.shape(0) == n, "_core: keys and clusters must be as many as the rows");
  require_rows(c, block);
  require_tasks(c, keys.data(), n);
  std::vector<double> out(n * c.n_outputs);
  {
    nb::gil_scoped_release free;
    // Threads take the next part when they are free, so a busy core takes fewer, and the work is done even if a thread
    // cannot be started. Results do not depend on which thread computes a row. The lock is held for one part at a time,
    // so that learning waits for at most 64 rows per thread, not for the block.
    constexpr std::size_t kPart = 64, kWorthAThread = 512;
    const std::size_t parts = (n + kPart - 1) / kPart;
    threads = std::max<std::size_t>(1, std::min(threads, (n + kWorthAThread - 1) / kWorthAThread));
    std::atomic<std::size_t> next{0};
    std::vector<std::exception_ptr> failures(threads);
    const auto work = [&](std::size_t t) noexcept {
      try {
        for (std::size_t p = next++; p < parts; p = next++) {
          const std::shared_lock<FairLock> hold(model.lock);
          model.learner().margins(block.rows, p * kPart, std::min(n, (p + 1) * kPart), keys.data(), clusters.data(), out.data());
        }
      } catch (...) {
        failures[t] = std::current_exception();  // carried to the calling thread
      }
    };
    std::vector<std::thread> others;
    others.reserve(threads - 1);
    // If no memory or no thread is available, the calling thread does the work. No exception may leave this scope while
    // threads run: destroying a thread that was not joined ends the process.
    try {
      for (std::size_t t = 1; t < threads; ++t) others.emplace_back(work, t);
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {
    }
    work(0);
    for (auto& other : others) other.join();
    for (auto& failure : failures)
      if (failure) std::rethrow_exception(failure);
  }
  return to_numpy(std::move(out));
}

State state_of(const nb::dict& reals, const nb::dict& integers) {
  State state;
  for (auto [name, values] : reals) {
    const auto array = nb::cast<Line<double>>(values);
    state.reals[nb::cast<std::string>(name)].assign(array.data(), array.data() + array.shape(0));
  }
  for (auto [name, values] : integers) {
    const auto array = nb::cast<Line<std::int64_t>>(values);
    state.integers[nb::cast<std::string>(name)].assign(array.data(), array.data() + array.shape(0));
  }
  return state;
}

nb::dict to_dict(State&& state) {
  nb::dict out;
  for (auto& [name, values] : state.reals) out[name.c_str()] = to_numpy(std::move(values));
  for (auto& [name, values] : state.integers) out[name.c_str()] = to_numpy(std::move(values));
  return out;
}

nb::dict query(Model& model, const std::string& name, const Block* block, const Line<std::int64_t>& keys,
               const Line<std::int64_t>& clusters, const nb::dict& reals, const nb::dict& integers) {
  const Config& c = model.config();
  const std::size_t n = block ? block->rows.count : 0;
  require(keys.shape(0) == n && clusters.shape(0) == n, "_core: keys and clusters must be as many as the rows");
  if (block) require_rows(c, *block);
  require_tasks(c, keys.data(), n);
  const Query asked{name, block ? &block->rows : nullptr, keys.data(), clusters.data(), state_of(reals, integers)};
  State answer;
  {
    nb::gil_scoped_release free;
    const Model::Exclusive hold(model);
    answer = model.learner().query(asked);
  }
  return to_dict(std::move(answer));
}

// Learns one example: (margin or array of margins, flags), or None if the row is rejected.
template <class T>
nb::object learn_one(Model& model, const In<T, nb::ndim<1>>& x, std::int32_t label, std::int64_t key, std::int64_t cluster,
                     double weight) {
  const Config& c = model.config();
  require_kind(c, false, std::is_same_v<T, float>);
  require(x.shape(0) == c.d, "_core: the rows must have as many columns as the model");
  require_tasks(c, &key, 1);
  require_label(c, label);
  require_weight(weight);
  Rows rows;
  rows.count = 1;
  rows.d = x.shape(0);
  if constexpr (std::is_same_v<T, float>)
    rows.dense_f32 = x.data();
  else
    rows.dense_f64 = x.data();
  double one;
  std::optional<Made<double>> many;
  if (c.n_outputs > 1) many.emplace(c.n_outputs);
  std::uint8_t flags;
  bool good;
  {
    nb::gil_scoped_release free;
    good = model.learn_one(rows, label, {key, cluster}, weight, many ? many->data() : &one, &flags);
  }
  if (!good) return nb::none();
  if (many) return nb::make_tuple(many->object, flags);
  return nb::make_tuple(one, flags);
}

nb::dict save(Model& model) {
  State state;
  Store::Dump rows;
  {
    nb::gil_scoped_release free;
    const Model::Exclusive hold(model);
    model.learner().save(state);
    rows = model.learner().store().dump();
  }
  nb::dict out = to_dict(std::move(state));
  out["rows"] = to_numpy(std::move(rows.values));
  out["indptr"] = to_numpy(std::move(rows.indptr));
  out["indices"] = to_numpy(std::move(rows.indices));
  return out;
}

void load(Model& model, const nb::dict& reals, const nb::dict& integers, const Block& block) {
  const Config& c = model.config();
  if (block.rows.count) require_rows(c, block);
  else require_kind(c, block.sparse, block.single);
  const State state = state_of(reals, integers);
  nb::gil_scoped_release free;
  model.load(state, block.rows);
}

template <class Read>
nb::object per_slot(const Model& model, Read read) {
  std::vector<double> out;
  {
    nb::gil_scoped_release free;
    std::shared_lock<FairLock> hold(model.lock);
    out.resize(model.config().n_outputs * model.learner().size());
    read(model.learner(), out.data());
  }
  return to_numpy(std::move(out));
}

// (values, codes)
nb::tuple coded(CodedColumn&& column) {
  nb::list values;
  for (const std::string& value : column.values) values.append(nb::str(value.data(), value.size()));
  return nb::make_tuple(values, to_numpy(std::move(column.codes)));
}

// (numbers, [(values, codes), …], lines, begins, ends, [(line, begin, end, trouble, field), …], consumed, lines ended,
// unfinished)
nb::tuple scan(const nb::bytes& content, std::size_t offset, bool last, const std::string& delimiter, const nb::bytes& wants,
               std::size_t max_rows, std::size_t max_bad, std::size_t max_line) {
  require(offset <= content.size(), "the offset must lie within the content");
  require(delimiter.size() == 1 && max_rows > 0 && max_bad > 0 && max_line > 0, "the form must be one to scan by");
  Form form;
  form.delimiter = delimiter[0];
  for (std::size_t i = 0; i < wants.size(); ++i) {
    require(wants.c_str()[i] >= 0 && wants.c_str()[i] <= 2, "a want must be nothing, number or text");
    form.wants.push_back(static_cast<Want>(wants.c_str()[i]));
  }
  form.max_rows = max_rows;
  form.max_bad = max_bad;
  form.max_line = max_line;
  Scan found;
  const char* data = content.c_str() + offset;
  const std::size_t size = content.size() - offset;
  {
    nb::gil_scoped_release free;
    found = scan_delimited(data, size, last, form);
  }
  nb::list texts, bad;
  for (auto& column : found.texts) texts.append(coded(std::move(column)));
  for (const BadRecord& b : found.bad)
    bad.append(nb::make_tuple(b.line, b.begin, b.end, static_cast<int>(b.trouble), b.field));
  return nb::make_tuple(to_numpy(std::move(found.numbers)), texts, to_numpy(std::move(found.lines)),
                        to_numpy(std::move(found.begins)), to_numpy(std::move(found.ends)), bad, found.consumed,
                        found.n_lines, found.unfinished);
}

// (kinds of the lines, indptr, indices, values, weights, labels, tasks), where a line is content[begin, end); `task` is
// that of Vowpal Wabbit text, and may be "tag".
nb::tuple sparse_lines(const nb::bytes& content, Line<std::int64_t> begins, Line<std::int64_t> ends, bool is_vw,
                       const std::optional<std::string>& task) {
  const LineExtents lines{begins.data(), ends.data(), begins.shape(0)};
  require(ends.shape(0) == lines.n, "every line must have a begin and an end");
  const auto size = static_cast<std::int64_t>(content.size());
  for (std::size_t i = 0; i < lines.n; ++i)
    require(0 <= lines.begins[i] && lines.begins[i] <= lines.ends[i] && lines.ends[i] <= size,
            "every line must lie within the content");
  const TaskFrom from = !task ? TaskFrom::nowhere : *task == "tag" ? TaskFrom::tag : TaskFrom::name;
  SparseLines found;
  const char* text = content.c_str();
  {
    nb::gil_scoped_release free;
    found = is_vw ? scan_vw(text, lines, from, task.value_or("")) : scan_svmlight(text, lines);
  }
  return nb::make_tuple(to_numpy(std::move(found.kinds)), to_numpy(std::move(found.indptr)), to_numpy(std::move(found.indices)),
                        to_numpy(std::move(found.values)), to_numpy(std::move(found.weights)), coded(std::move(found.labels)),
                        coded(std::move(found.tasks)));
}

template <class Get>
auto shared(const Model& model, Get get) {
  nb::gil_scoped_release free;
  std::shared_lock<FairLock> hold(model.lock);
  return get(model.learner());
}

template <class T>
std::vector<T> copied(const Vec<T>& values) {
  return std::vector<T>(values.begin(), values.end());
}

}  // namespace

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);  // a process that is interrupted leaks by design
  m.def("level", [] { return simd().name; });

  m.def("scan", &scan, "content"_a, "offset"_a, "last"_a, "delimiter"_a, "wants"_a, "max_rows"_a, "max_bad"_a, "max_line"_a);
  m.def("sparse_lines", &sparse_lines, "content"_a, "begins"_a, "ends"_a, "is_vw"_a, "task"_a.none());

  nb::class_<Similarity>(m, "Similarity").def("bytes", [](const Similarity& s) -> std::size_t {
    const auto* graph = dynamic_cast<const Explicit*>(&s);
    return graph ? graph->bytes() : 0;
  });
  m.def("clique", [](double diagonal, double off) -> std::shared_ptr<Similarity> {
    return std::make_shared<Clique>(diagonal, off);
  });
  m.def("dense_graph", [](const In<double, nb::ndim<2>>& a, double c_g2) -> std::shared_ptr<Similarity> {
    require(a.shape(0) == a.shape(1) && a.shape(0) > 0, "a graph's table must be square");
    return std::make_shared<Explicit>(std::vector<double>(a.data(), a.data() + a.size()), a.shape(0), c_g2);
  });
  m.def("sparse_graph",
        [](const Line<std::int64_t>& indptr, const Line<std::int32_t>& indices, const Line<double>& data,
           const Line<std::int64_t>& component, bool singular, double c_g2,
           std::size_t cache_bytes) -> std::shared_ptr<Similarity> {
          const std::size_t k = component.shape(0);
          require(k > 0 && indptr.shape(0) == k + 1 && indices.shape(0) == data.shape(0), "a graph's arrays must agree in number");
          require_starts(indptr.data(), k + 1, indices.shape(0));
          for (std::size_t e = 0; e < indices.shape(0); ++e)
            require(indices.data()[e] >= 0 && static_cast<std::size_t>(indices.data()[e]) < k, "a graph's entries must be of its tasks");
          for (std::size_t i = 0; i < k; ++i)
            require(component.data()[i] >= 0 && static_cast<std::size_t>(component.data()[i]) < k, "a graph's components must be numbered");
          Explicit::Sparse a;
          a.indptr.assign(indptr.data(), indptr.data() + indptr.size());
          a.indices.assign(indices.data(), indices.data() + indices.size());
          a.data.assign(data.data(), data.data() + data.size());
          a.component.assign(component.data(), component.data() + component.size());
          a.singular = singular;
          return std::make_shared<Explicit>(std::move(a), component.size(), c_g2, cache_bytes);
        });
  m.def("graph_bytes", [](const std::shared_ptr<Similarity>& similarity) {
    const auto* graph = dynamic_cast<const Explicit*>(similarity.get());
    return graph ? graph->bytes() + graph->workspace_bytes() : std::size_t{0};
  });

  nb::class_<Block>(m, "Block");
  m.def("rows", &Block::dense<float>, "x"_a.noconvert(), nb::keep_alive<0, 1>());
  m.def("rows", &Block::dense<double>, "x"_a.noconvert(), nb::keep_alive<0, 1>());
  m.def("csr", &Block::csr<float>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "data"_a.noconvert(),
        nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());
  m.def("csr", &Block::csr<double>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "data"_a.noconvert(),
        nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>());

  nb::class_<Model>(m, "Learner")
      .def("first_bad_row", &first_bad_row)
      .def("learn", &learn, "rows"_a, "labels"_a.noconvert(), "keys"_a.noconvert(), "clusters"_a.noconvert(),
           "weights"_a.none() = nb::none())
      .def("learn_one", &learn_one<double>, "x"_a.noconvert(), "label"_a, "key"_a, "cluster"_a, "weight"_a)
      .def("learn_one", &learn_one<float>, "x"_a.noconvert(), "label"_a, "key"_a, "cluster"_a, "weight"_a)
      .def("margins", &margins, "rows"_a, "keys"_a.noconvert(), "clusters"_a.noconvert(), "threads"_a = 1)
      .def("query", &query, "name"_a, "rows"_a.none(), "keys"_a.noconvert(), "clusters"_a.noconvert(), "reals"_a, "integers"_a)
      .def("forget",
           [](Model& model, std::int64_t key) {
             nb::gil_scoped_release free;
             const Model::Exclusive hold(model);
             model.learner().forget(key);
           })
      .def("save", &save)
      .def("load", &load)
      .def("coefficients",
           [](const Model& model) { return per_slot(model, [](const Learner& l, double* out) { l.coefficients(out); }); })
      .def("task_weights",
           [](const Model& model, std::int64_t key, std::int64_t cluster) {
             require_tasks(model.config(), &key, 1);
             return per_slot(model, [&](const Learner& l, double* out) { l.task_weights({key, cluster}, out); });
           })
      .def_prop_ro("key", [](const Model& m) { return to_numpy(shared(m, [](const Learner& l) { return copied(l.keys()); })); })
      .def_prop_ro("cluster", [](const Model& m) { return to_numpy(shared(m, [](const Learner& l) { return copied(l.clusters()); })); })
      .def_prop_ro("arrival", [](const Model& m) { return to_numpy(shared(m, [](const Learner& l) { return copied(l.arrivals()); })); })
      .def_prop_ro("gamma", [](const Model& m) { return shared(m, [](const Learner& l) { return l.gamma(); }); })
      .def_prop_ro("n_stored", [](const Model& m) { return shared(m, [](const Learner& l) { return l.size(); }); })
      .def_prop_ro("n_seen", [](const Model& m) { return shared(m, [](const Learner& l) { return l.n_seen(); }); })
      .def_prop_ro("n_mistakes", [](const Model& m) { return shared(m, [](const Learner& l) { return l.n_mistakes(); }); })
      .def_prop_ro("memory_bytes", [](const Model& m) { return shared(m, [](const Learner& l) { return sizeof(Model) + l.memory_bytes(); }); });

  m.def("rules", &rule_names);
  m.def("make", [](const nb::dict& settings) { return new Model(config_of(settings)); }, nb::rv_policy::take_ownership);
}

}  // namespace budgetron
