// One row per call: a dense row, a dict of features, or a sparse row as three arrays (indptr, indices, data).
//
// These calls must add no more than half a microsecond to the time of the learner, so they accept only rows of the model's own kind. For
// rows of any other kind the result is NotImplemented, and Python converts the row or reports the error.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "bindings/feature_dicts.hpp"
#include "bindings/requirements.hpp"
#include "learner/model.hpp"

using namespace nb::literals;

namespace budgetron {

namespace {

using Codes = nb::typed<nb::dict, nb::any, int>;     // of labels
using Columns = nb::typed<nb::dict, nb::str, int>;  // of feature names
using Dicts = nb::typed<nb::list, nb::any>;
using Result = nb::typed<nb::object, nb::any>;  // Python's type hints cannot express that it may be NotImplemented

// One row. It holds the buffers and references of its data until the end of the call.
class OneRow {
 public:
  OneRow() = default;
  OneRow(const OneRow&) = delete;
  OneRow& operator=(const OneRow&) = delete;
  ~OneRow() {
    if (view_.obj) PyBuffer_Release(&view_);
  }

  // Returns false if Python must convert x, because it is not a row of the model's kind. Throws if a sparse row is invalid.
  bool read(const Config& c, nb::handle x, const nb::object& columns) {
    rows.count = 1;
    rows.d = c.d;
    if (!c.sparse) return read_dense(c, x);
    return nb::isinstance<nb::tuple>(x) ? read_arrays(c, nb::borrow<nb::tuple>(x)) : read_features(c, x, columns);
  }

  Rows rows;

 private:
  bool read_dense(const Config& c, nb::handle x) {
    // Without PyBUF_STRIDES, the exporter refuses an array that is not contiguous.
    if (PyObject_GetBuffer(x.ptr(), &view_, PyBUF_ND | PyBUF_FORMAT) != 0) {
      PyErr_Clear();
      view_.obj = nullptr;
      return false;
    }
    const char* format = view_.format ? view_.format : "B";  // without a format, the items are unsigned bytes
    if (view_.ndim != 1 || static_cast<std::size_t>(view_.shape[0]) != c.d || format[0] != (c.single ? 'f' : 'd') || format[1]) return false;
    if (c.single)
      rows.dense_f32 = static_cast<const float*>(view_.buf);
    else
      rows.dense_f64 = static_cast<const double*>(view_.buf);
    return true;
  }

  bool read_features(const Config& c, nb::handle x, const nb::object& columns) {
    FeatureRow row;
    if (!row.read(x, nb::borrow<nb::dict>(columns))) return false;
    const std::size_t n = row.entries.size();
    indices_.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto& entry = row.entries[i];
      require(entry.column >= 0 && static_cast<std::size_t>(entry.column) < c.d, "_core: a feature must have a column of the model");
      indices_[i] = static_cast<std::int32_t>(entry.column);
    }
    if (c.single) {
      single_.resize(n);
      for (std::size_t i = 0; i < n; ++i) {
        if (std::abs(row.entries[i].value) > FLT_MAX) return false;  // leave it to NumPy, which converts it to infinity with a warning
        single_[i] = static_cast<float>(row.entries[i].value);
      }
    } else {
      values_.resize(n);
      for (std::size_t i = 0; i < n; ++i) values_[i] = row.entries[i].value;
    }
    starts_[1] = static_cast<std::int64_t>(n);
    rows.indptr = starts_;
    rows.indices = indices_.data();
    rows.data_f32 = single_.data();
    rows.data_f64 = values_.data();
    return true;
  }

  // Returns false for a tuple of anything but three arrays of the right types, such as a user's row of numbers.
  bool read_arrays(const Config& c, const nb::tuple& x) { return c.single ? read_arrays_of<float>(c, x) : read_arrays_of<double>(c, x); }

