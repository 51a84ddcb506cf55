// The linear part of the flagship, in primal: weights and a diagonal covariance over features, for each belief.
//
//   f = W·φ,  V = Σ S φ²                       S starts at the prior
//   learn:  t = S φ,  W += G t,  S ← max(S / (1 + h t φ), floor · prior)
//
// Dense input: φ is the row, centred and scaled by its own past (Welford), clipped at ±3 and divided by √d, and a bias.
// Sparse input: φ is the row scaled slot by slot, of unit norm, and a bias, hashed into one table; a task's own copy is
// hashed with the task into the same table.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "rules/budgetron/beliefs.hpp"
#include "memory.hpp"
#include "stores/store.hpp"

namespace budgetron {

// Running mean and spread of every column.
class Moments {
 public:
  static constexpr double kClip = 3.0, kFar = 10.0;

  Moments(Bytes& bytes, std::size_t d) : mean_(bytes, d), m2_(bytes, d) {}

  template <class T>
  void features(const T* x, double* z) const {
    const std::size_t d = mean_.size();
    const double root = std::sqrt(static_cast<double>(d));
    for (std::size_t j = 0; j < d; ++j) {
      z[j] = 0.0;
      if (m2_[j] > 0) {
        const double scaled = (static_cast<double>(x[j]) - mean_[j]) / std::sqrt(m2_[j] / count_);
        z[j] = std::max(-kClip, std::min(kClip, scaled)) / root;
      }
    }
    z[d] = 1.0;
  }

  // A value counts as at most ten standard deviations away: one absurd row must not blind a column for good.
  template <class T>
  void learn(const T* x) {
    const double before = count_ - 1.0;
    count_ += 1.0;
    for (std::size_t j = 0; j < mean_.size(); ++j) {
      double value = static_cast<double>(x[j]);
      if (m2_[j] > 0) {
        const double far = kFar * std::sqrt(m2_[j] / before);
        value = std::max(mean_[j] - far, std::min(mean_[j] + far, value));
      }
      const double away = value - mean_[j];
      mean_[j] += away / count_;
      m2_[j] += away * (value - mean_[j]);
    }
  }

  double count_ = 0.0;
  Vec<double> mean_, m2_;
};

// One diagonal block of one belief: `outputs` rows of weights, then the variances, each `width` long.
struct Diagonal {
  double *w, *s;
  std::size_t width, outputs;
};

inline double value_of(const double* w, const double* phi, std::size_t n) {
  double sum = 0;
  for (std::size_t j = 0; j < n; ++j) sum += w[j] * phi[j];
  return sum;
}
inline double variance_of(const double* s, const double* phi, std::size_t n) {
  double sum = 0;
  for (std::size_t j = 0; j < n; ++j) sum += s[j] * phi[j] * phi[j];
  return sum;
}
// `scale` times s is the variance; the floor is in units of s.
inline void learn_diagonal(const Diagonal& block, const double* phi, const double* g, double h, double scale, double floor) {
  for (std::size_t j = 0; j < block.width; ++j) {
    const double t = scale * block.s[j] * phi[j];
    for (std::size_t c = 0; c < block.outputs; ++c) block.w[c * block.width + j] += g[c] * t;
    block.s[j] = std::max(flushed(block.s[j] / (1.0 + h * t * phi[j])), floor);
  }
}

}  // namespace budgetron
