// Bindings of the text readers: delimited text, JSON, svmlight and Vowpal Wabbit lines. io/formats calls them.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "readers/delimited.hpp"
#include "readers/json_lines.hpp"
#include "readers/sparse_lines.hpp"

using namespace nb::literals;

namespace budgetron {

namespace {

// A dictionary-encoded column of text: (distinct values, index of each row's value).
using Coded = nb::typed<nb::tuple, nb::typed<nb::list, nb::str>, Out<std::int32_t>>;

Coded to_python(CodedColumn&& column) {
  nb::list values;
  for (std::size_t i = 0; i < column.n_values(); ++i) {
    const std::string_view value = column.value(i);
    values.append(nb::str(value.data(), value.size()));
  }
  return nb::make_tuple(values, to_numpy(std::move(column.codes)));
}

// `scan` returns the fields of `Scan` in their order: (numbers, texts as [(values, codes), …], lines, begins, ends,
// bad records as [(line, begin, end, error, field), …], consumed, n_lines, in_long_line).
using Bad = nb::typed<nb::tuple, int, int, int, int, int>;
using Scanned = nb::typed<nb::tuple, Out<double>, nb::typed<nb::list, Coded>, Out<std::int64_t>, Out<std::int64_t>,
                          Out<std::int64_t>, nb::typed<nb::list, Bad>, std::size_t, std::size_t, bool>;

Scanned scan(const nb::bytes& content, std::size_t offset, bool last, const std::string& delimiter, const nb::bytes& field_types,
             std::size_t max_rows, std::size_t max_bad, std::size_t max_line) {
  require(offset <= content.size(), "_core.scan: offset must lie within the content");
  require(delimiter.size() == 1, "_core.scan: delimiter must be one character");
  require(max_rows > 0 && max_bad > 0 && max_line > 0, "_core.scan: max_rows, max_bad and max_line must be above 0");
  ScanOptions options;
  options.delimiter = delimiter[0];
  for (std::size_t i = 0; i < field_types.size(); ++i) {
    require(field_types.c_str()[i] >= 0 && field_types.c_str()[i] <= 2, "_core.scan: field_types must be 0 (ignored), 1 (number) or 2 (text)");
    options.field_types.push_back(static_cast<FieldType>(field_types.c_str()[i]));
  }
  options.max_rows = max_rows;
  options.max_bad = max_bad;
  options.max_line = max_line;
  Scan scan;
  const char* data = content.c_str() + offset;
  const std::size_t size = content.size() - offset;
  {
    // Scanning reads only one Python object, the immutable `content`, so other threads may run meanwhile.
    nb::gil_scoped_release free;
    scan = scan_delimited(data, size, last, options);
  }
  nb::list texts, bad;
  for (auto& column : scan.texts) texts.append(to_python(std::move(column)));
  for (const BadRecord& b : scan.bad)
    bad.append(nb::make_tuple(b.line, b.begin, b.end, static_cast<int>(b.error), b.field));
  return nb::make_tuple(to_numpy(std::move(scan.numbers)), texts, to_numpy(std::move(scan.lines)),
                        to_numpy(std::move(scan.begins)), to_numpy(std::move(scan.ends)), bad, scan.consumed,
                        scan.n_lines, scan.in_long_line);
}

// `sparse_lines` returns (kind of each line, indptr, indices, values, weights, labels, tasks), see `SparseLines`.
using ScannedLines = nb::typed<nb::tuple, Out<std::uint8_t>, Out<std::int64_t>, Out<std::int64_t>, Out<double>, Out<double>,
                              Coded, Coded>;

// Line i is content[begins[i], ends[i]). Throws if a line is outside of the content; the scanners do not check this again.
LineExtents checked_extents(const nb::bytes& content, const Array1d<std::int64_t>& begins, const Array1d<std::int64_t>& ends) {
  const LineExtents lines{begins.data(), ends.data(), begins.shape(0)};
  require(ends.shape(0) == lines.n, "_core: begins and ends must have the same length");
  const auto size = static_cast<std::int64_t>(content.size());
  for (std::size_t i = 0; i < lines.n; ++i)
    require(0 <= lines.begins[i] && lines.begins[i] <= lines.ends[i] && lines.ends[i] <= size,
            "_core: every line must lie within the content");
  return lines;
}

// `task` says where Vowpal Wabbit text has the task: in the namespace of this name, in the tag if it is "tag", or nowhere if it is None.
ScannedLines sparse_lines(const nb::bytes& content, Array1d<std::int64_t> begins, Array1d<std::int64_t> ends, bool is_vw,
                          const std::optional<std::string>& task) {
  const LineExtents lines = checked_extents(content, begins, ends);
  const TaskFrom from = !task ? TaskFrom::nowhere : *task == "tag" ? TaskFrom::tag : TaskFrom::name;
  SparseLines scanned;
  const char* text = content.c_str();
  {
    nb::gil_scoped_release free;
    scanned = is_vw ? scan_vw(text, lines, from, task.value_or("")) : scan_svmlight(text, lines);
  }
  return nb::make_tuple(to_numpy(std::move(scanned.kinds)), to_numpy(std::move(scanned.indptr)), to_numpy(std::move(scanned.indices)),
                        to_numpy(std::move(scanned.values)), to_numpy(std::move(scanned.weights)), to_python(std::move(scanned.labels)),
                        to_python(std::move(scanned.tasks)));
}

// `json_lines` returns (numbers, texts as [(values, codes), …]), or None if Python has to parse some line.
using ScannedObjects = nb::typed<nb::tuple, Out<double>, nb::typed<nb::list, Coded>>;

std::optional<ScannedObjects> json_lines(const nb::bytes& content, Array1d<std::int64_t> begins, Array1d<std::int64_t> ends,
                                         const std::vector<std::string>& numbers, const std::vector<std::string>& texts) {
  const LineExtents lines = checked_extents(content, begins, ends);
  JsonLines scanned;
  const char* text = content.c_str();
  {
    nb::gil_scoped_release free;
    scanned = scan_json(text, lines, numbers, texts);
  }
  if (!scanned.complete) return std::nullopt;
  nb::list columns;
  for (auto& column : scanned.texts) columns.append(to_python(std::move(column)));
  return ScannedObjects(nb::make_tuple(to_numpy(std::move(scanned.numbers)), columns));
}

}  // namespace

void bind_readers(nb::module_& m) {
  m.def("scan", &scan, "content"_a, "offset"_a, "last"_a, "delimiter"_a, "field_types"_a, "max_rows"_a, "max_bad"_a, "max_line"_a);
  m.def("json_lines", &json_lines, "content"_a, "begins"_a.noconvert(), "ends"_a.noconvert(), "numbers"_a, "texts"_a);
  m.def("sparse_lines", &sparse_lines, "content"_a, "begins"_a, "ends"_a, "is_vw"_a, "task"_a.none());
}

}  // namespace budgetron
