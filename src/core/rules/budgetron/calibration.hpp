// Corrects the margins m of the mixture, which may be too small, too large, or biased towards one class.
//
//   z_c = s m_c + b_c,   g = [y] - p(z)      s: scale, b_c: offset of class c, [y]: 1 for the true class and 0 for the others
//   P <- max(P/(1 + h P), kMinVariance),   s += P sum_c g_c m_c,   b += kRate g      h: variance of m under p(z)
//
// s is learned by a Kalman filter. Its variance P has a lower bound, so that s keeps following a mixture that becomes more confident as
// it learns. Scaling alone changes the probabilities, not the predicted class. An example weight above 1 counts as 1.
#pragma once

#include <algorithm>
#include <cstddef>

#include "memory.hpp"
#include "rules/budgetron/parts/steps.hpp"

namespace budgetron {

class Calibration {
 public:
  static constexpr double kFirstVariance = 0.02, kMinVariance = 0.006, kRate = 0.002, kMaxChange = 0.1, kMinScale = 0.25, kMaxScale = 4.0;

  Calibration(Bytes& bytes, std::size_t outputs) : offset(bytes, outputs), p_(bytes, outputs) {}

  // Corrects the mixture's margins m. For more than two classes, both m and the result are log probabilities.
  void margins(const double* m, double* out) const {
    const std::size_t outputs = offset.size();
    for (std::size_t c = 0; c < outputs; ++c) out[c] = scale * m[c] + offset[c];
    if (outputs > 1) log_probabilities(out, outputs, out);
  }

  // `z` is what margins() returned for `m`.
  void learn(const double* m, const double* z, std::size_t label, double omega) {
    const double weight = std::min(omega, 1.0);
    double slope = 0, mean = 0, square = 0;
    for (std::size_t c = 0; c < offset.size(); ++c) {
      p_[c] = offset.size() > 1 ? std::exp(z[c]) : 1.0 / (1.0 + std::exp(-z[0]));
      mean += p_[c] * m[c];
      square += p_[c] * m[c] * m[c];
    }
    for (std::size_t c = 0; c < offset.size(); ++c) {
      const double target = (offset.size() > 1 ? c == label : label == 1) ? 1.0 : 0.0;
      slope += (target - p_[c]) * m[c];
      offset[c] += kRate * weight * (target - p_[c]);
    }
    const double h = weight * std::max(0.0, square - mean * mean);
    variance = std::max(variance / (1.0 + h * variance), kMinVariance);
    const double change = std::max(-kMaxChange, std::min(kMaxChange, weight * variance * slope));
    scale = std::max(kMinScale, std::min(kMaxScale, scale + change));
  }

  double scale = 1.0, variance = kFirstVariance;
  Vec<double> offset;

 private:
  Vec<double> p_;
};

}  // namespace budgetron
