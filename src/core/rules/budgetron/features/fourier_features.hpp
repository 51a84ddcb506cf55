// Random Fourier features of a Gaussian kernel on standardised columns: cos and sin of w·z for random frequencies w.
//
// Frequencies are drawn from N(0, 2 gamma I) as small integers in units of sqrt(2 gamma)/32, one byte each, column by column.
// Of every 128 frequencies, the first 96 have gamma = 1/d and the other 32 have gamma = 2/d: a quarter of the features insures against a
// wrong bandwidth, which would cost more. A frequency does not depend on how many there are, so more can be added later.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "memory.hpp"
#include "rules/budgetron/features/hashing.hpp"
#include "simd/simd.hpp"

namespace budgetron {

class FourierFeatures {
 public:
  // Bytes of one more frequency: a byte per column, and the working memory of its phase and its two features.
  static std::size_t bytes_each(std::size_t d) { return d + 3 * sizeof(double); }

  FourierFeatures(Bytes& bytes, std::size_t d, double width)
      : d_(d), narrow_(std::sqrt(2.0 * 1.0 * width / static_cast<double>(d)) / 32.0),
        wide_(std::sqrt(2.0 * 2.0 * width / static_cast<double>(d)) / 32.0), bytes_(bytes), frequencies_(bytes) {}

  std::size_t count() const { return count_; }

  // If it throws, nothing has changed.
  void resize(std::size_t count) {
    if (count == count_) return;
    Vec<std::int8_t> drawn(bytes_, d_ * count);
    for (std::size_t q = 0; q < count; ++q)
      for (std::size_t j = 0; j < d_; ++j)
        drawn[j * count + q] = static_cast<std::int8_t>(gaussian_integer(mix64(static_cast<std::uint64_t>(q * d_ + j))));
    frequencies_.swap(drawn);
    count_ = count;
  }

  // cos and sin of each frequency in turn, from the columns z; `phase` has room for count() numbers.
  void features(const double* z, double* phase, double* out) const {
    simd().phases(frequencies_.data(), d_, count_, z, phase);
    for (std::size_t q = 0; q < count_; q += kBlock)
      simd().cos_sin(phase + q, std::min(kBlock, count_ - q), q / kBlock % 4 == 3 ? wide_ : narrow_, out + 2 * q);
  }

 private:
  static constexpr std::size_t kBlock = 32;

  std::size_t d_, count_ = 0;
  double narrow_, wide_;
  Bytes& bytes_;
  Vec<std::int8_t> frequencies_;  // d × count
};

}  // namespace budgetron
