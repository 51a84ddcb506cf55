// The grammar of delimited text:
//   record   fields separated by the delimiter, ended by \n, \r\n or the end of the text; an empty line is not a record
//   field    "…" with "" for a quote, or any text without delimiter and newline that does not begin with a quote
//   number   blanks [+-] digits with at most one point [e exponent] blanks; true and false are 1 and 0, whatever the case;
//            the absolute value is at most 1e100; the words of is_missing() are NaN
// If a record has a wrong quote or is too long, its end is unknown. Only its first line is then skipped.
#include "readers/delimited.hpp"

#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "readers/decimal.hpp"

namespace budgetron {

namespace {

struct Field {
  std::size_t begin, end;
  bool has_doubled_quotes;  // it contains "", which stands for one quote
};

bool is_missing(std::string_view s) {
  switch (s.size()) {
    case 0: return true;
    case 1: return s == "?";
    case 2: return s == "NA";
    case 3: return s == "NaN" || s == "nan" || s == "N/A" || s == "n/a";
    case 4: return s == "null" || s == "NULL" || s == "None" || s == "<NA>" || s == "#N/A";
    default: return false;
  }
}

bool equals_ignoring_case(std::string_view s, const char* lower) {
  if (s.size() != std::strlen(lower)) return false;
  for (std::size_t i = 0; i < s.size(); ++i)
    if ((s[i] | 0x20) != lower[i]) return false;
  return true;
}

bool to_number(std::string_view s, double& out) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  // Most fields are plain numbers. No word for a missing value begins with a digit or a minus.
  if (!s.empty() && (is_digit(s.front()) || s.front() == '-')) return parse_decimal(s, out);
  if (is_missing(s)) {
    out = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  if (equals_ignoring_case(s, "true") || equals_ignoring_case(s, "false")) {
    out = s.size() == 4 ? 1.0 : 0.0;
    return true;
  }
  return parse_decimal(s, out);
}

bool is_ascii_without_nul(const char* p, std::size_t n) {  // without an early exit, so that compilers vectorise the loop
  bool plain = true;
  for (std::size_t i = 0; i < n; ++i) plain &= static_cast<signed char>(p[i]) > 0;
  return plain;
}

bool is_utf8(const unsigned char* p, const unsigned char* end) {
  const auto follows = [&](int k) { return p + k < end && (p[k] & 0xC0) == 0x80; };
  while (p < end) {
    if (p[0] < 0x80) {
      p += 1;
    } else if (p[0] >= 0xC2 && p[0] <= 0xDF && follows(1)) {
      p += 2;
    } else if ((p[0] & 0xF0) == 0xE0 && follows(1) && follows(2)) {
      if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F)) return false;  // an overlong encoding, or a surrogate
      p += 3;
    } else if (p[0] >= 0xF0 && p[0] <= 0xF4 && follows(1) && follows(2) && follows(3)) {
      if ((p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F)) return false;
      p += 4;
    } else {
      return false;
    }
  }
  return true;
}

class Scanner {
 public:
  Scanner(const char* data, std::size_t size, bool last, const ScanOptions& options)
      : data_(data), size_(size), last_(last), options_(options) {
    for (const FieldType type : options.field_types) n_numbers_ += type == FieldType::number;
    std::size_t n_texts = 0;
    for (const FieldType type : options.field_types) n_texts += type == FieldType::text;
    coders_.resize(n_texts);
  }

  Scan run() {
    while (scan_.lines.size() < options_.max_rows && scan_.bad.size() < options_.max_bad && scan_record()) {
    }
    for (Coder& coder : coders_) scan_.texts.push_back(coder.finish());
    scan_.consumed = at_;
    scan_.n_lines = line_;
    return std::move(scan_);
  }

 private:
  static constexpr std::size_t kIncomplete = SIZE_MAX, kOpen = SIZE_MAX - 1;  // results of closing_quote()

  // Scans one record. Returns false if the bytes hold no further complete record.
  bool scan_record() {
    if (at_ == size_) return false;
    const std::size_t begin = at_;
    const std::size_t first_end = line_end(begin);
    if (first_end == size_ && !last_ && size_ - begin <= options_.max_line) return false;
    if (first_end - begin > options_.max_line) {
      scan_.in_long_line = first_end == size_ && !last_;
      return skip_line(begin, first_end, RecordError::too_long, 0);
    }
    const std::size_t trimmed = without_return(begin, first_end);
    if (trimmed == begin) return advance(first_end, 1);
    fields_.clear();
    if (options_.field_types.empty()) return add_record(begin, trimmed, first_end, 1);
    std::size_t p = begin, end = first_end, content_end = trimmed;
    std::int64_t lines = 1;
    for (;;) {
      if (p < content_end && data_[p] == '"') {
        const std::size_t limit = size_ - begin > options_.max_line ? begin + options_.max_line : size_;
        bool has_doubled_quotes = false;
        const std::size_t q = closing_quote(p + 1, limit, has_doubled_quotes);
        if (q == kIncomplete) return false;
        if (q == kOpen) return skip_line(begin, first_end, RecordError::open_quote, number_of_fields());
        if (q >= end) {  // the field continues on later lines
          for (std::size_t i = end; i < q; ++i) lines += data_[i] == '\n';
          end = line_end(q);
          if (end == size_ && !last_ && size_ - begin <= options_.max_line) return false;
          if (end - begin > options_.max_line) return skip_line(begin, first_end, RecordError::open_quote, number_of_fields());
          content_end = without_return(q, end);
        }
        fields_.push_back({p + 1, q, has_doubled_quotes});
        p = q + 1;
        if (p < content_end && data_[p] != options_.delimiter) return skip_line(begin, first_end, RecordError::quote, number_of_fields() - 1);
        if (p >= content_end) break;
        ++p;
      } else {
        const void* delimiter = p < content_end ? std::memchr(data_ + p, options_.delimiter, content_end - p) : nullptr;
        const std::size_t q = delimiter ? static_cast<std::size_t>(static_cast<const char*>(delimiter) - data_) : content_end;
        fields_.push_back({p, q, false});
        if (q == content_end) break;
        p = q + 1;
      }
    }
    return add_record(begin, content_end, end, lines);
  }

