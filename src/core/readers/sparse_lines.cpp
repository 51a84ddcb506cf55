#include "readers/sparse_lines.hpp"

#include <cstring>
#include <deque>
#include <string_view>
#include <utility>

#include "readers/decimal.hpp"
#include "readers/murmur.hpp"

namespace budgetron {

namespace {

// Larger indices are left to Python, which reports them as errors.
constexpr std::uint64_t max_columns = std::uint64_t{1} << 30;

bool is_blank(char c) { return c == ' ' || c == '\t'; }

// Whether a text has only printable ASCII and tabs. If so, next_word() finds the same words as Python's split(), which also splits at other
// characters, such as Unicode spaces.
bool is_plain_ascii(std::string_view s) {
  bool plain = true;
  for (const char c : s) plain &= (c >= ' ' && c <= '~') || c == '\t';
  return plain;
}

// Removes the next word from the front of `rest` and returns it, or an empty view if there is none.
std::string_view next_word(std::string_view& rest) {
  std::size_t begin = 0;
  while (begin < rest.size() && is_blank(rest[begin])) ++begin;
  std::size_t end = begin;
  while (end < rest.size() && !is_blank(rest[end])) ++end;
  const std::string_view word = rest.substr(begin, end - begin);
  rest.remove_prefix(end);
  return word;
}

// Scans all lines with a format, Svmlight or VowpalWabbit. Its row() parses one line: it appends features to `out`, and sets
// `label`, `task` and `weight`.
template <class Format>
SparseLines scan_lines(const char* text, const LineExtents& lines, Format& format) {
  SparseLines& out = format.out;
  Coder labels, tasks;
  for (std::size_t i = 0; i < lines.n; ++i) {
    const std::size_t n_before = out.indices.size();
    format.label = format.task = std::string_view();
    format.weight = 1.0;
    const LineKind kind = format.row({text + lines.begins[i], static_cast<std::size_t>(lines.ends[i] - lines.begins[i])});
    out.kinds.push_back(static_cast<std::uint8_t>(kind));
    if (kind != LineKind::row) {  // remove the features that were parsed before the line turned out to be unusual
      out.indices.resize(n_before);
      out.values.resize(n_before);
      continue;
    }
    out.indptr.push_back(static_cast<std::int64_t>(out.indices.size()));
    out.weights.push_back(format.weight);
    labels.add(format.label);
    tasks.add(format.task);
  }
  out.labels = labels.finish();
  out.tasks = tasks.finish();
  return std::move(out);  // `out` is a reference, so it would be copied without the move
}

// label qid:task index:value … # comment
struct Svmlight {
  SparseLines out;
  std::string_view label, task;
  double weight = 1.0;

  LineKind row(std::string_view line) {
    if (const auto comment = line.find('#'); comment != line.npos) line = line.substr(0, comment);
    if (!is_plain_ascii(line)) return LineKind::unusual;
    label = next_word(line);
    if (label.empty()) return LineKind::nothing;
    for (;;) {
      const std::string_view word = next_word(line);
      if (word.empty()) return LineKind::row;
      const std::size_t colon = word.find(':');
      if (colon == word.npos) return LineKind::unusual;
      const std::string_view name = word.substr(0, colon), value = word.substr(colon + 1);
      if (name == "qid") {
        task = value;
        continue;
      }
      std::uint64_t index = 0;
      if (name.empty() || name.size() > 10) return LineKind::unusual;  // ten digits cannot overflow 64 bits
      for (const char c : name) {
        if (!is_digit(c)) return LineKind::unusual;
        index = index * 10 + static_cast<std::uint64_t>(c - '0');
      }
      double number = 0;
      if (index >= max_columns || !parse_decimal(value, number)) return LineKind::unusual;
      out.indices.push_back(static_cast<std::int64_t>(index));
      out.values.push_back(number);
    }
  }
};

// label importance base 'tag|namespace:scale feature:value … |namespace …
struct VowpalWabbit {
  TaskFrom from;
  std::string_view task_namespace;  // with TaskFrom::name: the namespace whose words are the task
  SparseLines out;
  std::string_view label, task;
  double weight = 1.0;
  std::string name_and_word;  // the text that is hashed; a member, so that its memory is reused
  std::deque<std::string> task_names;  // task names of several words; in a deque, because `task` is a view of one of them, which must not move

