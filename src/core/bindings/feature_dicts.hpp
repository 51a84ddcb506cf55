// Converts dicts of features to sparse rows.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace budgetron {

// One row: its columns in ascending order, and their values, none of them 0.
struct FeatureRow {
  struct Entry {
    std::int64_t column;
    std::size_t at;  // the position in the dict: values of the same column are added in this order
    double value;
  };
  std::vector<Entry> entries;

  // Reads a dict. Returns false if Python must read it, because it is another kind of mapping, or has keys other than strings and
  // integers, or values other than strings and plain numbers. `columns` maps the name of a feature to its column. For a missing name,
  // columns[name] is evaluated, which may add the name.
  bool read(nanobind::handle features, nanobind::dict columns);

 private:
  bool look_up(nanobind::handle features, nanobind::dict columns, std::vector<nanobind::object>& missing);
  void merge();
};

}  // namespace budgetron
