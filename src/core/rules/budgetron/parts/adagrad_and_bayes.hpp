// What the hashed table (table.hpp) and the binned columns (bins.hpp) have in common. In both, a row selects a few weights out of many, the
// weights learn by AdaGrad, and the evidence of naive Bayes is one more feature:
//
//   G = keep G + (g phi)^2,   w += lambda g phi/sqrt(G + c S phi^2)   for every weight w of a feature phi
//   b += lambda g/sqrt(sum g^2)                                       the bias
//   n_c = sum_j phi_j log(M_jc/M_c),   the weight of n: kappa += 0.3 g n/sqrt(1 + sum (g n)^2)
//
// g is the weight of the example times [y] - p, as in fourier_adagrad.hpp, and S is the running mean of g^2. The mass of feature j in class c is the
// sum of |phi_j| over the examples of this class. M_jc is this mass plus 0.1, and M_c is the sum of the masses of all features plus 100, as if
// there were 1,000 features. lambda is the rate of a belief, and `keep` the share of G that it keeps at a step: 1 in AdaGrad, less to follow a
// stream that drifts. table.hpp says why there is c.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "memory.hpp"
#include "rules/budgetron/parts/steps.hpp"

namespace budgetron {

constexpr double kSharedPrior = 2.0;  // c of weights that all tasks share

inline std::size_t classes_of(std::size_t outputs) { return std::max<std::size_t>(2, outputs); }

// Takes a step of one weight w, whose G is `squares`. `prior` is c S.
inline void step_weight(float& w, float& squares, float phi, float g, float rate, float keep, float prior) {
  constexpr float kMinSquare = 1e-30f;  // so that the division is defined where all squares are 0
  const float gradient = phi * g;
  squares = keep * squares + gradient * gradient;
  w += rate * gradient / std::sqrt(squares + prior * (phi * phi) + kMinSquare);
}

// Takes a step of a bias, whose sum of g^2 is `squares`.
inline void step_bias(double& bias, double& squares, double g, double rate) {
  squares += g * g;
  bias += rate * g / std::sqrt(squares + 1e-9);
}

// Takes a step of kappa, the weight of the evidence. `squares` is 1 plus the sum of its squared gradients; the caller begins with 1.
inline void step_bayes(double& bayes, double& squares, double gradient) {
  constexpr double kRate = 0.3;
  squares += gradient * gradient;
  bayes += kRate * gradient / std::sqrt(squares);
}

// The gradients g of the current example and their running mean squares S, for every belief and output.
class Gradients {
 public:
  Gradients(Bytes& bytes, std::size_t beliefs, std::size_t outputs)
      : outputs_(outputs), steps_(bytes, outputs), g_(bytes, beliefs * outputs), mean_squares_(bytes, g_.size(), first_mean_square(classes_of(outputs))) {}

  // Computes g of one belief, and updates S. f are the margins of all beliefs, beliefs × outputs. Returns whether the belief takes a
  // step; otherwise g is 0.
  bool find(std::size_t belief, const double* f, std::size_t label, double omega) {
    constexpr double kMinError = 1e-5;  // a belief that gives the true class a probability above 99.999 % takes no step (if omega is 1)
    constexpr double kMeanRate = 1.0 / 256.0;
    const bool takes_step = omega * steps_.gradient(f + belief * outputs_, label) >= kMinError;
    for (std::size_t o = 0; o < outputs_; ++o) {
      const std::size_t k = belief * outputs_ + o;
      g_[k] = takes_step ? omega * steps_.g()[o] : 0.0;
      mean_squares_[k] += (g_[k] * g_[k] - mean_squares_[k]) * kMeanRate;
    }
    return takes_step;
  }

  double operator[](std::size_t k) const { return g_[k]; }
  double mean_square(std::size_t k) const { return mean_squares_[k]; }
  Vec<double>& mean_squares() { return mean_squares_; }  // for saving and loading

 private:
  // S before the first example: the mean of g^2 if all classes are equally likely.
  static double first_mean_square(std::size_t classes) { return (1.0 - 1.0 / static_cast<double>(classes)) / static_cast<double>(classes); }

  std::size_t outputs_;
  Steps steps_;
  Vec<double> g_, mean_squares_;
};

// The evidence of naive Bayes, and M_c of each class. For two classes, the evidence is the log ratio of the second class to the first.
class Evidence {
 public:
  static constexpr double kPriorMass = 0.1;  // added to every mass, so that a class without the feature keeps some probability

  Evidence(Bytes& bytes, std::size_t outputs) : outputs_(outputs), classes_(classes_of(outputs)), total_(bytes, classes_, 1000 * kPriorMass) {}

  // The logarithm of a ratio of two products of masses, which takes less time than a sum of logarithms. A product of 16 masses, or of 16 ratios of
  // masses, cannot overflow: masses are at least kPriorMass, and a mass in float32 stops growing at 2^24, because each example adds at most 1.
  class LogRatio {
   public:
    double above = 1, below = 1, logs = 0;
    void end_of_factor() {
      if (++factors_ % 16) return;
      logs += std::log(above / below);
      above = below = 1;
    }
    std::size_t factors() const { return factors_; }
    double value() const { return logs + std::log(above / below); }

   private:
    std::size_t factors_ = 0;
  };

  // The part of log(M_jc/M_c) that is the same for all features: -log M_c of the class of output o. With one output, log(M_0/M_1).
  double log_prior(std::size_t o) const { return outputs_ == 1 ? std::log(total_[0] / total_[1]) : -std::log(total_[o]); }

  // Subtracts the mean over the classes from n: only differences between classes matter.
  void centre(double* n) const {
    if (outputs_ == 1) return;
    double mean = 0;
    for (std::size_t c = 0; c < classes_; ++c) mean += n[c] / static_cast<double>(classes_);
    for (std::size_t c = 0; c < classes_; ++c) n[c] -= mean;
  }

  // Calls use(o, n) with the evidence n of one feature with phi = 1 for each output o, given the mass of the feature in each class.
  template <class Use>
  void for_each_output(const float* mass, Use use) const {
    const auto log_share = [&](std::size_t c) { return std::log((static_cast<double>(mass[c]) + kPriorMass) / total_[c]); };
    double centre = outputs_ == 1 ? log_share(0) : 0.0;
    for (std::size_t c = 0; outputs_ > 1 && c < classes_; ++c) centre += log_share(c) / static_cast<double>(classes_);
    for (std::size_t o = 0; o < outputs_; ++o) use(o, log_share(outputs_ == 1 ? 1 : o) - centre);
  }

  Vec<double>& total() { return total_; }  // M_c

 private:
  std::size_t outputs_, classes_;
  Vec<double> total_;
};

}  // namespace budgetron
