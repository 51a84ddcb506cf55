// Parses lines of JSON objects into columns of numbers and dictionary-encoded text.
//
// The meaning of a line is defined in budgetron/io/formats/ndjson.py. Only common lines are parsed here: objects whose selected
// values are numbers, true, false or null in a column of numbers, and strings, short integers, true, false or null in a column of text. If some
// line is different, or is not JSON, Python parses all lines.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "readers/coded_column.hpp"
#include "readers/sparse_lines.hpp"

namespace budgetron {

struct JsonLines {
  bool complete = true;          // false: Python has to parse all lines, and the other members are empty
  std::vector<double> numbers;   // rows × columns of numbers; NaN where missing
  std::vector<CodedColumn> texts;  // missing values are empty
};

// `numbers` and `texts` are the names of the selected columns. No name may occur twice.
JsonLines scan_json(const char* text, const LineExtents& lines, const std::vector<std::string>& numbers,
                    const std::vector<std::string>& texts);

}  // namespace budgetron
