#include "readers/encoding.hpp"

#include <algorithm>
#include <cmath>

#include "readers/decimal.hpp"
#include "readers/murmur.hpp"

namespace budgetron {

namespace {

bool is_ascii_word(unsigned char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_'; }

// The character that begins at text[at], and its length in bytes. The text is valid UTF-8.
std::uint32_t character(std::string_view text, std::size_t at, std::size_t& length) {
  const auto byte = [&](std::size_t k) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + k])); };
  const std::uint32_t first = byte(0);
  length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  std::uint32_t value = length == 1 ? first : first & (0x7Fu >> length);
  for (std::size_t k = 1; k < length; ++k) value = (value << 6) | (byte(k) & 0x3F);
  return value;
}

// The number that two digits stand for; −1 if they are not both digits.
int two_digits(std::string_view text, std::size_t at) {
  return is_digit(text[at]) && is_digit(text[at + 1]) ? (text[at] - '0') * 10 + (text[at + 1] - '0') : -1;
}

// Days from 1970-01-01 to a date of the Gregorian calendar, by Howard Hinnant's formula. It counts years from March, so that the leap day is
// the last day of a year.
std::int64_t days_to(int year, int month, int day) {
  const int y = month <= 2 ? year - 1 : year, era = y / 400, year_of_era = y % 400;
  const int day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return std::int64_t{era} * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

}  // namespace

void WordHasher::add(std::string_view text) {
  find_words(text);
  columns_.clear();
  for (const std::string_view word : words_) count(word);
  for (std::size_t i = 1; i < words_.size(); ++i) {
    const std::string_view first = words_[i - 1], second = words_[i];
    const char* end = first.data() + first.size();
    if (end + 1 == second.data() && *end == ' ') {  // the pair is a substring of the text, so no copy is needed
      count({first.data(), first.size() + 1 + second.size()});
      continue;
    }
    pair_.assign(first).append(1, ' ').append(second);
    count(pair_);
  }
  end_row();
}

void WordHasher::find_words(std::string_view text) {
  words_.clear();
  std::size_t begin = text.size();
  for (std::size_t at = 0, length = 1; at < text.size(); at += length) {
    const auto first = static_cast<unsigned char>(text[at]);
    length = 1;
    const bool inside = first < 0x80 ? is_ascii_word(first) : is_word_(character(text, at, length));
    if (inside && begin == text.size()) begin = at;
    if (!inside && begin != text.size()) {
      words_.push_back(text.substr(begin, at - begin));
      begin = text.size();
    }
  }
  if (begin != text.size()) words_.push_back(text.substr(begin));
}

// As in scikit-learn's FeatureHasher, the column is |h| modulo the size, where h is the hash as a signed number. Then shift_ is added, again modulo
// the size.
void WordHasher::count(std::string_view term) {
  const std::uint32_t h = murmur(term);
  std::uint32_t column = 0;
  if (h == 0x80000000u)  // −2³¹ has no absolute value
    column = (0x7FFFFFFFu - (size_ - 1)) % size_;
  else
    column = remainder(h < 0x80000000u ? h : 0u - h);
  column += shift_;
  columns_.push_back(static_cast<std::int32_t>(column < size_ ? column : column - size_));
}

void WordHasher::end_row() {
  std::sort(columns_.begin(), columns_.end());
  const std::size_t begin = rows.values.size();
  double square = 0;
  for (std::size_t i = 0; i < columns_.size();) {
    std::size_t end = i + 1;
    while (end < columns_.size() && columns_[end] == columns_[i]) ++end;
    const auto times = static_cast<double>(end - i);
    square += times * times;
    rows.indices.push_back(columns_[i]);
    rows.values.push_back(times);
    i = end;
  }
  const double length = std::sqrt(square);
  for (std::size_t k = begin; k < rows.values.size(); ++k) rows.values[k] /= length;
  rows.indptr.push_back(static_cast<std::int64_t>(rows.values.size()));
}

bool parse_date(std::string_view text, double& days) {
  const std::size_t n = text.size();
  if (n != 10 && n != 16 && n != 19) return false;
  const int century = two_digits(text, 0), years = two_digits(text, 2), month = two_digits(text, 5), day = two_digits(text, 8);
  if (century < 0 || years < 0 || century + years == 0 || text[4] != '-' || text[7] != '-') return false;
  const int year = century * 100 + years;
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  constexpr int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (month < 1 || month > 12 || day < 1 || day > lengths[month - 1] + (month == 2 && leap ? 1 : 0)) return false;
  std::int64_t seconds = days_to(year, month, day) * 86400;
  if (n > 10) {
    const int hour = two_digits(text, 11), minute = two_digits(text, 14), second = n == 19 ? two_digits(text, 17) : 0;
    if ((text[10] != ' ' && text[10] != 'T') || text[13] != ':' || (n == 19 && text[16] != ':')) return false;
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) return false;
    seconds += hour * 3600 + minute * 60 + second;
  }
  days = static_cast<double>(seconds) / 86400.0;
  return true;
}

CsrRows joined_rows(const double* dense, std::size_t count, std::size_t width, const std::vector<CodedRows>& parts) {
  struct Entry {
    std::int32_t column;
    std::uint32_t part;
    double value;
  };
  // Entries of the same column are added in the order of the parts, so they must be sorted by column and then by part. Most rows are short. For
  // short rows, insertion sort is the fastest. It is stable, so it keeps the order of the parts.
  const auto sort = [](std::vector<Entry>& entries) {
    if (entries.size() > 64) {
      std::sort(entries.begin(), entries.end(),
                [](const Entry& a, const Entry& b) { return a.column != b.column ? a.column < b.column : a.part < b.part; });
      return;
    }
    for (std::size_t k = 1; k < entries.size(); ++k) {
      const Entry entry = entries[k];
      std::size_t j = k;
      for (; j > 0 && entry.column < entries[j - 1].column; --j) entries[j] = entries[j - 1];
      entries[j] = entry;
    }
  };
  CsrRows out;
  // Dense columns may be one-hot, with mostly zeros. So memory is reserved for at most 32 of them per row.
  std::size_t n_entries = count * std::min<std::size_t>(width, 32);
  for (const CodedRows& part : parts)
    for (std::size_t i = 0; i < count; ++i)
      n_entries += static_cast<std::size_t>(part.indptr[part.codes[i] + 1] - part.indptr[part.codes[i]]);
  out.indptr.reserve(count + 1);
  out.indices.reserve(n_entries);
  out.values.reserve(n_entries);
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < width; ++j)
      if (dense[i * width + j] != 0.0) {
        out.indices.push_back(static_cast<std::int32_t>(j));
        out.values.push_back(dense[i * width + j]);
      }
    entries.clear();
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const CodedRows& part = parts[p];
      for (std::int64_t e = part.indptr[part.codes[i]]; e < part.indptr[part.codes[i] + 1]; ++e)
        entries.push_back({part.indices[e], static_cast<std::uint32_t>(p), part.values[e]});
    }
    if (parts.size() > 1) sort(entries);
    for (std::size_t k = 0; k < entries.size();) {
      double sum = entries[k].value;
      const std::int32_t column = entries[k].column;
      for (++k; k < entries.size() && entries[k].column == column; ++k) sum += entries[k].value;
      out.indices.push_back(static_cast<std::int32_t>(width) + column);
      out.values.push_back(sum);
    }
    out.indptr.push_back(static_cast<std::int64_t>(out.values.size()));
  }
  return out;
}

}  // namespace budgetron
