#include "readers/json_lines.hpp"

#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "readers/decimal.hpp"

namespace budgetron {

namespace {

constexpr int kMaxDepth = 64;           // nesting depth; deeper lines are left to Python, since skip_value() recurses
constexpr std::size_t kNoField = SIZE_MAX;

// Parses the selected fields of one line after another, without building a tree. parse_line() returns false if Python has to parse the line; the
// scanner must not be used after that.
class JsonScanner {
 public:
  JsonScanner(const std::vector<std::string>& numbers, const std::vector<std::string>& texts)
      : n_numbers_(numbers.size()), values_(texts.size()), coders_(texts.size()) {
    for (const auto& name : numbers) fields_.emplace(name, fields_.size());
    for (const auto& name : texts) fields_.emplace(name, fields_.size());
  }

  // Parses one line and appends its values to the columns.
  bool parse_line(const char* begin, const char* end) {
    at_ = begin;
    end_ = end;
    const std::size_t row = out_.numbers.size();
    out_.numbers.resize(row + n_numbers_, std::numeric_limits<double>::quiet_NaN());
    row_ = out_.numbers.data() + row;
    for (auto& value : values_) value = std::string_view();
    skip_blanks();
    if (!take('{') || !parse_members()) return false;
    skip_blanks();
    if (at_ != end_) return false;
    for (std::size_t t = 0; t < values_.size(); ++t) coders_[t].add(values_[t]);
    return true;
  }

  JsonLines finish() {
    for (auto& coder : coders_) out_.texts.push_back(coder.finish());
    return std::move(out_);
  }

 private:
  bool parse_members() {
    skip_blanks();
    if (take('}')) return true;
    for (std::size_t position = 0;; ++position) {
      std::string_view name;
      skip_blanks();
      if (!parse_string(name)) return false;
      skip_blanks();
      if (!take(':')) return false;
      skip_blanks();
      const std::size_t field = field_of(name, position);
      if (field == kNoField ? !skip_value(1) : field < n_numbers_ ? !parse_number(row_[field]) : !parse_text(values_[field - n_numbers_])) return false;
      skip_blanks();
      if (take('}')) return true;
      if (!take(',')) return false;
    }
  }

  // Returns the field with this name, or kNoField if it was not selected. Lines usually have the same names in the same order,
  // so the name last seen at this position in the object is compared before the name is hashed.
  std::size_t field_of(std::string_view name, std::size_t position) {
    if (position < last_names_.size() && last_names_[position].first == name) return last_names_[position].second;
    const auto entry = fields_.find(std::string(name));
    const std::size_t field = entry == fields_.end() ? kNoField : entry->second;
    if (position < 4096) {  // bounds the memory for objects with very many names
      if (position >= last_names_.size()) last_names_.resize(position + 1);
      last_names_[position] = {std::string(name), field};
    }
    return field;
  }

  // ---- selected values

  bool parse_number(double& out) {
    if (at_ == end_) return false;
    if (*at_ == 'n') {
      out = std::numeric_limits<double>::quiet_NaN();
      return take_word("null");
    }
    if (*at_ == 't' || *at_ == 'f') {
      out = *at_ == 't' ? 1.0 : 0.0;
      return take_word(*at_ == 't' ? "true" : "false");
    }
    std::string_view token;
    bool is_integer = false;
    if (!parse_number_token(token, is_integer)) return false;
    if (is_integer && token == "-0") {  // Python parses it as the integer 0, without a sign
      out = 0.0;
      return true;
    }
    return parse_decimal(token, out);
  }

  bool parse_text(std::string_view& out) {
    if (at_ == end_) return false;
    if (*at_ == '"') return parse_string(out);
    const char* begin = at_;
    if (*at_ == 'n') {
      out = std::string_view();
      return take_word("null");
    }
    if (*at_ == 't' || *at_ == 'f') {
      if (!take_word(*at_ == 't' ? "true" : "false")) return false;
    } else {
      // In a text column, a number becomes the text that Python writes for it: 1.50 becomes 1.5. Only short integers are certain to stay
      // unchanged, so other numbers are left to Python.
      std::string_view token;
      bool is_integer = false;
      if (!parse_number_token(token, is_integer) || !is_integer || token.size() > 18 || token == "-0") return false;
    }
    out = std::string_view(begin, static_cast<std::size_t>(at_ - begin));
    return true;
  }

  // ---- the grammar of JSON

  bool skip_value(int depth) {
    if (at_ == end_ || depth > kMaxDepth) return false;
    if (*at_ == '"') {
      std::string_view ignored;
      return parse_string(ignored);
    }
    if (*at_ == 'n') return take_word("null");
    if (*at_ == 't') return take_word("true");
    if (*at_ == 'f') return take_word("false");
    if (*at_ != '{' && *at_ != '[') {
      std::string_view token;
      bool is_integer = false;
      return parse_number_token(token, is_integer);
    }
    const bool is_object = *at_++ == '{';
    const char close = is_object ? '}' : ']';
    skip_blanks();
    if (take(close)) return true;
    for (;;) {
      skip_blanks();
      if (is_object) {
        std::string_view ignored;
        if (!parse_string(ignored)) return false;
        skip_blanks();
        if (!take(':')) return false;
        skip_blanks();
      }
      if (!skip_value(depth + 1)) return false;
      skip_blanks();
      if (take(close)) return true;
      if (!take(',')) return false;
    }
  }

