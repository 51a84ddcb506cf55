// Random Fourier features of a Gaussian kernel on standardised columns: cos and sin of w·z for random frequencies w.
//
// Frequencies are drawn from N(0, 2 gamma I) as small integers in units of sqrt(2 gamma)/32, one byte each, column by column.
// The first half of them has gamma = 1/d, the other half gamma = 2/d: a wrong bandwidth costs more than half of the
// features.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "memory.hpp"
#include "rules/budgetron/hashing.hpp"
#include "simd/simd.hpp"

namespace budgetron {

class Waves {
 public:
  Waves(Bytes& bytes, std::size_t d, std::size_t count, double width) : d_(d), count_(count), frequencies_(bytes, d * count) {
    for (std::size_t q = 0; q < count; ++q)
      for (std::size_t j = 0; j < d; ++j)
        frequencies_[j * count + q] = static_cast<std::int8_t>(gaussian_integer(mix64(static_cast<std::uint64_t>(q * d + j))));
    const double columns = static_cast<double>(d);
    narrow_ = std::sqrt(2.0 * 1.0 * width / columns) / 32.0;
    wide_ = std::sqrt(2.0 * 2.0 * width / columns) / 32.0;
  }

  std::size_t count() const { return count_; }

  // cos and sin of each frequency in turn, from the columns z; `phase` has room for count() numbers.
  void features(const double* z, double* phase, double* out) const {
    simd().phases(frequencies_.data(), d_, count_, z, phase);
    const std::size_t half = (count_ + 1) / 2;
    simd().cos_sin(phase, half, narrow_, out);
    simd().cos_sin(phase + half, count_ - half, wide_, out + 2 * half);
  }

 private:
  std::size_t d_, count_;
  double narrow_ = 0, wide_ = 0;
  Vec<std::int8_t> frequencies_;  // d × count
};

}  // namespace budgetron
