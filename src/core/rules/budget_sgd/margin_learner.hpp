// Base class of the BudgetSgd learners, which take a step whenever the margin is below ϑ. K is the multitask kernel, and c_G² the largest
// diagonal entry of A⁻¹, the matrix of task similarities. With K̃ = K/c_G², f = Σ_j β_j K̃(x_j, ·) and ℓ = max(0, ϑ − y f):
//
//   every example:      β ← (1 − η_t λ) β                     η_t: step size, λ: regularization; not with passive-aggressive steps
//   if ℓ > 0:           x_t is learned with β_t = τ y,  τ = η_t  or, for passive-aggressive steps,  τ = min(C, ℓ/‖K̃_t‖²)
//   after each step:    β ← β min(1, U/‖f‖)                   U = radius · √B, a bound of ‖f‖; not if the radius is 0
//
// C is the rate, and B the budget. In τ, η_t and C are multiplied by the weight of the example. A loss of at most 1e-10 ϑ counts as 0. learn_step()
// stays within the budget.
//
// The coefficients are stored as b = β/c_G², so that f = Σ_j b_j K(x_j, ·) as in every other learner. See the NumPy definition.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "learner/coefficient_learner.hpp"

namespace budgetron {

enum class StepSize : std::size_t { constant, root, pegasos, passive_aggressive };

// One step: the example gets the coefficient τ · step.sign for the output step.plus, and −τ · step.sign for the output step.minus.
struct Update {
  Step step;
  double tau, weight;
  double kk;     // K_tt
  double norm2;  // ‖K̃_t‖²: K̃_tt, or 2K̃_tt if the step changes two classes
};

class MarginLearner : public CoefficientLearner {
 public:
  explicit MarginLearner(const Config& config, double eta = 0)
      : CoefficientLearner(config, eta),
        unit_(config.similarity->largest_self()),
        per_unit_(1.0 / unit_),
        kind_(static_cast<StepSize>(config.parameters.count("step", 2))),
        rate_(config.parameters.real("rate", 1.0)),
        lambda_(config.parameters.real("regularization", 0.0)),
        margin_(config.parameters.real("margin", 1.0)),
        radius_(config.parameters.real("radius", 0.0) * std::sqrt(static_cast<double>(config.capacity))),
        skip_(config.parameters.flag("skip", true)),
        diagonal_(bytes_, capacity()),
        roots_(bytes_, capacity()),
        scores_(bytes_, capacity()),
        row_(bytes_, capacity()) {
    const bool shrinks = kind_ == StepSize::constant || kind_ == StepSize::root;
    if (kind_ > StepSize::passive_aggressive || !(rate_ > 0) || !(margin_ > 0) || !(lambda_ >= 0) || !(unit_ > 0) ||
        (kind_ == StepSize::pegasos && lambda_ == 0) || (shrinks && rate_ * lambda_ >= 1))
      throw std::invalid_argument(
          "_core.make: budget_sgd needs a step from 0 to 3, rate > 0, margin > 0, regularization >= 0 (> 0 for Pegasos) and, for constant and "
          "root steps, rate * regularization < 1");
  }

  void forget(std::int64_t task_id) override {
    CoefficientLearner::forget(task_id);
    recompute_norm();
  }

 protected:
  // Learns an example and stays within the budget. Returns which of the flags kUpdated and kStored apply.
  virtual std::uint8_t learn_step(const Example& example, const Update& update, Scratch& scratch) = 0;

  std::uint8_t update(const Example& example, Scratch& scratch) override {
    Step step;
    const std::uint8_t mistake = mistaken(example, scratch, step) ? kMistake : 0;
    const auto& f = scratch.margins;
    const bool paired = step.minus < config_.n_outputs;
    const double y_f = paired ? f[step.plus] - f[step.minus] : step.sign * f[0], loss = margin_ - y_f;
    const double eta = eta_t(), factor = shrink(eta);
    if (!(loss > 1e-10 * margin_) || !(example.weight > 0)) return mistake;
    const double kk = example.self * config_.similarity->self(example.task, scratch.workspace.get());
    if (kk <= eta2_) return mistake;
    const double norm2 = kk * per_unit_ * (paired ? 2.0 : 1.0);
    const double tau = kind_ == StepSize::passive_aggressive ? std::min(rate_ * example.weight, loss / norm2) : eta * example.weight;

    y_f_ = factor * y_f;
    const std::uint8_t outcome = learn_step(example, {step, tau, example.weight, kk, norm2}, scratch);
    if (outcome) bound_norm();
    return static_cast<std::uint8_t>(mistake | outcome);
  }

