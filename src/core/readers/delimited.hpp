// Parses delimited text (CSV, TSV) into columns of numbers and dictionary-encoded text, in one pass over a block of bytes. Records that do not
// follow the grammar (delimited.cpp) are reported, never repaired.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "readers/coded_column.hpp"

namespace budgetron {

// How a field is parsed.
enum class FieldType : std::uint8_t { ignored, number, text };

// Why a record was rejected.
enum class RecordError : std::uint8_t { fields, number, quote, open_quote, nul, utf8, too_long };

struct BadRecord {
  std::int64_t line;  // the line on which it begins, counted from 0 at the first byte scanned
  std::size_t begin, end;  // the bytes of the record, or of its first line if its end is unknown
  RecordError error;
  std::int64_t field;  // the index of the wrong field; for RecordError::fields, the number of fields; 0 if the error is in no single field
};

// The result of a scan.
struct Scan {
  std::vector<double> numbers;  // rows × columns of numbers; NaN where missing
  std::vector<CodedColumn> texts;
  std::vector<std::int64_t> lines;         // of each row
  std::vector<std::int64_t> begins, ends;  // of each row, in bytes
  std::vector<BadRecord> bad;
  std::size_t consumed = 0;  // bytes that the next scan can skip: records, empty lines, the beginning of a line over the limit
  std::int64_t n_lines = 0;  // lines in these bytes
  bool in_long_line = false;  // the last of these lines is too long and continues after these bytes
};

// How fields are separated and parsed, and how much of the text to scan.
struct ScanOptions {
  char delimiter = ',';
  std::vector<FieldType> field_types;  // one per field; empty: each line is one record, without fields
  std::size_t max_rows = 4096, max_bad = 1, max_line = 1 << 20;
};

// Scans the complete records of data[0, size). With `last`, the text ends here, so a record without a final newline is complete
// too. Stops after max_rows rows or max_bad bad records.
Scan scan_delimited(const char* data, std::size_t size, bool last, const ScanOptions& options);

}  // namespace budgetron
