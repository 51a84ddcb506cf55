// Random Fourier features of Gaussian kernels on standardised columns: cos and sin of w·z for random frequencies w.
//
// A Gaussian kernel is exp(-gamma |z - z'|^2); d is the number of columns. Frequencies are drawn from N(0, I), stored as integers in units of
// 1/32 (one byte per column), and scaled by sqrt(2 gamma). Each frequency is computed from hashes of its index, so more can be added later
// without changing the first ones.
//
// All parts (part.hpp) share the frequencies. A part that assumes another bandwidth scales them differently. The features for one choice of gamma
// are called a bank. In bank 0, the first 96 of every 128 frequencies have gamma = 1/d and the other 32 have gamma = 2/d. After the first
// useful_frequencies(), rounded up to a multiple of 32, gamma is three times as large, because a decision boundary that needs so many
// frequencies has fine detail. Each of the other banks has the same gamma for all frequencies.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory.hpp"
#include "rules/budgetron/features/hashing.hpp"
#include "simd/simd.hpp"

namespace budgetron {

// How many frequencies are enough for most streams of d columns. More cost time, and help only if the function has fine detail.
inline std::size_t useful_frequencies(std::size_t d) { return std::min<std::size_t>(1024, 48 * d); }

// How many frequencies a part uses at first: few enough to cost little on a stream that needs none.
inline std::size_t first_frequencies(std::size_t bank) { return bank == 0 ? 64 : 32; }

class FourierFeatures {
 public:
  // Bytes of one more frequency: a byte per column, and the working memory of its phase and its two features.
  static std::size_t bytes_each(std::size_t d) { return d + sizeof(float) + 2 * sizeof(float); }

  // `gamma_factor` multiplies every gamma; `bandwidths` are gamma · d of the banks after the first.
  FourierFeatures(Bytes& bytes, std::size_t d, double gamma_factor, const std::vector<double>& bandwidths)
      : d_(d), gamma_factor_(gamma_factor), bandwidths_(bytes), bytes_(bytes), frequencies_(bytes) {
    bandwidths_.assign(bandwidths.begin(), bandwidths.end());
  }

  std::size_t banks() const { return 1 + bandwidths_.size(); }
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

  // Writes the features of bank 0 for the columns z: the cosine and the sine of each frequency in turn. `rounded` has room for d numbers and
  // `phase` for count() numbers.
  //
  // Columns are rounded to multiples of 1/kColumnUnit. They are between -3 and 3, so nearly all sums of their products with small integers are exact
  // in float32, and do not depend on the order of the additions.
  void features(const double* z, float* rounded, float* phase, float* out) const {
    for (std::size_t j = 0; j < d_; ++j) rounded[j] = static_cast<float>(std::nearbyint(z[j] * kColumnUnit) / kColumnUnit);
    simd().phases(frequencies_.data(), d_, count_, rounded, phase);
    for (std::size_t q = 0; q < count_; q += kBlock) {
      const double gamma_d = (q / kBlock % 4 == 3 ? 2.0 : 1.0) * (q < useful_frequencies(d_) ? 1.0 : 3.0);
      simd().cos_sin_f32(phase + q, std::min(kBlock, count_ - q), scale(gamma_d), out + 2 * q);
    }
  }
  // The same for the first `frequencies` frequencies of another bank, from the phases that features() has computed.
  void features_of_bank(std::size_t bank, const float* phase, std::size_t frequencies, float* out) const {
    simd().cos_sin_f32(phase, frequencies, scale(bandwidths_[bank - 1]), out);
  }

 private:
  static constexpr std::size_t kBlock = 32;  // consecutive frequencies with the same gamma
  static constexpr double kColumnUnit = 4096.0;  // see features()

  float scale(double gamma_d) const { return static_cast<float>(std::sqrt(2.0 * gamma_d * gamma_factor_ / static_cast<double>(d_)) / 32.0); }

  std::size_t d_, count_ = 0;
  double gamma_factor_;
  Vec<double> bandwidths_;
  Bytes& bytes_;
  Vec<std::int8_t> frequencies_;  // d × count
};

}  // namespace budgetron
