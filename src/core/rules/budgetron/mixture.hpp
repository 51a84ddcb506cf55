// Mixes the beliefs of all parts (part.hpp), weighted by how well they have predicted. Belief b has weight w_b and gives class c the probability
// p_b(c).
//
//   p = sum_b w_b p_b / sum_b w_b,   margin: the logit of p (log p(c) for more than two classes)
//   w_b <- w_b p_b(y)^omega, normalised      y: the label, omega: the weight of the example
//
// After an update, 1e-4 of the weight is divided equally, so that a belief of almost no weight can regain it. All sums are over the beliefs that are
// awake for the example (budgetron.hpp), and an update does not change the sum of their weights. (Sleeping experts: Freund, Schapire, Singer and
// Warmuth, Using and combining predictors that specialize, STOC 1997.)
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "memory.hpp"
#include "rules/budgetron/parts/steps.hpp"

namespace budgetron {

class Mixture {
 public:
  static constexpr double kShare = 1e-4;  // the fraction of the weight that an update divides equally between the beliefs
  static constexpr double kLowest = 1e-6;  // the smallest probability of a class

  Mixture(Bytes& bytes, std::size_t beliefs) : weights(bytes, beliefs, 1.0 / static_cast<double>(beliefs)) {}

  // Computes the probability of each class under each belief from the margins f of the beliefs.
  static void probabilities(const double* f, std::size_t beliefs, std::size_t outputs, double* p) {
    const std::size_t classes = std::max<std::size_t>(2, outputs);
    for (std::size_t b = 0; b < beliefs; ++b) class_probabilities(f + b * outputs, outputs, p + b * classes);
    // Smaller probabilities are raised to kLowest, because a belief that is so certain is wrong more often than it claims.
    for (std::size_t k = 0; k < beliefs * classes; ++k) p[k] = std::max(p[k], kLowest);
  }

  // Computes the margins of the mixture. `f` and `p` hold the margins and probabilities of the beliefs in `awake`, in that order.
  // With a single belief and two classes, the result is f of that belief. A caller that has changed `p`, for example by lapse rates, passes a
  // null `f`.
  void margins(const double* f, const double* p, const Vec<std::size_t>& awake, std::size_t outputs, double* out) const {
    if (f && awake.size() == 1 && outputs == 1) {
      out[0] = f[0];
      return;
    }
    const auto mixed = [&](std::size_t c) {
      double sum = 0;
      for (std::size_t k = 0; k < awake.size(); ++k) sum += weights[awake[k]] * p[k * std::max<std::size_t>(2, outputs) + c];
      return sum;
    };
    if (outputs == 1)
      out[0] = std::log(mixed(1) / mixed(0));
    else
      for (std::size_t c = 0; c < outputs; ++c) out[c] = std::log(mixed(c) / weight_of(awake));
  }

  // Updates the weights. The likelihoods p_b(y) are divided by the largest one, so that even the largest omega leaves the weight of that belief as
  // it is, and the sum of the weights above 0.
  void learn(const double* p, const Vec<std::size_t>& awake, std::size_t outputs, std::size_t label, double omega) {
    if (awake.size() == 1) return;
    const std::size_t classes = std::max<std::size_t>(2, outputs);
    const double mass = weight_of(awake);
    double best = 0, total = 0;
    for (std::size_t k = 0; k < awake.size(); ++k) best = std::max(best, p[k * classes + label]);
    for (std::size_t k = 0; k < awake.size(); ++k) {
      const double likelihood = p[k * classes + label] / best;
      total += weights[awake[k]] *= omega == 1.0 ? likelihood : std::pow(likelihood, omega);
    }
    const double share = kShare / static_cast<double>(awake.size());
    for (const std::size_t b : awake) weights[b] = mass * ((1 - kShare) * weights[b] / total + share);
  }

  // The total weight of `count` beliefs, beginning with `from`.
  double weight_of(std::size_t from, std::size_t count) const {
    double sum = 0;
    for (std::size_t b = from; b < from + count; ++b) sum += weights[b];
    return sum;
  }

  // The total weight of these beliefs. If these are all beliefs, it returns exactly 1, so that rounding errors do not accumulate.
  double weight_of(const Vec<std::size_t>& beliefs) const {
    if (beliefs.size() == weights.size()) return 1.0;
    double sum = 0;
    for (const std::size_t b : beliefs) sum += weights[b];
    return sum;
  }

  // Removes `count` beliefs, beginning with `from`, and normalises the weights of the others.
  void drop(std::size_t from, std::size_t count) noexcept {
    weights.erase(weights.begin() + static_cast<std::ptrdiff_t>(from), weights.begin() + static_cast<std::ptrdiff_t>(from + count));
    const double total = weight_of(0, weights.size());
    for (double& w : weights) w /= total;
  }

  Vec<double> weights;
};

}  // namespace budgetron
