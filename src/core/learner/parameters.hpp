// The parameters of one rule: named numbers and arrays, from Python. The rule's constructor reads and checks them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace budgetron {

// A rule has at most about 40 parameters, and the model keeps them. They are stored in vectors, with names of fixed size, which take a third of
// the memory of maps. A search is linear.
class Parameters {
 public:
  void set(const std::string& name, double value) { put(reals_, name, value); }
  void set(const std::string& name, std::uint64_t value) { put(words_, name, value); }
  // An empty array is the same as none.
  void set(const std::string& name, std::vector<double> values) {
    if (!values.empty() || find(arrays_, name)) put(arrays_, name, std::move(values));
  }

  // Integers are accepted too, because Python may pass 1 for 1.0.
  double real(const std::string& name, double otherwise) const {
    if (const auto* value = find(words_, name)) return static_cast<double>(*value);
    const auto* value = find(reals_, name);
    return value ? *value : otherwise;
  }
  std::uint64_t word(const std::string& name, std::uint64_t otherwise) const {
    if (find(reals_, name)) throw std::invalid_argument("_core.make: " + name + " must be a whole number of at least 0");
    const auto* value = find(words_, name);
    return value ? *value : otherwise;
  }
  // A size; at most 2^40, so that sizes computed from it do not overflow.
  std::size_t count(const std::string& name, std::size_t otherwise) const {
    const std::uint64_t value = word(name, otherwise);
    if (value > std::uint64_t{1} << 40) throw std::invalid_argument("_core.make: " + name + " must be at most 2**40");
    return static_cast<std::size_t>(value);
  }
  bool flag(const std::string& name, bool otherwise) const { return word(name, otherwise) != 0; }
  std::vector<double> array(const std::string& name) const {
    const auto* values = find(arrays_, name);
    return values ? *values : std::vector<double>();
  }

  // Throws unless the rule declares every name.
  void check_names(const std::vector<std::string>& declared) const {
    const auto check = [&](const Name& name) {
      for (const auto& declared_name : declared)
        if (declared_name == name.data()) return;
      throw std::invalid_argument(std::string("_core.make: this rule has no parameter ") + name.data());
    };
    for (const auto& entry : reals_) check(entry.first);
    for (const auto& entry : words_) check(entry.first);
    for (const auto& entry : arrays_) check(entry.first);
  }

  // The allocated bytes of a copy.
  std::size_t bytes() const {
    std::size_t total = reals_.size() * sizeof(reals_[0]) + words_.size() * sizeof(words_[0]) + arrays_.size() * sizeof(arrays_[0]);
    for (const auto& entry : arrays_) total += entry.second.size() * sizeof(double);
    return total;
  }

 private:
  using Name = std::array<char, 24>;  // ends with a zero
  template <class Value>
  using Named = std::vector<std::pair<Name, Value>>;

  template <class Value>
  static const Value* find(const Named<Value>& entries, const std::string& name) {
    for (const auto& entry : entries)
      if (name == entry.first.data()) return &entry.second;
    return nullptr;
  }
  template <class Value>
  static void put(Named<Value>& entries, const std::string& name, Value value) {
    for (auto& entry : entries)
      if (name == entry.first.data()) {
        entry.second = std::move(value);
        return;
      }
    Name stored{};
    if (name.size() >= stored.size()) throw std::invalid_argument("_core.make: this rule has no parameter " + name);
    name.copy(stored.data(), name.size());
    entries.emplace_back(stored, std::move(value));
  }

  Named<double> reals_;
  Named<std::uint64_t> words_;
  Named<std::vector<double>> arrays_;
};

}  // namespace budgetron
