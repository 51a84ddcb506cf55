// Corrects the margins m of the average of the mixture and the combination, which may be too small, too large, or biased towards one class.
//
// There are two curves from m to a probability, mixed in the same way as beliefs (mixture.hpp). The second curve assumes that a share e of the
// labels is random, such as mistakes of annotators. Then even far from the decision boundary, probabilities stay below 1. A curve without e
// approaches 1 there; to avoid that, it would learn a scale that is too small everywhere. The first curve assumes e = 0. It is better where one
// label is rare, because the second curve takes rare labels for random ones.
//
//   z_c = s m_c + b_c,   q_c = e/C + (1 - e) p_c(z)      s: scale, b_c: offset of class c, C: number of classes
//   r = (1 - e) p_y/q_y,   g = r ([y] - p)               [y]: 1 for the true class y and 0 for the others
//   P <- max(P/(1 + h P), floor),   s += P sum_c g_c m_c,   b += kRate g,   e += step (1 - r - e)
//
// p and q are the probabilities before and after the correction by e. r is the probability that the label is not random. e is learned by online
// expectation maximisation; it is 0 until the first example sets it to kFirstLapses. s is learned by a Bayesian filter; P is its posterior variance,
// and h is r times the variance of m under p. P has a lower bound, so that s keeps following a mixture that becomes more confident as it learns. s
// and e change probabilities; only b can change the predicted class. h and the steps of s, b and e are multiplied by the weight of the example; a
// weight above 1 counts as 1.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "memory.hpp"
#include "rules/budgetron/mixture.hpp"
#include "rules/budgetron/parts/steps.hpp"
#include "state.hpp"

namespace budgetron {

class Calibration {
 public:
  static constexpr std::size_t kCurves = 2;
  // P before the first example and its lower bound, per curve. They are larger for the curve with e, whose best scale is often above 2.
  static constexpr double kFirstVariances[] = {0.02, 1.0}, kMinVariances[] = {0.006, 0.04};
  static constexpr double kFirstLapses[] = {0.0, 0.05};  // e at the first example; if it is 0, it stays 0
  static constexpr double kRate = 0.002, kMaxChange = 0.1, kMinScale = 0.25, kMaxScale = 8.0;  // kMaxChange: of s, by one example
  // e stays above 0, so that it can grow again, and below 1, so that margins are not 0. Its step is 1/(20 + n) for example n, but at least
  // kMinStep.
  static constexpr double kMinLapse = 1e-5, kMaxLapse = 0.9, kFirstStep = 0.05, kMinStep = 0.005;

  Calibration(Bytes& bytes, std::size_t outputs)
      : mixture(bytes, kCurves), offsets(bytes, kCurves * outputs), outputs_(outputs), classes_(std::max<std::size_t>(2, outputs)), both_(bytes, kCurves), p_(bytes, classes_) {
    for (std::size_t k = 0; k < kCurves; ++k) {
      both_[k] = k;
      curves[k].variance = kFirstVariances[k];
    }
  }

  // The size of the working memory of margins() and learn(), in numbers: the probabilities of each curve.
  static std::size_t scratch_size(std::size_t outputs) { return kCurves * std::max<std::size_t>(2, outputs); }

  // Corrects the margins m. For more than two classes, both m and the result are log probabilities.
  void margins(const double* m, double* scratch, double* out) const {
    for (std::size_t k = 0; k < kCurves; ++k) correct(k, m, scratch + k * classes_);
    mixture.margins(nullptr, scratch, both_, outputs_, out);
    // correct() raises tiny probabilities, so the sum over more than two classes may exceed 1.
    if (outputs_ > 1) log_probabilities(out, outputs_, out);
  }

  // Learns from an example with margins m. `scratch` must be as margins() left it for the same example.
  void learn(const double* m, const double* scratch, std::size_t label, double omega) {
    const double weight = std::min(omega, 1.0);
    mixture.learn(scratch, both_, outputs_, label, weight);
    for (std::size_t k = 0; k < kCurves; ++k) learn_curve(k, m, label, weight);
  }

  // s and b, averaged over the curves; used by queries.
  double scale() const { return mixture.weights[0] * curves[0].scale + mixture.weights[1] * curves[1].scale; }
  double offset(std::size_t output) const { return mixture.weights[0] * offsets[output] + mixture.weights[1] * offsets[outputs_ + output]; }

