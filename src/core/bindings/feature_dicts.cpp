// budgetron/learners/input/hashing.py defines the meaning of a dict, and reads the dicts that this file leaves to Python.
#include "bindings/feature_dicts.hpp"

#include <algorithm>

namespace nb = nanobind;

namespace budgetron {

namespace {

// Converts the value of a feature to a number. If the value is a string, the feature becomes "name=value" with the value 1. Returns false
// for other types and for integers that are too large for a double.
bool value_of(PyObject* value, nb::object& name, double& out) {
  if (PyFloat_Check(value)) {
    out = PyFloat_AsDouble(value);
    return true;
  }
  if (PyLong_CheckExact(value) || PyBool_Check(value)) {
    out = PyLong_AsDouble(value);
    if (out != -1.0 || !PyErr_Occurred()) return true;
    PyErr_Clear();  // beyond the range of a double
    return false;
  }
  if (!PyUnicode_CheckExact(value)) return false;
  name = nb::steal(PyUnicode_FromFormat("%U=%U", name.ptr(), value));
  if (!name.is_valid()) throw nb::python_error();
  out = 1.0;
  return true;
}

}  // namespace

bool FeatureRow::read(nb::handle features, nb::dict columns) {
  if (!PyDict_CheckExact(features.ptr())) return false;
  std::vector<nb::object> missing;
  if (!look_up(features, columns, missing)) return false;
  if (!missing.empty()) {
    // columns[name] runs Python code, which could change the dict, so it must not be called during the iteration over the dict.
    for (const nb::object& name : missing)
      if (!nb::steal(PyObject_GetItem(columns.ptr(), name.ptr())).is_valid()) throw nb::python_error();
    missing.clear();
    if (!look_up(features, columns, missing) || !missing.empty()) return false;
  }
  merge();
  return true;
}

bool FeatureRow::look_up(nb::handle features, nb::dict columns, std::vector<nb::object>& missing) {
  // Without the GIL, another thread could change a dict while it is read.
  const nb::ft_object2_guard guard(features, columns);
  entries.clear();
  entries.reserve(static_cast<std::size_t>(PyDict_Size(features.ptr())));
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(features.ptr(), &at, &key, &value);) {
    nb::object name;
    if (PyUnicode_CheckExact(key)) {
      name = nb::borrow(key);
    } else if (PyLong_CheckExact(key)) {
      name = nb::steal(PyObject_Str(key));
      if (!name.is_valid()) throw nb::python_error();
    } else {
      return false;
    }
    double number = 0;
    if (!value_of(value, name, number)) return false;
    PyObject* column = PyDict_GetItemWithError(columns.ptr(), name.ptr());
    if (column)
      entries.push_back({PyLong_AsLongLong(column), entries.size(), number});
    else if (PyErr_Occurred())
      throw nb::python_error();
    else
      missing.push_back(std::move(name));
  }
  return true;
}

void FeatureRow::merge() {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.column != b.column ? a.column < b.column : a.at < b.at; });
  std::size_t n_nonzero = 0;
  for (std::size_t i = 0; i < entries.size();) {
    Entry sum = entries[i];
    for (++i; i < entries.size() && entries[i].column == sum.column; ++i) sum.value += entries[i].value;
    if (sum.value != 0.0) entries[n_nonzero++] = sum;
  }
  entries.resize(n_nonzero);
}

}  // namespace budgetron
