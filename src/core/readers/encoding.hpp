// Fast versions of the slow steps in encoding the columns of a file as rows: hashing words, parsing dates, joining dense and hashed columns.
// budgetron/io/encoding defines the results, and has slower implementations for installations without the core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace budgetron {

struct CsrRows {
  std::vector<std::int64_t> indptr{0};
  std::vector<std::int32_t> indices;
  std::vector<double> values;
};

// Converts texts to sparse rows: counts the words and the pairs of consecutive words of each text, hashes them to columns, and scales the row
// to Euclidean length 1.
class WordHasher {
 public:
  // `size` is the number of columns, and `shift` is added to every column, modulo the size. `is_word` says whether a character beyond ASCII
  // belongs to words.
  WordHasher(std::uint32_t size, std::uint32_t shift, bool (*is_word)(std::uint32_t))
      : size_(size), shift_(shift), is_word_(is_word) {}
  void add(std::string_view text);  // UTF-8, in lower case
  CsrRows rows;

 private:
  void find_words(std::string_view text);
  void count(std::string_view term);
  void end_row();
  // x modulo the size, without a division if the size is a power of two.
  std::uint32_t remainder(std::uint32_t x) const { return (size_ & (size_ - 1)) == 0 ? x & (size_ - 1) : x % size_; }

  std::uint32_t size_, shift_;
  bool (*is_word_)(std::uint32_t);
  std::vector<std::string_view> words_;
  std::vector<std::int32_t> columns_;
  std::string pair_;
};

// Converts a date such as 2024-02-29, 2024-02-29T12:30 or 2024-02-29 12:30:05 to days since 1970. Returns false for other formats.
bool parse_date(std::string_view text, double& days);

// The entries of some columns, stored once per distinct value. Row i has the entries of the value codes[i].
struct CodedRows {
  const std::int64_t* indptr;
  const std::int32_t* indices;
  const double* values;
  const std::int32_t* codes;
};

// Joins columns into `count` rows: the non-zeros of `width` dense columns, then the entries of all parts, whose columns are numbered from `width`
// on. Entries of different parts in the same column are added.
CsrRows joined_rows(const double* dense, std::size_t count, std::size_t width, const std::vector<CodedRows>& parts);

}  // namespace budgetron
