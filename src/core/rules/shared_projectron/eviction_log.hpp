// The evictions of a SharedProjectron that most rows of its matrix C do not include yet. C has one row per task (task_coefficients.hpp). The eviction
// of example r sets C_lr to 0 and adds γ_j times its former value to every C_lj, in every row l.
//
// Together, the logged evictions set C_ls to 0 in every evicted slot s, and add Σ_s C_ls W_s to the row, with the values that C_ls had before. So the
// log needs one vector W_s per evicted slot. A second eviction of the same slot needs no further vector. This is frequent: in a stream, the example
// that was just stored is often the next one to be evicted.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "memory.hpp"
#include "simd/simd.hpp"
#include "state.hpp"

namespace budgetron {

class EvictionLog {
 public:
  explicit EvictionLog(Bytes& bytes) : slots_(bytes), shares_(bytes) {}

  // If it throws, the log is unchanged.
  void allocate(std::size_t capacity) {
    resize_exactly(slots_, kMaxEvictedSlots);
    resize_exactly(shares_, kMaxEvictedSlots * capacity + kLongestRegister);
    stride_ = capacity;
  }

  void release() noexcept {
    budgetron::release(slots_);
    budgetron::release(shares_);
  }

  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == kMaxEvictedSlots; }
  void clear() { size_ = 0; }

  // Logs the eviction of r; the log must not be full. γ_r is the share of the new example that takes slot r, or 0 if there is none.
  void append(std::size_t r, const double* gamma, std::size_t n) {
    bool logged = false;
    for (std::size_t m = 0; m < size_; ++m) {
      simd().evict_slot(r, gamma, n, kSmallestShare, shares_.data() + m * stride_);
      logged |= slots_[m] == r;
    }
    if (logged) return;
    double* share = shares_.data() + size_ * stride_;
    std::fill(share, share + stride_, 0.0);
    share[r] = 1.0;  // before the first logged eviction of r, W_r is row r of the unit matrix
    simd().evict_slot(r, gamma, n, kSmallestShare, share);
    slots_[size_++] = static_cast<std::uint32_t>(r);
  }

  // Applies the logged evictions to `count` rows of n numbers that include none of them.
  void replay(std::size_t n, double* const* rows, std::size_t count) const {
    simd().replay({size_, slots_.data(), shares_.data(), stride_}, n, rows, count);
  }

  void save(State& state, std::size_t n) const {
    auto& slots = state.integers["table_log_slot"];
    auto& shares = state.reals["table_log"];
    for (std::size_t m = 0; m < size_; ++m) {
      const double* share = shares_.data() + m * stride_;
      slots.push_back(slots_[m]);
      shares.insert(shares.end(), share, share + n);
    }
  }
  // Call allocate() first.
  void load(const std::vector<std::int64_t>& slots, const std::vector<double>& shares, std::size_t n) {
    if (slots.size() >= kMaxEvictedSlots || shares.size() != slots.size() * n)
      throw std::invalid_argument("saved model: wrong number of logged evictions");
    for (size_ = 0; size_ < slots.size(); ++size_) {
      const std::int64_t slot = slots[size_];
      if (slot < 0 || static_cast<std::size_t>(slot) >= n || std::count(slots.begin(), slots.end(), slot) != 1)
        throw std::invalid_argument("saved model: a logged eviction is of a wrong slot");
      slots_[size_] = static_cast<std::uint32_t>(slot);
      std::copy_n(shares.data() + size_ * n, n, shares_.data() + size_ * stride_);
    }
  }

 private:
  // Smaller shares count as 0: their products with small coefficients could be subnormal numbers, which are slow.
  static constexpr double kSmallestShare = 1e-150;

  Vec<std::uint32_t> slots_;
  Vec<double> shares_;  // W: one vector of `stride_` numbers per slot, and padding
  std::size_t stride_ = 0, size_ = 0;
};

}  // namespace budgetron
