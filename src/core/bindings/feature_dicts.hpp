// Dicts of features as sparse rows.
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
    std::size_t at;  // the place in the dict: values of one column are added in this order
    double value;
  };
  std::vector<Entry> entries;

  // Reads a dict; false if only Python can: another mapping, or keys and values other than strings and plain numbers.
  // `columns` maps the name of a feature to its column; for a name that it lacks, columns[name] is evaluated, which may add it.
  bool read(nanobind::handle features, nanobind::dict columns);

 private:
  bool look_up(nanobind::handle features, nanobind::dict columns, std::vector<nanobind::object>& missing);
  void merge();
};

}  // namespace budgetron