  template <class T>
  bool read_arrays_of(const Config& c, const nb::tuple& x) {
    Array1d<std::int64_t> indptr;
    Array1d<std::int32_t> indices;
    Array1d<T> data;
    if (x.size() != 3 || !nb::try_cast(x[0], indptr, false) || !nb::try_cast(x[1], indices, false) || !nb::try_cast(x[2], data, false)) return false;
    kept_alive_ = x;
    const RowBlock block = RowBlock::csr<T>(indptr, indices, data);
    require_rows(c, block);
    require(block.rows.count == 1, "_core: a sparse row must be one row");
    rows = block.rows;
    return true;
  }

  Py_buffer view_{};
  nb::object kept_alive_;  // the arrays of a sparse row, referenced so that their memory stays valid
  std::int64_t starts_[2] = {0, 0};
  std::vector<std::int32_t> indices_;
  std::vector<double> values_;
  std::vector<float> single_;
};

// Where the margins of one row are written: a number, or for several outputs an array, which is allocated before anything is learned.
class OneMargin {
 public:
  explicit OneMargin(const Config& c) {
    if (c.n_outputs > 1) array_.emplace(c.n_outputs);
  }
  double* data() { return array_ ? array_->data() : &single_value_; }
  nb::object object() const { return array_ ? array_->object : nb::cast(single_value_); }

 private:
  double single_value_ = 0;
  std::optional<OutputArray<double>> array_;
};

// Maps the names of features and tasks to numbers. There is one per model, and Python passes it to every call.
struct Names {
  nb::object columns;   // a dict from feature names to columns, which adds missing names itself; None for a model of dense rows
  nb::object task_ids;  // a dict from task names to ids, which adds missing names itself; None if only Python can locate a task
  bool own_clusters;    // whether each task is a cluster of its own, because tasks are unrelated; otherwise all are in cluster 0