  // Finds the closing quote of a quoted field in data_[from, limit); it may be on a later line. Returns kIncomplete if later bytes may
  // contain it, and kOpen if there is none.
  std::size_t closing_quote(std::size_t from, std::size_t limit, bool& has_doubled_quotes) const {
    for (std::size_t q = from;; q += 2) {  // a doubled quote is part of the text
      const void* quote = q < limit ? std::memchr(data_ + q, '"', limit - q) : nullptr;
      if (quote == nullptr) return limit == size_ && !last_ ? kIncomplete : kOpen;
      q = static_cast<std::size_t>(static_cast<const char*>(quote) - data_);
      if (q + 1 == size_) return last_ ? q : kIncomplete;  // the next byte may be another quote
      if (data_[q + 1] != '"') return q;
      has_doubled_quotes = true;
    }
  }

  // Adds a record, whose fields are in fields_, to the columns or to the bad records. `end` is the position of its newline or the end of the
  // text, and `content_end` the position of a carriage return before it, or `end`.
  bool add_record(std::size_t begin, std::size_t content_end, std::size_t end, std::int64_t lines) {
    if (!is_ascii_without_nul(data_ + begin, content_end - begin)) {
      if (std::memchr(data_ + begin, 0, content_end - begin)) return reject(begin, content_end, end, lines, RecordError::nul, 0);
      const auto* bytes = reinterpret_cast<const unsigned char*>(data_);
      if (!is_utf8(bytes + begin, bytes + content_end)) return reject(begin, content_end, end, lines, RecordError::utf8, 0);
    }
    const std::size_t n = options_.field_types.size();
    if (n && fields_.size() != n) return reject(begin, content_end, end, lines, RecordError::fields, number_of_fields());
    const std::size_t before = scan_.numbers.size();
    scan_.numbers.resize(before + n_numbers_);
    double* number = scan_.numbers.data() + before;
    for (std::size_t f = 0; f < n; ++f) {
      if (options_.field_types[f] != FieldType::number) continue;
      if (!to_number({data_ + fields_[f].begin, fields_[f].end - fields_[f].begin}, *number++)) {
        scan_.numbers.resize(before);
        return reject(begin, content_end, end, lines, RecordError::number, static_cast<std::int64_t>(f));
      }
    }
    std::size_t t = 0;
    for (std::size_t f = 0; f < fields_.size(); ++f)
      if (options_.field_types[f] == FieldType::text) add_text(t++, fields_[f]);
    scan_.lines.push_back(line_);
    scan_.begins.push_back(static_cast<std::int64_t>(begin));
    scan_.ends.push_back(static_cast<std::int64_t>(content_end));
    return advance(end, lines);
  }

  void add_text(std::size_t t, const Field& field) {
    std::string_view text(data_ + field.begin, field.end - field.begin);
    if (field.has_doubled_quotes) {
      unquoted_.clear();
      for (std::size_t i = 0; i < text.size(); ++i) {
        unquoted_.push_back(text[i]);
        if (text[i] == '"') ++i;
      }
      text = unquoted_;
    }
    coders_[t].add(text);
  }

  bool reject(std::size_t begin, std::size_t content_end, std::size_t end, std::int64_t lines, RecordError why, std::int64_t field) {
    scan_.bad.push_back({line_, begin, content_end, why, field});
    return advance(end, lines);
  }

  // Rejects a record whose end is unknown: skips its first line only.
  bool skip_line(std::size_t begin, std::size_t first_end, RecordError why, std::int64_t field) {
    return reject(begin, without_return(begin, first_end), first_end, 1, why, field);
  }

  bool advance(std::size_t end, std::int64_t lines) {
    at_ = end < size_ ? end + 1 : size_;
    line_ += lines;
    return true;
  }

  std::size_t line_end(std::size_t from) const {
    const void* newline = from < size_ ? std::memchr(data_ + from, '\n', size_ - from) : nullptr;
    return newline ? static_cast<std::size_t>(static_cast<const char*>(newline) - data_) : size_;
  }

  std::size_t without_return(std::size_t begin, std::size_t end) const {
    return end > begin && data_[end - 1] == '\r' ? end - 1 : end;
  }

  std::int64_t number_of_fields() const { return static_cast<std::int64_t>(fields_.size()); }

  const char* data_;
  std::size_t size_;
  bool last_;
  const ScanOptions& options_;
  std::size_t n_numbers_ = 0;
  std::size_t at_ = 0;
  std::int64_t line_ = 0;
  Scan scan_;
  std::vector<Field> fields_;
  std::vector<Coder> coders_;
  std::string unquoted_;  // the current field without doubled quotes; a member, so that its memory is reused
};

}  // namespace

Scan scan_delimited(const char* data, std::size_t size, bool last, const ScanOptions& options) {
  return Scanner(data, size, last, options).run();
}

}  // namespace budgetron
