// A column of text, dictionary-encoded: its distinct values in order of appearance, and for each row the index of its value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace budgetron {

// The values are stored one after the other in one string, because a column of texts or dates may have as many values as rows, and one string
// per value would take much memory.
struct CodedColumn {
  std::string text;
  std::vector<std::size_t> ends;  // of each value in `text`
  std::vector<std::int32_t> codes;

  std::size_t n_values() const { return ends.size(); }
  std::string_view value(std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends[i - 1];
    return {text.data() + begin, ends[i] - begin};
  }
};

// Builds a CodedColumn from the text of one row after the other. It copies each distinct text once.
class Coder {
 public:
  void add(std::string_view text) {
    if (2 * column_.n_values() >= slots_.size()) grow();
    const std::size_t hash = std::hash<std::string_view>{}(text);
    std::size_t i = hash & (slots_.size() - 1);
    while (slots_[i].code >= 0 && !(slots_[i].hash == hash && column_.value(static_cast<std::size_t>(slots_[i].code)) == text))
      i = (i + 1) & (slots_.size() - 1);
    if (slots_[i].code < 0) {
      slots_[i] = {hash, static_cast<std::int32_t>(column_.n_values())};
      column_.text.append(text);
      column_.ends.push_back(column_.text.size());
    }
    column_.codes.push_back(slots_[i].code);
  }

  CodedColumn finish() { return std::move(column_); }

 private:
  struct Slot {
    std::size_t hash = 0;
    std::int32_t code = -1;  // −1: empty
  };

  void grow() {
    std::vector<Slot> larger(slots_.empty() ? 64 : 4 * slots_.size());
    for (const Slot& slot : slots_) {
      if (slot.code < 0) continue;
      std::size_t i = slot.hash & (larger.size() - 1);
      while (larger[i].code >= 0) i = (i + 1) & (larger.size() - 1);
      larger[i] = slot;
    }
    slots_ = std::move(larger);
  }

  CodedColumn column_;
  std::vector<Slot> slots_;  // a hash table with open addressing; its size is a power of two, and it is at most half full
};

}  // namespace budgetron
