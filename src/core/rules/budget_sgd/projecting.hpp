// Budget maintenance that projects the evicted example r onto all others. S is the set of stored examples, β their coefficients, and H their Gram
// matrix in the multitask kernel K. P = H⁻¹ for the B stored examples and the new example t, and τ y is the step. α is the projection of t onto the
// stored examples, and δ the distance of t from this projection. c_G² is the largest diagonal entry of A⁻¹, the matrix of task similarities.
//
//   δ ≤ ηc_G:   β ← β + τ y α, nothing is stored
//   else:       S ← S ∪ {t},  β_t = τ y.   If now |S| = B + 1:
//               r = argmin ‖β_j‖ / √P_jj, or argmin ‖β_j‖ √K_jj;   β_j += β_r γ_j,  γ_j = −P_jr/P_rr,  S ← S ∖ {r}
//
// Examples with √K_tt ≤ ηc_G are not learned. r may be the new example. With passive-aggressive steps, r is always a stored example, but the new one
// may be skipped.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "learner/with_span.hpp"
#include "rules/budget_sgd/margin_learner.hpp"

namespace budgetron {

template <bool kSmallest>
class Projecting final : public WithSpan<MarginLearner> {
 public:
  explicit Projecting(const Config& config)
      : WithSpan(config, config.parameters.real("eta", 0.0) * std::sqrt(config.similarity->largest_self())) {}

  void forget(std::int64_t task_id) override {
    WithSpan<MarginLearner>::forget(task_id);
    recompute_norm();
  }

 protected:
  std::uint8_t learn_step(const Example& example, const Update& u, Scratch& scratch) override {
    const double* k = scratch.task_row.data();
    double delta2 = span_.project(k, u.kk, rows());
    if (delta2 <= eta2_) {
      add(u.step, size_of(u), span_.alpha.data());
      return kUpdated;
    }
    if (!store_->fits_alone(example.x)) return 0;
    while (!store_->fits(example.x)) {
      span_.settle();
      const std::size_t r = choose_evicted([&](std::size_t j) { return span_.root_diagonal(j); });
      move_last(scratch.task_row, r, size() - 1);
      evict(r);
      delta2 = span_.project(k, u.kk, rows());
    }
    if (!full()) {
      span_.append(k, u.kk, delta2);
      append_step(example, u);
      return kUpdated | kStored;
    }
    const auto root_diagonal = [&](std::size_t j) { return span_.root_diagonal(j, delta2); };
    std::size_t r = choose_evicted(root_diagonal);
    if (kind_ == StepSize::passive_aggressive) {
      const double loss = scale_ * norm(r) / root_diagonal(r);
      if (skips(u, loss * loss)) return 0;
    } else {
      r = least_or_new(simd().extremes(scores_.data(), size()), kSmallest ? score_of(u) : score_of(u) * std::sqrt(delta2 / u.kk));  // 1/√P_tt is δ
    }
    if (r == size()) {
      add(u.step, size_of(u), span_.alpha.data());
      return kUpdated;
    }
    replace_projected(r, example, u.kk, delta2, u.step, size_of(u), scratch);
    set_diagonal(r, u.kk);
    return kUpdated | kStored;
  }

 private:
  template <class RootDiagonal>
  std::size_t choose_evicted(RootDiagonal root_diagonal) {
    if (kSmallest) return smallest();
    for (std::size_t j = 0; j < size(); ++j) scores_[j] = scale_ * norm(j) / root_diagonal(j);
    return argmin_oldest(scores_.data(), size());
  }
};

}  // namespace budgetron