  // Parses a number without converting it. `is_integer` is whether it has neither a point nor an exponent.
  bool parse_number_token(std::string_view& token, bool& is_integer) {
    const char* begin = at_;
    take('-');
    if (!take('0') && !take_digits()) return false;
    is_integer = true;
    if (take('.')) {
      is_integer = false;
      if (!take_digits()) return false;
    }
    if (at_ < end_ && (*at_ == 'e' || *at_ == 'E')) {
      is_integer = false;
      ++at_;
      if (!take('+')) take('-');
      if (!take_digits()) return false;
    }
    token = std::string_view(begin, static_cast<std::size_t>(at_ - begin));
    return true;
  }

  bool take_digits() {
    const char* begin = at_;
    while (at_ < end_ && is_digit(*at_)) ++at_;
    return at_ > begin;
  }

  // Parses a string. `out` is its content without the quotes: a view of the line or, if it has escapes, of a decoded copy.
  bool parse_string(std::string_view& out) {
    if (!take('"')) return false;
    const char* begin = at_;
    for (; at_ < end_; ++at_) {
      const auto c = static_cast<unsigned char>(*at_);
      if (c == '"') {
        out = std::string_view(begin, static_cast<std::size_t>(at_++ - begin));
        return true;
      }
      if (c < 0x20) return false;
      if (c == '\\') return decode_escapes(begin, out);
    }
    return false;
  }

  // Decodes a string that has escapes; at_ points to the first one. `begin` is where the string begins.
  bool decode_escapes(const char* begin, std::string_view& out) {
    std::string& decoded = decoded_.emplace_back(begin, static_cast<std::size_t>(at_ - begin));
    while (at_ < end_) {
      const char c = *at_++;
      if (c == '"') {
        out = decoded;
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c != '\\') {
        decoded.push_back(c);
        continue;
      }
      if (at_ == end_) return false;
      constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
      const char letter = *at_++;
      if (letter == 'u') {
        if (!decode_unicode(decoded)) return false;
        continue;
      }
      const std::size_t index = letters.find(letter);
      if (index == letters.npos) return false;
      decoded.push_back(meanings[index]);
    }
    return false;
  }

  // Appends the character of a Unicode escape, or of two that form a surrogate pair, in UTF-8. Half a pair is left to Python.
  bool decode_unicode(std::string& decoded) {
    std::uint32_t c = 0;
    if (!parse_hexadecimal(c) || (c >= 0xDC00 && c <= 0xDFFF)) return false;
    if (c >= 0xD800 && c <= 0xDBFF) {  // a high surrogate: a low one must follow
      std::uint32_t second = 0;
      if (!take('\\') || !take('u') || !parse_hexadecimal(second) || second < 0xDC00 || second > 0xDFFF) return false;
      c = 0x10000 + ((c - 0xD800) << 10) + (second - 0xDC00);
    }
    const auto byte = [&](std::uint32_t value) { decoded.push_back(static_cast<char>(static_cast<unsigned char>(value))); };
    if (c < 0x80) {
      byte(c);
    } else if (c < 0x800) {
      byte(0xC0 | (c >> 6));
    } else if (c < 0x10000) {
      byte(0xE0 | (c >> 12));
      byte(0x80 | ((c >> 6) & 0x3F));
    } else {
      byte(0xF0 | (c >> 18));
      byte(0x80 | ((c >> 12) & 0x3F));
      byte(0x80 | ((c >> 6) & 0x3F));
    }
    if (c >= 0x80) byte(0x80 | (c & 0x3F));
    return true;
  }

  bool parse_hexadecimal(std::uint32_t& out) {
    if (end_ - at_ < 4) return false;
    out = 0;
    for (int k = 0; k < 4; ++k) {
      const char c = *at_++;
      const char lower = static_cast<char>(c | 0x20);
      if (!is_digit(c) && !(lower >= 'a' && lower <= 'f')) return false;
      out = out * 16 + static_cast<std::uint32_t>(is_digit(c) ? c - '0' : lower - 'a' + 10);
    }
    return true;
  }

  bool take_word(std::string_view expected) {
    if (static_cast<std::size_t>(end_ - at_) < expected.size() || std::memcmp(at_, expected.data(), expected.size()) != 0) return false;
    at_ += expected.size();
    return true;
  }

  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  // Does not skip newlines, because a line contains none.
  void skip_blanks() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }

  std::size_t n_numbers_;
  std::unordered_map<std::string, std::size_t> fields_;  // name to index: the columns of numbers first, then the columns of text
  std::vector<std::pair<std::string, std::size_t>> last_names_;  // by position in the object: the name last seen there, and its field
  const char *at_ = nullptr, *end_ = nullptr;
  double* row_ = nullptr;  // the numbers of this line, in out_.numbers
  std::vector<std::string_view> values_;  // the text of this line, by column; empty where missing
  std::vector<Coder> coders_;
  std::deque<std::string> decoded_;  // strings that had escapes; in a deque, because values_ has views of them, which must stay valid
  JsonLines out_;
};

}  // namespace

JsonLines scan_json(const char* text, const LineExtents& lines, const std::vector<std::string>& numbers,
                    const std::vector<std::string>& texts) {
  JsonScanner scanner(numbers, texts);
  for (std::size_t i = 0; i < lines.n; ++i)
    if (!scanner.parse_line(text + lines.begins[i], text + lines.ends[i])) {
      JsonLines incomplete;
      incomplete.complete = false;
      return incomplete;
    }
  return scanner.finish();
}

}  // namespace budgetron
