// Beliefs: prior scales that run side by side on the same store, mixed by Bayesian weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory.hpp"

namespace budgetron {

// One belief: prior scales of the linear and the kernel block, shared (s) and own (ρ times that); 0: no such block.
struct Belief {
  double linear = 0, linear_own = 0, kernel = 0, kernel_own = 0;
  double floor = 0;  // a linear variance never falls below floor · prior: the belief stays restless
};

// log p of each class under one belief: two numbers (negative, positive) for two classes, else one a class.
inline void log_probabilities(const double* f, std::size_t outputs, double* out) {
  if (outputs == 1) {
    const double size = std::abs(f[0]), likely = -std::log1p(std::exp(-size));
    out[f[0] >= 0] = likely;
    out[f[0] < 0] = likely - size;
    return;
  }
  double top = f[0], sum = 0;
  for (std::size_t c = 1; c < outputs; ++c) top = std::max(top, f[c]);
  for (std::size_t c = 0; c < outputs; ++c) sum += std::exp(f[c] - top);
  for (std::size_t c = 0; c < outputs; ++c) out[c] = f[c] - top - std::log(sum);
}

// The live beliefs with their weights.
class Mixture {
 public:
  static constexpr double kShare = 1e-4;   // fixed share: what a belief gets back each step
  static constexpr double kFaint = 0.01;   // a weight below this is idle
  struct Live {
    std::size_t index;  // into the beliefs the learner began with
    Belief belief;
    double weight;
    std::int64_t idle;
  };

  Mixture(Bytes& bytes, const std::vector<Belief>& beliefs) : live(bytes) {
    live.reserve(beliefs.size());
    for (std::size_t b = 0; b < beliefs.size(); ++b)
      live.push_back({b, beliefs[b], 1.0 / static_cast<double>(beliefs.size()), 0});
  }

  // log p of each class under each belief, from their f; outputs == 1: two classes.
  void logs(const double* f, std::size_t outputs, Vec<double>& out) const {
    const std::size_t classes = outputs == 1 ? 2 : outputs;
    out.resize(live.size() * classes);
    for (std::size_t b = 0; b < live.size(); ++b) log_probabilities(f + b * outputs, outputs, out.data() + b * classes);
  }

  // Mixed margins from the logs: the logit, or log p̄ of each class. With one belief of two classes that is its f.
  void margins(const double* f, const double* logs, std::size_t outputs, double* out) const {
    if (live.size() == 1 && outputs == 1) {
      out[0] = f[0];
      return;
    }
    const std::size_t classes = outputs == 1 ? 2 : outputs;
    double negative = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      double top = -HUGE_VAL, sum = 0;
      for (std::size_t b = 0; b < live.size(); ++b) top = std::max(top, logs[b * classes + c]);
      for (std::size_t b = 0; b < live.size(); ++b) sum += live[b].weight * std::exp(logs[b * classes + c] - top);
      const double mixed = top + std::log(sum);
      if (outputs > 1)
        out[c] = mixed;
      else if (c == 0)
        negative = mixed;
      else
        out[0] = mixed - negative;
    }
  }

  // w_b ← w_b p_b(y)^ω, normalised, then a little shared out evenly. In logs, and relative to the best p_b(y): the
  // largest finite ω must bring neither 0/0 nor ∞ − ∞.
  void learn(const double* logs, std::size_t outputs, std::size_t label, double omega) {
    const std::size_t classes = outputs == 1 ? 2 : outputs;
    double top = -HUGE_VAL, best = -HUGE_VAL, total = 0;
    const auto log_p = [&](std::size_t b) { return std::max(logs[b * classes + label], std::log(1e-15)); };
    for (std::size_t b = 0; b < live.size(); ++b) best = std::max(best, log_p(b));
    for (std::size_t b = 0; b < live.size(); ++b) {
      live[b].weight = std::log(live[b].weight) + omega * (log_p(b) - best);
      top = std::max(top, live[b].weight);
    }
    for (Live& one : live) total += one.weight = std::exp(one.weight - top);
    const double share = kShare / static_cast<double>(live.size());
    for (Live& one : live) {
      one.weight = (1 - kShare) * one.weight / total + share;
      one.idle = one.weight < kFaint ? one.idle + 1 : 0;
    }
  }

  Vec<Live> live;
};

}  // namespace budgetron
