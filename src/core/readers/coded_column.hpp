// A column of text: its different values in order of appearance, and the number of the value on each row.
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

// Makes one. The texts must stay where they are until it is done.
class Coder {
 public:
  void add(std::string_view text) {
    const auto [found, is_new] = known_.emplace(text, static_cast<std::int32_t>(column_.values.size()));
    if (is_new) column_.values.emplace_back(text);
    column_.codes.push_back(found->second);
  }

  CodedColumn done() { return std::move(column_); }

 private:
  CodedColumn column_;
  std::unordered_map<std::string_view, std::int32_t> known_;
};

}  // namespace budgetron