  // |b| of a step, divided by the common factor scale_ of all stored coefficients.
  double size_of(const Update& u) const { return u.tau * per_unit_ / scale_; }
  // ‖b_t‖ √K_tt of a step, to compare with sizes().
  double score_of(const Update& u) const { return u.tau * std::sqrt(u.norm2 * per_unit_); }

  bool may_skip() const { return skip_ && kind_ == StepSize::passive_aggressive; }
  // Whether skipping the example gives a lower objective ½‖f' − f‖² + Cℓ' than learning it and evicting an example r. f' and ℓ' are f and ℓ after the
  // step. `loss` is the loss by the eviction: ‖b_r‖² times the squared distance of x_r from its projection. If both objectives are equal, the example
  // is learned. They are equal, for example, if τ = ‖β_r‖ = C and x_r is unrelated to all other examples.
  bool skips(const Update& u, double loss) const {
    return may_skip() && 0.5 * unit_ * loss > u.tau * u.norm2 * (rate_ * u.weight - 0.5 * u.tau) * (1.0 + 1e-10);
  }

  // Sets scores_ to ‖b_j‖ √K_jj, and returns the least and the largest.
  Extremes sizes() {
    const std::size_t n = size();
    if (config_.n_outputs == 1) return simd().sizes(scale_, beta(0), roots_.data(), n, scores_.data());
    for (std::size_t j = 0; j < n; ++j) scores_[j] = scale_ * norm(j) * roots_[j];
    return simd().extremes(scores_.data(), n);
  }
  // The slot with the least score, or size() if `newest`, the score of the new example, is the least. If several are tied, the oldest.
  std::size_t least_or_new(const Extremes& range, double newest) const {
    const double tied = std::min(range.least, newest) * (1.0 + 1e-10) + 1e-12 * std::max(range.largest, newest);
    return simd().oldest_within(scores_.data(), arrivals_.data(), size(), tied);
  }
  std::size_t smallest() {
    const Extremes range = sizes();
    return argmin_oldest(scores_.data(), size(), range);
  }

  void set_diagonal(std::size_t slot, double kk) {
    diagonal_[slot] = kk;
    roots_[slot] = std::sqrt(kk);
  }
  std::size_t append_step(const Example& example, const Update& u) {
    const std::size_t slot = append(example);
    set_diagonal(slot, u.kk);
    set(slot, u.step, size_of(u));
    return slot;
  }
  void replace_step(std::size_t slot, const Example& example, const Update& u) {
    replace(slot, example);
    set_diagonal(slot, u.kk);
    set(slot, u.step, size_of(u));
  }

  // ---- ‖f‖², if it is bounded. Only Removing and Halving keep norm2_ up to date, so budget_sgd.cpp rejects a radius for other maintenance.

