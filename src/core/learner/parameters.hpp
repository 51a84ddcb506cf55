// The parameters of one rule: named numbers and arrays, from Python. The rule's constructor reads and checks them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace budgetron {

class Parameters {
 public:
  void set(const std::string& name, double value) { reals_[name] = value; }
  void set(const std::string& name, std::uint64_t value) { words_[name] = value; }
  void set(const std::string& name, std::vector<double> values) { arrays_[name] = std::move(values); }

  // Integers are accepted too, because Python may pass 1 for 1.0.
  double real(const std::string& name, double otherwise) const {
    if (const auto at = words_.find(name); at != words_.end()) return static_cast<double>(at->second);
    const auto at = reals_.find(name);
    return at == reals_.end() ? otherwise : at->second;
  }
  std::uint64_t word(const std::string& name, std::uint64_t otherwise) const {
    if (reals_.count(name)) throw std::invalid_argument("_core.make: " + name + " must be a whole number of at least 0");
    const auto at = words_.find(name);
    return at == words_.end() ? otherwise : at->second;
  }
  // A size; at most 2^40, so that sizes computed from it do not overflow.
  std::size_t count(const std::string& name, std::size_t otherwise) const {
    const std::uint64_t value = word(name, otherwise);
    if (value > std::uint64_t{1} << 40) throw std::invalid_argument("_core.make: " + name + " must be at most 2**40");
    return static_cast<std::size_t>(value);
  }
  bool flag(const std::string& name, bool otherwise) const { return word(name, otherwise) != 0; }
  std::vector<double> array(const std::string& name) const {
    const auto at = arrays_.find(name);
    return at == arrays_.end() ? std::vector<double>() : at->second;
  }

  // Throws unless the rule declares every name.
  void check_names(const std::vector<std::string>& declared) const {
    const auto check = [&](const std::string& name) {
      for (const auto& declared_name : declared)
        if (declared_name == name) return;
      throw std::invalid_argument("_core.make: this rule has no parameter " + name);
    };
    for (const auto& entry : reals_) check(entry.first);
    for (const auto& entry : words_) check(entry.first);
    for (const auto& entry : arrays_) check(entry.first);
  }

  std::size_t bytes() const {
    std::size_t total = 0;
    for (const auto& entry : arrays_) total += entry.second.size() * sizeof(double);
    return total;
  }

 private:
  std::map<std::string, double> reals_;
  std::map<std::string, std::uint64_t> words_;
  std::map<std::string, std::vector<double>> arrays_;
};

}  // namespace budgetron
