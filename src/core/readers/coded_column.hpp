// A column of text, dictionary-encoded: its distinct values in order of appearance, and for each row the index of its value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace budgetron {

struct CodedColumn {
  std::vector<std::string> values;
  std::vector<std::int32_t> codes;
};

// Builds a CodedColumn. It keeps views of the texts, so these must stay in place until finish().
class Coder {
 public:
  void add(std::string_view text) {
    const auto [entry, is_new] = known_.emplace(text, static_cast<std::int32_t>(column_.values.size()));
    if (is_new) column_.values.emplace_back(text);
    column_.codes.push_back(entry->second);
  }

  CodedColumn finish() { return std::move(column_); }

 private:
  CodedColumn column_;
  std::unordered_map<std::string_view, std::int32_t> known_;
};

}  // namespace budgetron
