// A log of the last evictions of a SharedProjectron that most rows of coefficients C do not include yet. The eviction of example r sets C_lr to
// 0 and adds C_lr γ_j to C_lj, in every row l. Applying kMaxEvictions evictions together reads every row once instead of kMaxEvictions times.
//
// A row can also be brought up to date alone, when it is read or updated. Both ways add the same numbers in the same order, so coefficients do
// not depend on which of them is used. Numbers below 1e-300 are set to 0 only when the log is full.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "memory.hpp"
#include "simd/simd.hpp"

namespace budgetron {

class EvictionLog {
 public:
  explicit EvictionLog(Bytes& bytes) : slots_(bytes), shares_(bytes), between_(bytes) {}

  // If it throws, the log is unchanged.
  void allocate(std::size_t capacity) {
    resize_exactly(slots_, kMaxEvictions);
    resize_exactly(between_, kMaxEvictions * kMaxEvictions);
    resize_exactly(shares_, kMaxEvictions * capacity + kLongestRegister);
    stride_ = capacity;
  }

  std::size_t size() const { return size_; }
  bool full() const { return size_ == kMaxEvictions; }
  void clear() { size_ = begin_ = 0; }
  // For a loaded model, whose rows are all up to date: counts the evictions since the last full log, without storing them.
  void resume(std::size_t size) { size_ = begin_ = size; }

  // Logs the eviction of r. γ_r is the share of the new example that takes slot r, or 0 if there is none.
  void append(std::size_t r, const double* gamma, std::size_t n) {
    const std::size_t l = size_++;
    slots_[l] = static_cast<std::uint32_t>(r);
    std::fill_n(between_.begin() + static_cast<std::ptrdiff_t>(l * kMaxEvictions), kMaxEvictions, 0.0);
    for (std::size_t m = begin_; m < l; ++m) {
      between_[m * kMaxEvictions + l] = shares_[m * stride_ + r];
      shares_[m * stride_ + r] = 0.0;
    }
    double* share = shares_.data() + l * stride_;
    for (std::size_t j = 0; j < n; ++j) share[j] = std::abs(gamma[j]) < 1e-150 ? 0.0 : gamma[j];
    std::fill(share + n, share + stride_, 0.0);
  }

  // Applies all evictions from index `from` on to `count` rows of n numbers. With `flush`, tiny numbers become 0 in rows that change.
  void replay(std::size_t from, std::size_t n, double* const* rows, std::size_t count, bool flush = false) const {
    if (from == size_ || count == 0) return;
    simd().replay({size_, slots_.data(), shares_.data(), stride_, between_.data(), flush}, from, n, rows, count);
  }

 private:
  Vec<std::uint32_t> slots_;
  Vec<double> shares_, between_;  // see Evictions in simd.hpp
  std::size_t stride_ = 0, size_ = 0;
  std::size_t begin_ = 0;  // earlier entries are counted, but not stored, see resume()
};

}  // namespace budgetron