  // For two classes, the factor (at most 1) by which e shrinks the margin: the corrected margin divided by s m + b. For more classes it is 1,
  // because their margins are normalised log probabilities, which are not multiples of s m + b.
  double shrinkage(const double* m, double margin) const {
    const double z = scale() * m[0] + offset(0);
    return outputs_ > 1 || z == 0 ? 1.0 : std::max(0.0, std::min(1.0, margin / z));
  }

  void save(State& state) const {
    state.reals["calibration_weight"].assign(mixture.weights.begin(), mixture.weights.end());
    state.reals["calibration_offset"].assign(offsets.begin(), offsets.end());
    for (const Curve& curve : curves) {
      state.reals["calibration_scale"].push_back(curve.scale);
      state.reals["calibration_variance"].push_back(curve.variance);
      state.reals["calibration_lapse"].push_back(curve.lapse);
      state.reals["calibration_lapse_step"].push_back(curve.lapse_step);
    }
  }

  void load(const State& state) {
    const auto copy = [](const std::vector<double>& from, Vec<double>& to) {
      if (from.size() != to.size()) throw std::invalid_argument("saved model: wrong size of the calibration");
      std::copy(from.begin(), from.end(), to.begin());
    };
    copy(state.reals.at("calibration_weight"), mixture.weights);
    copy(state.reals.at("calibration_offset"), offsets);
    for (std::size_t k = 0; k < kCurves; ++k) {
      const auto value = [&](const char* name) { return state.reals.at(name).at(k); };
      curves[k] = {value("calibration_scale"), value("calibration_variance"), value("calibration_lapse"), value("calibration_lapse_step")};
    }
  }

  struct Curve {
    double scale = 1.0, variance = 0.0, lapse = 0.0, lapse_step = kFirstStep;
  };
  Curve curves[kCurves];
  Mixture mixture;
  Vec<double> offsets;  // curves × outputs

 private:
  // Computes q of each class.
  void correct(std::size_t k, const double* m, double* q) const {
    const Curve& curve = curves[k];
    for (std::size_t c = 0; c < outputs_; ++c) q[c] = curve.scale * m[c] + offsets[k * outputs_ + c];
    class_probabilities(q, outputs_, q);
    for (std::size_t c = 0; c < classes_; ++c) q[c] = std::max(with_lapse(q[c], curve.lapse, classes_), Mixture::kLowest);
  }

  void learn_curve(std::size_t k, const double* m, std::size_t label, double weight) {
    Curve& curve = curves[k];
    double* offset = offsets.data() + k * outputs_;
    if (curve.lapse == 0) curve.lapse = kFirstLapses[k];
    const std::size_t first = classes_ - outputs_;  // the class of the first output: with two classes, the only output belongs to the second one
    for (std::size_t c = 0; c < outputs_; ++c) p_[c] = curve.scale * m[c] + offset[c];
    class_probabilities(p_.data(), outputs_, p_.data());
    const double kept = (1.0 - curve.lapse) * p_[label];
    const double r = curve.lapse > 0 ? kept / (curve.lapse / static_cast<double>(classes_) + kept) : 1.0;
    double slope = 0, mean = 0, square = 0;
    for (std::size_t c = 0; c < outputs_; ++c) {
      const double p = p_[first + c], g = r * ((first + c == label ? 1.0 : 0.0) - p);
      mean += p * m[c];
      square += p * m[c] * m[c];
      slope += g * m[c];
      offset[c] += kRate * weight * g;
    }
    const double h = weight * r * std::max(0.0, square - mean * mean);
    curve.variance = std::max(curve.variance / (1.0 + h * curve.variance), kMinVariances[k]);
    const double change = std::max(-kMaxChange, std::min(kMaxChange, weight * curve.variance * slope));
    curve.scale = std::max(kMinScale, std::min(kMaxScale, curve.scale + change));
    if (curve.lapse == 0) return;
    curve.lapse_step = std::max(curve.lapse_step / (1.0 + curve.lapse_step), kMinStep);
    curve.lapse = std::max(kMinLapse, std::min(kMaxLapse, curve.lapse + weight * curve.lapse_step * (1.0 - r - curve.lapse)));
  }

  std::size_t outputs_, classes_;
  Vec<std::size_t> both_;  // {0, 1}, the indices of the curves, which Mixture takes as the beliefs that are awake
  Vec<double> p_;          // working memory of learn_curve(): the probability of each class
};

}  // namespace budgetron