  LineKind row(std::string_view line) {
    if (!is_plain_ascii(line)) return LineKind::unusual;
    const std::size_t bar = line.find('|');
    std::string_view head = line.substr(0, bar);
    if (bar == line.npos) return next_word(head).empty() ? LineKind::nothing : LineKind::unusual;
    if (!parse_before_bar(head)) return LineKind::unusual;
    for (std::string_view rest = line.substr(bar + 1);;) {
      const std::size_t end = rest.find('|');
      if (!parse_namespace(rest.substr(0, end))) return LineKind::unusual;
      if (end == rest.npos) return LineKind::row;
      rest.remove_prefix(end + 1);
    }
  }

 private:
  // Parses label, importance, base and tag, which are all optional; `base` is ignored. The last word is the tag if there is no blank
  // between it and the bar, or if it begins with a quote. Returns false if the line is unusual, so that Python must parse it.
  bool parse_before_bar(std::string_view head) {
    const bool ends_blank = head.empty() || is_blank(head.back());
    std::string_view words[4];
    std::size_t n = 0;
    for (std::string_view word = next_word(head); !word.empty(); word = next_word(head)) {
      if (n == 4) return false;
      words[n++] = word;
    }
    std::string_view tag;
    if (n > 0 && (!ends_blank || words[n - 1].front() == '\'')) tag = words[--n];
    if (n > 3) return false;
    if (n > 0) label = words[0];
    if (n > 1 && (!parse_decimal(words[1], weight) || weight < 0)) return false;
    if (from == TaskFrom::tag) {
      if (!tag.empty() && tag.front() == '\'') tag.remove_prefix(1);
      task = tag;
    }
    return true;
  }

  // Parses the text between two bars: the task, or features. A feature is hashed together with the name of its namespace. Returns
  // false if the line is unusual.
  bool parse_namespace(std::string_view part) {
    std::string_view name;
    if (!part.empty() && !is_blank(part.front())) name = next_word(part);
    double factor = 1.0;
    if (const std::size_t colon = name.find(':'); colon != name.npos) {
      const std::string_view scale = name.substr(colon + 1);
      name = name.substr(0, colon);
      if (!(from == TaskFrom::name && name == task_namespace) && !scale.empty() && !parse_decimal(scale, factor)) return false;
    }
    if (from == TaskFrom::name && name == task_namespace) {
      set_task(part);
      return true;
    }
    for (std::string_view feature = next_word(part); !feature.empty(); feature = next_word(part)) {
      double number = 1.0;
      if (const std::size_t colon = feature.rfind(':'); colon != feature.npos) {
        if (!parse_decimal(feature.substr(colon + 1), number)) return false;
        feature = feature.substr(0, colon);
      }
      name_and_word.assign(name).append(1, '^').append(feature);
      out.indices.push_back(murmur(name_and_word));
      out.values.push_back(number * factor);
    }
    return true;
  }

  // Sets the task to these words, separated by single spaces. One word needs no copy.
  void set_task(std::string_view words) {
    task = next_word(words);
    std::string_view word = next_word(words);
    if (word.empty()) return;
    std::string& all = task_names.emplace_back(task);
    for (; !word.empty(); word = next_word(words)) all.append(1, ' ').append(word);
    task = all;
  }
};

}  // namespace

SparseLines scan_svmlight(const char* text, const LineExtents& lines) {
  Svmlight format;
  return scan_lines(text, lines, format);
}

SparseLines scan_vw(const char* text, const LineExtents& lines, TaskFrom from, const std::string& task) {
  VowpalWabbit format;
  format.from = from;
  format.task_namespace = task;
  return scan_lines(text, lines, format);
}

}  // namespace budgetron
