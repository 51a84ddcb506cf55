// Corrects the margins m of the mixture, which may be too small, too large, or biased towards one class.
//
//   z_c = s m_c + b_c,   q_c = e/C + (1 - e) p_c(z)      s: scale, b_c: offset of class c, e: lapse rate, C: number of classes
//   r = (1 - e) p_y/q_y,   g = r ([y] - p)               [y]: 1 for the true class y and 0 for the others
//   P <- max(P/(1 + h P), kMinVariance),   s += P sum_c g_c m_c,   b += kRate g,   e += step (1 - r - e)
//
// q are the corrected probabilities, from which the corrected margins are computed. e is the share of labels that are drawn at random,
// such as mistakes of annotators. Without it, no probability could stay below 1 far from the boundary, and all others would be too small
// to make up for it. r is the probability that the label of the example is no lapse. e is learned by online expectation maximisation. A
// new model has e = 0; its first example sets it to a prior.
//
// s is learned by a Bayesian filter; P is its posterior variance and h is r times the variance of m under p. P has a lower bound, so that
// s keeps following a mixture that becomes more confident as it learns. Neither s nor e changes the predicted class. An example weight
// above 1 counts as 1.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "memory.hpp"
#include "rules/budgetron/parts/steps.hpp"

namespace budgetron {

class Calibration {
 public:
  static constexpr double kFirstVariance = 0.5, kMinVariance = 0.02, kRate = 0.002, kMaxChange = 0.1, kMinScale = 0.25, kMaxScale = 8.0;
  // Lapse rate: above 0 so that it can grow again, below 1 so that margins are not 0. Its step is 1/(20 + n) for example n, at least kMinStep.
  static constexpr double kFirstLapse = 0.05, kMinLapse = 1e-5, kMaxLapse = 0.9, kFirstStep = 0.05, kMinStep = 0.005;

  Calibration(Bytes& bytes, std::size_t outputs) : offset(bytes, outputs), p_(bytes, std::max<std::size_t>(2, outputs)) {}

  // Corrects the mixture's margins m. For more than two classes, both m and the result are log probabilities.
  void margins(const double* m, double* out) const {
    const std::size_t outputs = offset.size();
    for (std::size_t c = 0; c < outputs; ++c) out[c] = scale * m[c] + offset[c];
    if (outputs == 1) {
      if (lapse == 0) return;
      double logs[2];
      log_probabilities(out, 1, logs);
      out[0] = with_lapses(logs[1], 2) - with_lapses(logs[0], 2);
      return;
    }
    log_probabilities(out, outputs, out);
    for (std::size_t c = 0; lapse > 0 && c < outputs; ++c) out[c] = with_lapses(out[c], outputs);
  }

  // The corrected margin of two classes divided by z: how much the lapse rate shrinks it. 1 for more classes, of which no margin is a
  // multiple of z.
  double shrinkage(const double* m) const {
    const double z = scale * m[0] + offset[0];
    if (offset.size() > 1 || z == 0) return 1.0;
    double corrected = 0;
    margins(m, &corrected);
    return corrected / z;
  }

  // Learns from an example with margins m of the mixture.
  void learn(const double* m, std::size_t label, double omega) {
    const double weight = std::min(omega, 1.0);
    if (lapse == 0) lapse = kFirstLapse;
    const std::size_t outputs = offset.size(), first = p_.size() - outputs;  // one output belongs to the second of two classes
    for (std::size_t c = 0; c < outputs; ++c) p_[c] = scale * m[c] + offset[c];
    log_probabilities(p_.data(), outputs, p_.data());
    for (double& p : p_) p = std::exp(p);
    const double kept = (1.0 - lapse) * p_[label], r = kept / (lapse / static_cast<double>(p_.size()) + kept);
    double slope = 0, mean = 0, square = 0;
    for (std::size_t c = 0; c < outputs; ++c) {
      const double p = p_[first + c], g = r * ((first + c == label ? 1.0 : 0.0) - p);
      mean += p * m[c];
      square += p * m[c] * m[c];
      slope += g * m[c];
      offset[c] += kRate * weight * g;
    }
    const double h = weight * r * std::max(0.0, square - mean * mean);
    variance = std::max(variance / (1.0 + h * variance), kMinVariance);
    const double change = std::max(-kMaxChange, std::min(kMaxChange, weight * variance * slope));
    scale = std::max(kMinScale, std::min(kMaxScale, scale + change));
    lapse_step = std::max(lapse_step / (1.0 + lapse_step), kMinStep);
    lapse = std::max(kMinLapse, std::min(kMaxLapse, lapse + weight * lapse_step * (1.0 - r - lapse)));
  }

  double scale = 1.0, variance = kFirstVariance, lapse = 0.0, lapse_step = kFirstStep;
  Vec<double> offset;

 private:
  // log q_c from log p_c
  double with_lapses(double log_p, std::size_t classes) const {
    return std::log(lapse / static_cast<double>(classes) + (1.0 - lapse) * std::exp(log_p));
  }

  Vec<double> p_;
};

}  // namespace budgetron
