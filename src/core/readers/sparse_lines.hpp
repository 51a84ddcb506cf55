// Parses lines of svmlight and Vowpal Wabbit text to sparse rows.
//
// The meaning of a line is defined in budgetron/io/svmlight.py and vw.py. Only common lines are parsed here, which are
// nearly all: printable ASCII, numbers in digits, indices in range. Other lines are marked as unusual and parsed in Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "readers/coded_column.hpp"

namespace budgetron {

enum class LineKind : std::uint8_t { row, nothing, unusual };

struct SparseLines {
  std::vector<std::uint8_t> kinds;       // of each line
  std::vector<std::int64_t> indptr{0};   // the rows alone from here on
  std::vector<std::int64_t> indices;     // as written, or hashed to 32 bits
  std::vector<double> values;
  std::vector<double> weights;
  CodedColumn labels, tasks;
};

struct LineExtents {
  const std::int64_t *begins, *ends;  // into the text
  std::size_t n;
};

// label qid:task index:value … # comment
SparseLines scan_svmlight(const char* text, const LineExtents& lines);

// label importance base 'tag|namespace:scale feature:value …; the task is the tag, or what a namespace holds, or nothing.
enum class TaskFrom : std::uint8_t { nowhere, tag, name };
SparseLines scan_vw(const char* text, const LineExtents& lines, TaskFrom from, const std::string& task);

}  // namespace budgetron