  // Finds the id and the cluster of a task that is a string, a small integer or None. Returns false for other tasks.
  bool locate(nb::handle task, Task& out) const {
    constexpr long long kTaskIdLimit = 1LL << 61;  // see budgetron/graphs/task_ids.py
    if (task_ids.is_none()) return false;
    out = {0, 0};
    if (task.is_none()) return true;
    if (PyLong_CheckExact(task.ptr())) {
      int overflow = 0;
      out.id = PyLong_AsLongLongAndOverflow(task.ptr(), &overflow);
      if (overflow || out.id <= -kTaskIdLimit || out.id >= kTaskIdLimit) return false;
    } else if (PyUnicode_CheckExact(task.ptr())) {
      const nb::object id = nb::steal(PyObject_GetItem(task_ids.ptr(), task.ptr()));
      if (!id.is_valid()) throw nb::python_error();
      out.id = nb::cast<std::int64_t>(id);
    } else {
      return false;
    }
    out.cluster = own_clusters ? out.id : 0;
    return true;
  }
};

// Looks up the code of a label. Returns false if y is not one of the known labels.
bool find_code(const nb::dict& codes, nb::handle y, std::int32_t& out) {
  const nb::ft_object_guard guard(codes);  // without the GIL, another thread could change the dict while it is read
  PyObject* code = PyDict_GetItemWithError(codes.ptr(), y.ptr());
  if (code) {
    out = nb::cast<std::int32_t>(nb::handle(code));
    return true;
  }
  if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
  PyErr_Clear();  // a label that is not hashable
  return false;
}

// Learns a row. Returns (margin or array of margins, flags), or None if the values of the row are rejected.
Result learn(Model& model, const OneRow& row, std::int32_t label, Task task, double weight) {
  const Config& c = model.config();
  require_tasks(c, &task.id, 1);
  require_label(c, label);
  require_weight(weight);
  OneMargin margin(c);
  std::uint8_t flags = 0;
  bool accepted = false;
  {
    nb::gil_scoped_release free;
    accepted = model.learn_one(row.rows, label, task, weight, margin.data(), &flags);
  }
  if (!accepted) return Result(nb::none());
  return Result(nb::make_tuple(margin.object(), flags));
}

// Returns the margin or an array of margins, or None if the values of the row are rejected.
Result margin_of(Model& model, const OneRow& row, Task task) {
  const Config& c = model.config();
  require_tasks(c, &task.id, 1);
  OneMargin margin(c);
  bool accepted = false;
  {
    nb::gil_scoped_release free;
    accepted = model.margin_one(row.rows, task, margin.data());
  }
  if (!accepted) return Result(nb::none());
  return Result(margin.object());
}

Result not_implemented() { return Result(nb::borrow(Py_NotImplemented)); }

Result learn_one(Model& model, const Names& names, nb::handle x, std::int32_t label, std::int64_t task_id,
                     std::int64_t cluster, double weight) {
  OneRow row;
  return row.read(model.config(), x, names.columns) ? learn(model, row, label, {task_id, cluster}, weight) : not_implemented();
}

Result margin_one(Model& model, const Names& names, nb::handle x, std::int64_t task_id, std::int64_t cluster) {
  OneRow row;
  return row.read(model.config(), x, names.columns) ? margin_of(model, row, {task_id, cluster}) : not_implemented();
}

// Like learn_one(), but with the label and the task as the user names them. The result is also NotImplemented if Python must convert these.
Result learn_example(Model& model, const Names& names, nb::handle x, nb::handle y, nb::handle task, const Codes& codes) {
  OneRow row;
  Task located{};
  std::int32_t label = 0;
  if (!find_code(codes, y, label) || !names.locate(task, located) || !row.read(model.config(), x, names.columns))
    return not_implemented();
  return learn(model, row, label, located, 1.0);
}

Result margin_example(Model& model, const Names& names, nb::handle x, nb::handle task) {
  OneRow row;
  Task located{};
  if (!names.locate(task, located) || !row.read(model.config(), x, names.columns)) return not_implemented();
  return margin_of(model, row, located);
}

// Converts many dicts to (indptr, indices, values). Returns NotImplemented if Python must read one of them.
Result hashed_rows(const Dicts& dicts, const Columns& columns) {
  std::vector<std::int64_t> starts{0};
  std::vector<std::int32_t> indices;
  std::vector<double> values;
  FeatureRow row;
  for (std::size_t i = 0; i < dicts.size(); ++i) {
    if (!row.read(nb::object(dicts[i]), columns)) return not_implemented();
    for (const auto& entry : row.entries) {
      require(entry.column >= 0 && entry.column <= INT32_MAX, "_core: a column must be a 32-bit number");
      indices.push_back(static_cast<std::int32_t>(entry.column));
      values.push_back(entry.value);
    }
    starts.push_back(static_cast<std::int64_t>(indices.size()));
  }
  return Result(nb::make_tuple(to_numpy(std::move(starts)), to_numpy(std::move(indices)), to_numpy(std::move(values))));
}

}  // namespace

void bind_single_rows(nb::module_& m, nb::class_<Model>& learner) {
  m.def("hashed_rows", &hashed_rows, "dicts"_a, "columns"_a);
  nb::class_<Names>(m, "Names")
      .def("__init__", [](Names* at, nb::object columns, nb::object task_ids, bool own_clusters) {
        new (at) Names{std::move(columns), std::move(task_ids), own_clusters};
      }, "columns"_a.none(), "task_ids"_a.none(), "own_clusters"_a);
  learner
      .def("learn_one", &learn_one, "names"_a, "x"_a.none(), "label"_a, "task_id"_a, "cluster"_a, "weight"_a)
      .def("margin_one", &margin_one, "names"_a, "x"_a.none(), "task_id"_a, "cluster"_a)
      .def("learn_example", &learn_example, "names"_a, "x"_a.none(), "y"_a.none(), "task"_a.none(), "codes"_a)
      .def("margin_example", &margin_example, "names"_a, "x"_a.none(), "task"_a.none());
}

}  // namespace budgetron
