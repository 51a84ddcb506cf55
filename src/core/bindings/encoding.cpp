// Bindings of readers/encoding.hpp: hashing words, parsing dates, joining columns. Called by budgetron/io/encoding.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/bindings.hpp"
#include "readers/encoding.hpp"

using namespace nb::literals;

namespace budgetron {

namespace {

using Csr = nb::typed<nb::tuple, Out<std::int64_t>, Out<std::int32_t>, Out<double>>;
using Texts = nb::typed<nb::list, nb::str>;
using CodedRowsTuple = nb::typed<nb::tuple, Array1d<std::int64_t>, Array1d<std::int32_t>, Array1d<double>, Array1d<std::int32_t>>;

Csr to_csr(CsrRows&& rows) {
  return Csr(nb::make_tuple(to_numpy(std::move(rows.indptr)), to_numpy(std::move(rows.indices)), to_numpy(std::move(rows.values))));
}

// The bytes of a Python string. They are valid as long as the string exists.
std::string_view utf8(nb::handle text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (!data) throw nb::python_error();
  return {data, static_cast<std::size_t>(size)};
}

bool is_ascii(std::string_view text) {
  unsigned char bits = 0;  // of all bytes; the loop has no early exit, so that compilers vectorise it
  for (const char c : text) bits = static_cast<unsigned char>(bits | static_cast<unsigned char>(c));
  return bits < 0x80;
}

// Whether \w of Python's `re` matches a character beyond ASCII.
bool is_word(std::uint32_t character) {
#ifdef Py_LIMITED_API
  // The stable ABI can test only strings, which is slow, so the result for each character is cached. The GIL protects the cache.
  static std::unordered_map<std::uint32_t, bool> known;
  const auto entry = known.find(character);
  if (entry != known.end()) return entry->second;
  const nb::object letter = nb::steal(PyUnicode_FromOrdinal(static_cast<int>(character)));
  if (!letter.is_valid()) throw nb::python_error();
  return known.emplace(character, nb::cast<bool>(letter.attr("isalnum")())).first->second;
#else
  return Py_UNICODE_ISALNUM(static_cast<Py_UCS4>(character)) != 0;
#endif
}

Csr hashed_words(const Texts& texts, std::uint32_t size, std::uint32_t shift) {
  require(size > 0 && size <= 1u << 30 && shift < size, "_core: the number of columns must be from 1 to 2**30, and the shift below it");
  WordHasher hasher(size, shift, is_word);
  std::string lower;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const nb::object text = texts[i];
    if (!PyUnicode_Check(text.ptr())) throw nb::type_error("_core: a text must be a string");
    const std::string_view bytes = utf8(text);
    if (is_ascii(bytes)) {
      lower.assign(bytes);
      for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
      hasher.add(lower);
    } else {
      const nb::object lower_text = text.attr("lower")();
      hasher.add(utf8(lower_text));
    }
  }
  return to_csr(std::move(hasher.rows));
}

// Converts texts to days since 1970. A text that parse_date() cannot parse becomes infinity, and Python parses it.
Out<double> parse_dates(const Texts& texts) {
  std::vector<double> days(texts.size());
  for (std::size_t i = 0; i < days.size(); ++i) {
    const nb::object text = texts[i];
    if (!PyUnicode_Check(text.ptr())) throw nb::type_error("_core: a text must be a string");
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (!data) PyErr_Clear();  // half of a surrogate pair: no date
    const std::string_view bytes(data ? data : "", data ? static_cast<std::size_t>(size) : 0);
    if (!is_ascii(bytes) || !parse_date(bytes, days[i])) days[i] = std::numeric_limits<double>::infinity();
  }
  return to_numpy(std::move(days));
}

Csr join_rows(const In<double, nb::ndim<2>>& dense, const std::vector<CodedRowsTuple>& parts) {
  std::vector<CodedRows> coded;
  for (const CodedRowsTuple& part : parts) {
    require(part.size() == 4, "_core: a part must be indptr, indices, values and codes");
    const auto indptr = nb::cast<Array1d<std::int64_t>>(part[0], false);
    const auto indices = nb::cast<Array1d<std::int32_t>>(part[1], false);
    const auto values = nb::cast<Array1d<double>>(part[2], false);
    const auto codes = nb::cast<Array1d<std::int32_t>>(part[3], false);
    require(indices.shape(0) == values.shape(0) && codes.shape(0) == dense.shape(0), "_core: a part must have an entry per row");
    require_starts(indptr.data(), indptr.shape(0), indices.shape(0));
    for (std::size_t i = 0; i < codes.shape(0); ++i)
      require(codes.data()[i] >= 0 && static_cast<std::size_t>(codes.data()[i]) + 1 < indptr.shape(0), "_core: a code must be the index of a value");
    for (std::size_t k = 0; k < indices.shape(0); ++k)
      require(indices.data()[k] >= 0 && indices.data()[k] < 1 << 30, "_core: a column must be at least 0 and below 2**30");
    coded.push_back({indptr.data(), indices.data(), values.data(), codes.data()});
  }
  require(dense.shape(1) < std::size_t{1} << 30, "_core: there must be fewer than 2**30 columns");
  CsrRows rows;
  {
    nb::gil_scoped_release free;
    rows = joined_rows(dense.data(), dense.shape(0), dense.shape(1), coded);
  }
  return to_csr(std::move(rows));
}

}  // namespace

void bind_encoding(nb::module_& m) {
  m.def("hashed_words", &hashed_words, "texts"_a, "size"_a, "shift"_a);
  m.def("parse_dates", &parse_dates, "texts"_a);
  m.def("joined_rows", &join_rows, "dense"_a.noconvert(), "parts"_a);
}

}  // namespace budgetron
