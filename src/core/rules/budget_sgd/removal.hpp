// Budget maintenance in O(B): evict the example r with the smallest coefficient, the oldest or a random example, or project r onto the new example
// t. β are the coefficients of the B stored examples, K is the multitask kernel, and τ y the step.
//
//   remove     r = argmin ‖β_j‖ √K_jj over all B + 1 examples      oldest   r = the oldest example
//   random     r with probability p_r,  β_j ← β_j/(1 − p_j),  then, if γ > 0, ‖β_j‖ is limited to ηγ (η: rate, γ: clip), one by one or,
//              with `rescale`, by a common factor;  p_j = 1/B, or p_j ∝ max(0, 1 − (B−1) w_j/Σw) with w_j = ‖β_j‖ √K_jj
//   replace    r = argmin ‖β_j‖² (K_jj − K_jt²/K_tt),  β_t = β_r K_rt/K_tt + τ y;  passive-aggressive steps may skip t instead
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "learner/splitmix.hpp"
#include "rules/budget_sgd/margin_learner.hpp"

namespace budgetron {

// Evicts the oldest example, or the one with the smallest ‖β_j‖ √K_jj.
template <bool kOldest>
class Removing final : public MarginLearner {
 public:
  using MarginLearner::MarginLearner;

 protected:
  std::uint8_t learn_step(const Example& example, const Update& u, Scratch& scratch) override {
    if (!store_->fits_alone(example.x)) return 0;
    while (!store_->fits(example.x)) {
      const std::size_t r = kOldest ? oldest() : smallest();
      if (bounded()) subtract_norm(r, nullptr, 0.0);
      move_last(scratch.task_row, r, size() - 1);
      remove(r);
    }
    if (bounded()) recompute_margin(u, scratch.task_row.data());  // evictions above may have changed f(x_t)
    if (!full()) {
      if (bounded()) add_norm(u);
      append_step(example, u);
      return kUpdated | kStored;
    }
    std::size_t r;
    if (kOldest) {
      r = oldest();
    } else {
      r = least_or_new(sizes(), score_of(u));
      if (r == size()) return 0;
    }
    if (bounded()) {
      add_norm(u);
      subtract_norm(r, &u, scratch.task_row[r]);
    }
    replace_step(r, example, u);
    return kUpdated | kStored;
  }

 private:
  std::size_t oldest() const { return simd().oldest(arrivals_.data(), size()); }
};

// Evicts a random example: each with the same probability, or large ones with a lower probability.
template <bool kWeighted>
class RandomRemoving final : public MarginLearner {
 public:
  explicit RandomRemoving(const Config& config)
      : MarginLearner(config), max_norm_(rate_ * config.parameters.real("clip", 0.0) / unit_),
        rescales_(config.parameters.flag("rescale", false)),
        generator_{config.parameters.word("seed", 0)} {}

 protected:
  std::uint8_t learn_step(const Example& example, const Update& u, Scratch&) override {
    if (!store_->fits_alone(example.x)) return 0;
    while (!store_->fits(example.x)) remove(draw_and_compensate());
    if (full())
      replace_step(draw_and_compensate(), example, u);
    else
      append_step(example, u);
    return kUpdated | kStored;
  }

  void save_rule(State& state) override {
    MarginLearner::save_rule(state);
    state.integers["rng"] = {static_cast<std::int64_t>(generator_.state)};
  }
  void load_rule(const State& state) override {
    MarginLearner::load_rule(state);
    generator_.state = static_cast<std::uint64_t>(state.integers.at("rng").at(0));
  }

