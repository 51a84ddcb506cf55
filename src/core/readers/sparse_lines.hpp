// Parses lines of svmlight and Vowpal Wabbit text into sparse rows.
//
// budgetron/io/formats defines what a line means. Only common lines are parsed here: printable ASCII, decimal numbers, indices in
// range. Nearly all lines are of this kind. Other lines are marked as unusual and parsed in Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "readers/coded_column.hpp"

namespace budgetron {

// `nothing` is a line without an example, such as a comment.
enum class LineKind : std::uint8_t { row, nothing, unusual };

struct SparseLines {
  std::vector<std::uint8_t> kinds;       // of each line; the vectors below have entries for rows only
  std::vector<std::int64_t> indptr{0};
  std::vector<std::int64_t> indices;     // as written, or hashed to 32 bits
  std::vector<double> values;
  std::vector<double> weights;
  CodedColumn labels, tasks;
};

struct LineExtents {
  const std::int64_t *begins, *ends;  // into the text
  std::size_t n;
};

// A line is: label qid:task index:value … # comment
SparseLines scan_svmlight(const char* text, const LineExtents& lines);

// A line is: label importance base 'tag|namespace:scale feature:value …
// The task is the tag, the content of one namespace, or absent.
enum class TaskFrom : std::uint8_t { nowhere, tag, name };
SparseLines scan_vw(const char* text, const LineExtents& lines, TaskFrom from, const std::string& task);

}  // namespace budgetron
