// Own weights of tasks that have no row: float32 copies of the numbers that one part stores in the row of a task.
//
// A task can have one slot (a short row), at the hash of its id. The slot belongs to the task that uses it most. It counts how often its owner's
// numbers were written, up to kMaxCount. A write for another task with the same hash lowers the count by 1, or takes the slot if the count is 0.
// Until then, the other task has the prior, which costs less accuracy than the weights of a task that may have nothing in common with it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "learner/learner.hpp"
#include "memory.hpp"
#include "rules/budgetron/features/hashing.hpp"

namespace budgetron {

class ShortRows {
 public:
  static constexpr std::uint32_t kMaxCount = 15;
  static constexpr std::int64_t kFree = std::numeric_limits<std::int64_t>::min();  // never the id of a task

  // `width` is how many numbers a slot has.
  ShortRows(Bytes& bytes, std::size_t slots, std::size_t width) : width_(width), values_(bytes, slots * width), owners_(bytes, slots, kFree), counts_(bytes, slots) {}

  // Returns whether the task has a slot. If so, writes its numbers to `to`.
  bool read(std::int64_t task_id, double* to) const {
    if (owners_.empty() || owners_[slot_of(task_id)] != task_id) return false;
    std::copy_n(values_.data() + slot_of(task_id) * width_, width_, to);
    return true;
  }
  // Keeps the numbers of a task if its slot belongs to it or has the count 0. Otherwise lowers the count.
  void write(std::int64_t task_id, const double* from) noexcept {
    if (owners_.empty()) return;
    const std::size_t slot = slot_of(task_id);
    if (owners_[slot] != task_id) {
      if (counts_[slot] > 0) {
        --counts_[slot];
        return;
      }
      owners_[slot] = task_id;
    }
    counts_[slot] = std::min(counts_[slot] + 1, kMaxCount);
    std::transform(from, from + width_, values_.data() + slot * width_, [](double x) { return static_cast<float>(x); });
  }
  void forget(std::int64_t task_id) noexcept {
    if (owners_.empty() || owners_[slot_of(task_id)] != task_id) return;
    owners_[slot_of(task_id)] = kFree;
    counts_[slot_of(task_id)] = 0;
    std::fill_n(values_.data() + slot_of(task_id) * width_, width_, 0.0f);
  }

  std::size_t bytes() const { return values_.size() * sizeof(float) + owners_.size() * (sizeof(std::int64_t) + sizeof(std::uint32_t)); }

  void save(State& state, const std::string& part) const {
    state.reals[part + "_short"].assign(values_.begin(), values_.end());
    state.integers[part + "_short_owner"].assign(owners_.begin(), owners_.end());
    state.integers[part + "_short_count"].assign(counts_.begin(), counts_.end());
  }
  void load(const State& state, const std::string& part) {
    const auto& values = state.reals.at(part + "_short");
    const auto& owners = state.integers.at(part + "_short_owner");
    const auto& counts = state.integers.at(part + "_short_count");
    if (values.size() != values_.size() || owners.size() != owners_.size() || counts.size() != counts_.size())
      throw std::invalid_argument("saved model: wrong number of short rows");
    std::transform(values.begin(), values.end(), values_.begin(), [](double x) { return static_cast<float>(x); });
    std::copy(owners.begin(), owners.end(), owners_.begin());
    std::transform(counts.begin(), counts.end(), counts_.begin(), [](std::int64_t count) { return static_cast<std::uint32_t>(std::clamp<std::int64_t>(count, 0, kMaxCount)); });
  }

 private:
  std::size_t slot_of(std::int64_t task_id) const { return mix64(task_id) % owners_.size(); }

  std::size_t width_;
  Vec<float> values_;
  Vec<std::int64_t> owners_;
  Vec<std::uint32_t> counts_;
};

}  // namespace budgetron