 private:
  // Draws the example to evict, and divides the coefficients of the others by 1 − p_j, so that the expectation of f does not change. Then limits the
  // coefficients to max_norm_.
  std::size_t draw_and_compensate() {
    const std::size_t n = size();
    const bool binary = config_.n_outputs == 1;
    double sum;  // p_j = share_j / sum; every share is 1 unless kWeighted
    std::size_t r;
    if (kWeighted) {
      if (!binary) sizes();
      sum = simd().shares(binary ? beta(0) : nullptr, roots_.data(), n, scores_.data());
      r = simd().first_above(scores_.data(), n, generator_.uniform() * sum);
    } else {
      sum = static_cast<double>(n);
      r = generator_.below(n);
    }
    const double normalisation = (1.0 - 0x1p-50) / sum;  // slightly below 1/sum, so that 1 − p_j > 0 even if p_j is 1 (j is then evicted)
    const double max_norm = max_norm_ > 0 && !rescales_ ? max_norm_ : HUGE_VAL, *share = kWeighted ? scores_.data() : nullptr;
    if (binary) {
      simd().divide_by_survival(scale_, share, normalisation, max_norm, n, beta(0));
    } else {
      for (std::size_t j = 0; j < n; ++j) {
        const double factor = scale_ / (1.0 - normalisation * (share ? share[j] : 1.0));
        const double size = norm(j) * factor, cut = size > max_norm ? max_norm / size : 1.0;
        for (std::size_t o = 0; o < config_.n_outputs; ++o) beta(o)[j] = flushed(beta(o)[j] * factor * cut);
      }
    }
    scale_ = 1.0;
    if (rescales_ && max_norm_ > 0) {  // all coefficients shrink at once, through the common factor
      double largest = 0;
      for (std::size_t j = 0; j < n; ++j)
        if (j != r) largest = std::max(largest, norm(j));
      if (largest > max_norm_) scale_ = max_norm_ / largest;
    }
    return r;
  }

  const double max_norm_;  // limit of ‖b_j‖ for the stored coefficients b (margin_learner.hpp); 0: no limit
  const bool rescales_;
  Splitmix generator_;
};

// Replaces the example whose projection onto the new one has the least loss.
class Replacing final : public MarginLearner {
 public:
  using MarginLearner::MarginLearner;

 protected:
  std::uint8_t learn_step(const Example& example, const Update& u, Scratch& scratch) override {
    if (!store_->fits_alone(example.x)) return 0;
    const double* k = scratch.task_row.data();
    if (full() && may_skip()) {
      const Extremes range = losses(k, u.kk);
      if (skips(u, range.least)) return 0;
      if (store_->fits(example.x)) return replace_and_project(argmin_oldest(scores_.data(), size(), range), example, u, k);
    }
    // Under a byte budget, a long row may replace several examples, one after the other.
    carried_.assign(config_.n_outputs, 0.0);
    while (!store_->fits(example.x)) {
      const std::size_t r = cheapest(k, u.kk);
      for (std::size_t o = 0; o < config_.n_outputs; ++o) carried_[o] += beta(o)[r] * k[r] / u.kk;
      move_last(scratch.task_row, r, size() - 1);
      remove(r);
    }
    if (full()) return replace_and_project(cheapest(k, u.kk), example, u, k);
    const std::size_t slot = append_step(example, u);
    for (std::size_t o = 0; o < config_.n_outputs; ++o) beta(o)[slot] += carried_[o];
    return kUpdated | kStored;
  }

 private:
  // Stores the new example in slot r, and adds the projection of the replaced example to its coefficient.
  std::uint8_t replace_and_project(std::size_t r, const Example& example, const Update& u, const double* k) {
    for (std::size_t o = 0; o < config_.n_outputs; ++o) beta(o)[r] *= k[r] / u.kk;
    replace(r, example);
    set_diagonal(r, u.kk);
    beta(u.step.plus)[r] += u.step.sign * size_of(u);
    if (u.step.minus < config_.n_outputs) beta(u.step.minus)[r] -= u.step.sign * size_of(u);
    return kUpdated | kStored;
  }

  std::size_t cheapest(const double* k, double kk) {
    const Extremes range = losses(k, kk);
    return argmin_oldest(scores_.data(), size(), range);
  }
  // Sets scores_[j] to the loss of replacing example j by the new one.
  Extremes losses(const double* k, double kk) {
    if (config_.n_outputs == 1) return simd().residuals(scale_, beta(0), diagonal_.data(), k, kk, size(), scores_.data());
    for (std::size_t j = 0; j < size(); ++j) scores_[j] = scale_ * norm(j) * scale_ * norm(j) * std::max(diagonal_[j] - k[j] * k[j] / kk, 0.0);
    return simd().extremes(scores_.data(), size());
  }

  Vec<double> carried_{bytes_, config_.n_outputs};  // the projections of the replaced examples onto the new one, per output
};

}  // namespace budgetron
