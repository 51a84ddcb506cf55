// Probabilities of the classes, and the size of a step that cannot overshoot.
//
// An update of a belief moves its margin f by V alpha, where V is the variance of f. It moves f along the gradient to the maximum of the posterior:
//
//   alpha = w tau ([y] - p(f)),   tau in (0, 1] solves   tau (1 - p_y(f)) = 1 - p_y(f + V alpha)
//
// w is the weight of the example, p(f) the probabilities of the classes, and [y] is 1 for the true class y and 0 for the others. For two
// classes this is the exact maximum. The right side decreases in tau, so the root is unique. Newton's method finds it, with bisection where Newton's
// method leaves the bracket or is slow. For a large weight w, the f after the step grows only with log w.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "memory.hpp"

namespace budgetron {

// p of each class: two numbers (first, second class) for one output, otherwise one per output. `p` may be the array f.
inline void class_probabilities(const double* f, std::size_t outputs, double* p) {
  if (outputs == 1) {
    const bool second = f[0] >= 0;
    const double e = std::exp(-std::abs(f[0])), likely = 1.0 / (1.0 + e);
    p[second] = likely;
    p[!second] = e * likely;
    return;
  }
  double top = f[0], sum = 0;
  for (std::size_t c = 1; c < outputs; ++c) top = std::max(top, f[c]);
  for (std::size_t c = 0; c < outputs; ++c) sum += p[c] = std::exp(f[c] - top);
  for (std::size_t c = 0; c < outputs; ++c) p[c] /= sum;
}

// log p of each of more than two classes.
inline void log_probabilities(const double* f, std::size_t outputs, double* out) {
  double top = f[0], sum = 0;
  for (std::size_t c = 1; c < outputs; ++c) top = std::max(top, f[c]);
  for (std::size_t c = 0; c < outputs; ++c) sum += std::exp(f[c] - top);
  const double log_sum = top + std::log(sum);
  for (std::size_t c = 0; c < outputs; ++c) out[c] = f[c] - log_sum;
}

// The probability of one of `classes` classes if a share `lapse` of the labels is random. p is the probability without random labels.
inline double with_lapse(double p, double lapse, std::size_t classes) { return lapse / static_cast<double>(classes) + (1.0 - lapse) * p; }

// The probability that a label is not random. p is the probability of this label without random labels; a share `lapse` of the labels is random.
inline double not_random(double p, double lapse) { return (1.0 - lapse) * p / (lapse / 2 + (1.0 - lapse) * p); }

// Computes the gradient of one belief, then its step. The object is the working memory for both.
class Steps {
 public:
  Steps(Bytes& bytes, std::size_t outputs)
      : outputs_(outputs), g_(bytes, outputs), alpha_(bytes, outputs), moved_(bytes, outputs), p_(bytes, outputs) {}

  // Computes [y] - p and returns 1 - p_y.
  double gradient(const double* f, std::size_t label) {
    label_ = label;
    error_ = probabilities(f, g_.data());
    if (outputs_ == 1) {
      g_[0] = label ? error_ : -error_;
    } else {
      for (std::size_t c = 0; c < outputs_; ++c) g_[c] = -g_[c];
      g_[label] = error_;
    }
    return error_;
  }
  const double* g() const { return g_.data(); }
  double* alpha() { return alpha_.data(); }
  double sign() const { return label_ ? 1.0 : -1.0; }  // of the label; two classes only

  // Computes alpha(), and returns the curvature h = w p_y (1 - p_y) at the end of the step. Call it after gradient() of the same example.
  double solve(const double* f, double omega, double v) {
    for (std::size_t c = 0; c < outputs_; ++c) alpha_[c] = omega * g_[c];
    double low = 0.0, high = 1.0, tau = 0.0, last = 1.0, rest = error_;
    for (int iteration = 0; iteration < 100; ++iteration) {
      double slope = 0.0;  // d p_y / d tau, divided by p_y
      rest = error_after(f, v, tau, slope);
      const double residual = rest / error_ - tau;
      (residual > 0 ? low : high) = tau;
      const double move = residual / (1.0 + (1.0 - rest) * slope / error_);
      // Bisect if Newton's step leaves the bracket, or is more than half as long as the step before.
      const bool bisect = !(tau + move >= low && tau + move <= high) || std::abs(2 * move) > std::abs(last);
      last = bisect ? (low + high) / 2 - tau : move;
      tau += last;
      if (std::abs(last) <= (bisect ? 1e-12 : 1e-8) * tau) {
        rest -= (1.0 - rest) * slope * last;  // a linear approximation of 1 - p_y, whose relative error is below 1e-12 for so small a change
        break;
      }
    }
    for (std::size_t c = 0; c < outputs_; ++c) alpha_[c] *= tau;
    return omega * rest * (1.0 - rest);
  }

 private:
  // Writes the probabilities of the outputs' classes to p. Returns 1 - p_y, computed without cancellation.
  double probabilities(const double* f, double* p) const {
    if (outputs_ == 1) {
      const double e = std::exp(-std::abs(f[0])), likely = 1.0 / (1.0 + e), unlikely = e / (1.0 + e);
      p[0] = f[0] >= 0 ? likely : unlikely;
      return (f[0] >= 0) == (label_ == 1) ? unlikely : likely;
    }
    double top = f[0], sum = 0, rest = 0;
    for (std::size_t c = 1; c < outputs_; ++c) top = std::max(top, f[c]);
    for (std::size_t c = 0; c < outputs_; ++c) sum += p[c] = std::exp(f[c] - top);
    for (std::size_t c = 0; c < outputs_; ++c) {
      p[c] /= sum;
      if (c != label_) rest += p[c];
    }
    return rest;
  }

  // 1 - p_y after a step of length tau. Also computes `slope`, see solve().
  double error_after(const double* f, double v, double tau, double& slope) {
    for (std::size_t c = 0; c < outputs_; ++c) moved_[c] = f[c] + tau * v * alpha_[c];
    const double rest = outputs_ == 1 && tau == 0 ? error_ : probabilities(moved_.data(), p_.data());
    if (outputs_ == 1) {
      slope = std::abs(v * alpha_[0]) * rest;
      return rest;
    }
    double mean = 0;
    for (std::size_t c = 0; c < outputs_; ++c) mean += p_[c] * v * alpha_[c];
    slope = v * alpha_[label_] - mean;
    return rest;
  }

  std::size_t outputs_, label_ = 0;
  double error_ = 0;  // 1 - p_y before the step
  Vec<double> g_, alpha_, moved_, p_;
};

}  // namespace budgetron
