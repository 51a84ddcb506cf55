// Base class of learners with one coefficient β_j per stored example j (and per class, if there are more than two):
//
//   f_i(x) = Σ_j β_j (A⁻¹)_{i_j, i} K'(x_j, x)
//
// A is the interaction matrix of the tasks, K' the kernel of the features, i_j the task of example j.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "learner/registry.hpp"

namespace budgetron {

class CoefficientLearner : public Learner {
 public:
  // After a mistake, an example whose norm √K_tt is at most η is not learned. With η = 0, this affects only examples of norm 0.
  explicit CoefficientLearner(const Config& config, double eta = 0) : Learner(config), eta2_(eta * eta), beta_(bytes_) {
    require_kernel();
    grow(capacity());
  }

  void task_weights(Task task, double* out) const override {
    Bytes temporary;
    const auto workspace = config_.similarity->new_workspace(temporary);
    coefficients(out);
    for (std::size_t o = 0; o < config_.n_outputs; ++o)
      config_.similarity->multiply(task, task_ids_.data(), clusters_.data(), size(), out + o * size(), workspace.get());
  }

  void coefficients(double* out) const override {
    for (std::size_t o = 0; o < config_.n_outputs; ++o)
      for (std::size_t j = 0; j < size(); ++j) out[o * size() + j] = scale_ * beta(o)[j];
  }

 protected:
  // Called by update() after a mistake on an example with K_tt > η². The second argument is K_tt. A rule that also learns from correct
  // predictions overrides update() instead.
  virtual std::uint8_t on_mistake(const Example&, double, const Step&, Scratch&) { return kMistake; }

  void score(const Instance&, Task task, Scratch& s) const override {
    s.margins[0] = scale_ * config_.similarity->multiply(task, task_ids_.data(), clusters_.data(), size(), s.row.data(),
                                                         beta(0), s.task_row.data(), s.workspace.get());
    for (std::size_t o = 1; o < config_.n_outputs; ++o)
      s.margins[o] = scale_ * simd().dot(beta(o), s.task_row.data(), size());
  }

  std::uint8_t update(const Example& example, Scratch& scratch) override {
    Step step;
    if (!mistaken(example, scratch, step)) return 0;
    const double kk = example.self * config_.similarity->self(example.task, scratch.workspace.get());  // K_tt
    return kk <= eta2_ ? kMistake : on_mistake(example, kk, step, scratch);
  }

  void grow(std::size_t capacity) override {
    Vec<double> wider(bytes_, config_.n_outputs * capacity);
    for (std::size_t o = 0; o < config_.n_outputs && stride_; ++o)
      std::copy(beta(o), beta(o) + stride_, wider.begin() + static_cast<std::ptrdiff_t>(o * capacity));
    beta_.swap(wider);
    stride_ = capacity;
  }

  void slot_removed(std::size_t slot, std::size_t last) override {
    for (std::size_t o = 0; o < config_.n_outputs; ++o) {
      beta(o)[slot] = beta(o)[last];
      beta(o)[last] = 0.0;
    }
  }

  // Sets beta_ of a slot to size · step: ± `size` for the outputs of the step, and 0 for all others. The caller has divided `size` by scale_.
  void set(std::size_t slot, const Step& step, double size) {
    for (std::size_t o = 0; o < config_.n_outputs; ++o) beta(o)[slot] = 0.0;
    beta(step.plus)[slot] = step.sign * size;
    if (step.minus < config_.n_outputs) beta(step.minus)[slot] = -step.sign * size;
  }

  // Multiplies beta_ by scale_ and sets scale_ to 1, so the coefficients stay the same. Called before scale_ could underflow or overflow.
  void fold_scale() {
    for (std::size_t o = 0; o < config_.n_outputs; ++o)
      for (std::size_t j = 0; j < size(); ++j) beta(o)[j] = flushed(beta(o)[j] * scale_);
    scale_ = 1.0;
  }

  // The norm over the outputs of coefficient j, without the factor scale_.
  double norm(std::size_t j) const {
    if (config_.n_outputs == 1) return std::abs(beta(0)[j]);
    double square = 0;
    for (std::size_t o = 0; o < config_.n_outputs; ++o) square += beta(o)[j] * beta(o)[j];
    return std::sqrt(square);
  }

  void save_rule(State& state) override {
    auto& out = state.reals["coef"];
    for (std::size_t o = 0; o < config_.n_outputs; ++o) out.insert(out.end(), beta(o), beta(o) + size());
    state.reals["scale"] = {scale_};
  }

  void load_rule(const State& state) override {
    const auto& in = state.reals.at("coef");
    if (in.size() != config_.n_outputs * size())
      throw std::invalid_argument("load: coef must have one entry per output and stored example");
    for (std::size_t o = 0; o < config_.n_outputs; ++o)
      std::copy_n(in.begin() + static_cast<std::ptrdiff_t>(o * size()), size(), beta(o));
    const auto scale = state.reals.find("scale");
    if (scale != state.reals.end()) scale_ = scale->second.at(0);
  }

  double* beta(std::size_t output) { return beta_.data() + output * stride_; }
  const double* beta(std::size_t output) const { return beta_.data() + output * stride_; }

  const double eta2_;  // η²
  double scale_ = 1.0;  // β = scale_ · beta_, so that shrinking all coefficients takes O(1)

 private:
  Vec<double> beta_;
  std::size_t stride_ = 0;
};

}  // namespace budgetron