  bool bounded() const { return radius_ > 0; }
  // Adds a step to ‖f‖². Evictions change f(x_t), so call recompute_margin() after them.
  void add_norm(const Update& u) { norm2_ += u.tau * (u.tau * u.norm2 + 2.0 * y_f_); }
  // Computes y_f_ again, after evictions.
  void recompute_margin(const Update& u, const double* task_row) {
    double f = 0;
    for (const std::size_t o : {u.step.plus, u.step.minus})
      if (o < config_.n_outputs) f += (o == u.step.plus ? 1.0 : -1.0) * simd().dot(beta(o), task_row, size());
    y_f_ = u.step.sign * scale_ * f;
  }
  // Subtracts example r from ‖f‖², before r is removed. If `u` is not null, the step `u` is already part of ‖f‖², but not stored yet;
  // `kernel_value` is then K(x_r, x_t).
  void subtract_norm(std::size_t r, const Update* u, double kernel_value) {
    task_row_of_slot(r, false, row_.data());
    double sum = 0;
    for (std::size_t o = 0; o < config_.n_outputs; ++o) {
      const double b = scale_ * beta(o)[r];
      double f = scale_ * simd().dot(beta(o), row_.data(), size());
      if (u && o == u->step.plus) f += u->step.sign * u->tau / unit_ * kernel_value;
      if (u && o == u->step.minus) f -= u->step.sign * u->tau / unit_ * kernel_value;
      sum += b * (b * diagonal_[r] - 2.0 * f);
    }
    norm2_ += unit_ * sum;
  }
  // Recomputes ‖f‖² if it is bounded.
  void recompute_norm() {
    if (bounded()) norm2_ = exact_norm2();
  }
  double exact_norm2() {
    double sum = 0;
    for (std::size_t j = 0; j < size(); ++j) {
      task_row_of_slot(j, false, row_.data());
      for (std::size_t o = 0; o < config_.n_outputs; ++o) sum += beta(o)[j] * simd().dot(beta(o), row_.data(), size());
    }
    return unit_ * scale_ * scale_ * sum;
  }

  void grow(std::size_t capacity) override {
    diagonal_.resize(capacity);
    roots_.resize(capacity);
    scores_.resize(capacity);
    row_.resize(capacity);
    CoefficientLearner::grow(capacity);
  }
  void slot_removed(std::size_t slot, std::size_t last) override {
    diagonal_[slot] = diagonal_[last];
    roots_[slot] = roots_[last];
    CoefficientLearner::slot_removed(slot, last);
  }
  void kernel_changed() override { recompute_norm(); }
  void save_rule(State& state) override {
    CoefficientLearner::save_rule(state);
    state.reals["own"].assign(diagonal_.begin(), diagonal_.begin() + static_cast<std::ptrdiff_t>(size()));
    if (bounded()) state.reals["norm2"] = {norm2_};
  }
  void load_rule(const State& state) override {
    CoefficientLearner::load_rule(state);
    const auto& own = state.reals.at("own");
    if (own.size() != size()) throw std::invalid_argument("load: own must have one entry per stored example");
    for (std::size_t j = 0; j < size(); ++j) set_diagonal(j, own[j]);
    const auto saved = state.reals.find("norm2");
    if (saved != state.reals.end())
      norm2_ = saved->second.at(0);
    else
      recompute_norm();
  }

  const double unit_, per_unit_;  // c_G² and 1/c_G², because a product is much faster than a division
  const StepSize kind_;
  const double rate_, lambda_, margin_, radius_;
  const bool skip_;
  Vec<double> diagonal_, roots_;  // K_jj and √K_jj
  Vec<double> scores_;  // working memory: a score per slot
  Vec<double> row_;     // the kernel row of a stored example
  double norm2_ = 0, y_f_ = 0;  // ‖f‖² and y f(x_t)

 private:
  double eta_t() const {
    const double t = static_cast<double>(n_seen_ + 1);
    return kind_ == StepSize::pegasos ? 1.0 / (lambda_ * t) : kind_ == StepSize::root ? rate_ / std::sqrt(t) : rate_;
  }

  // β ← (1 − η λ) β; returns 1 − η λ. With passive-aggressive steps, β stays and the result is 1.
  double shrink(double eta) {
    if (lambda_ == 0 || kind_ == StepSize::passive_aggressive) return 1.0;
    const double factor = 1.0 - eta * lambda_;
    norm2_ *= factor * factor;
    scale_ *= factor;
    if (scale_ < 1e-100) fold_scale();  // avoids underflow; at the first step of Pegasos, the factor is 0
    return factor;
  }

  // β ← β min(1, U/‖f‖)
  void bound_norm() {
    if (!bounded() || norm2_ <= radius_ * radius_) return;
    scale_ *= radius_ / std::sqrt(norm2_);
    norm2_ = radius_ * radius_;
    if (scale_ < 1e-100) fold_scale();
  }
};

}  // namespace budgetron
