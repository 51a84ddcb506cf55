// Budget maintenance that projects one half of a full store onto the other half (Ahpatron). L are the B/2 examples with the largest ‖β_j‖ √K_jj, and
// D are the others. (Under a byte budget, B is the number of stored examples when a row does not fit.) ν is ‖f‖ before the projection, and f_L is f
// after it:
//
//   β_L += (H_LL + ϱI)⁻¹ H_LD β_D,   S ← L,   β_L ← β_L ν/‖f_L‖
//
// S is the set of stored examples, β their coefficients, and ϱ the ridge. H is the Gram matrix in the normalised kernel K̃ = K/c_G²; in K, the
// ridge is ϱc_G². H is not kept up to date, because a full store is halved only once in about B/2 updates. The rows of H are computed then.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "algebra/cholesky_gram.hpp"
#include "rules/budget_sgd/margin_learner.hpp"

namespace budgetron {

class Halving final : public MarginLearner {
 public:
  explicit Halving(const Config& config)
      : MarginLearner(config),
        ridge_(config.parameters.real("ridge", 5e-4) * unit_),
        gram_(std::make_unique<CholeskyGram>(bytes_, config.capacity / 2)),
        order_(bytes_, capacity()),
        products_(bytes_, config.capacity / 2),
        projected_(bytes_, config.capacity / 2) {}

 protected:
  std::uint8_t learn_step(const Example& example, const Update& u, Scratch& scratch) override {
    if (!store_->fits_alone(example.x)) return 0;
    bool halved = false;
    while (full() || !store_->fits(example.x)) {
      halve(scratch.task_row);
      halved = true;
    }
    if (halved) recompute_margin(u, scratch.task_row.data());
    if (bounded()) add_norm(u);
    append_step(example, u);
    return kUpdated | kStored;
  }

  void grow(std::size_t capacity) override {
    order_.resize(capacity);
    MarginLearner::grow(capacity);
  }

 private:
  void halve(Vec<double>& task_row) {
    const std::size_t n = size(), half = n / 2;
    const double before = exact_norm2();
    sort_by_size(half);
    const auto row_of = [&](std::size_t i, double* row) {  // row i of H_LL + ϱI
      task_row_of_slot(order_[i], false, row_.data());
      for (std::size_t j = 0; j < half; ++j) row[j] = row_[order_[j]];
      row[i] += ridge_;
    };
    gram_->rebuild(half, row_of, 1e-15);
    for (std::size_t o = 0; o < config_.n_outputs && half; ++o) {
      // products_ = H_LD β_D
      for (std::size_t i = 0; i < half; ++i) {
        task_row_of_slot(order_[i], false, row_.data());
        double sum = 0;
        for (std::size_t j = half; j < n; ++j) sum += row_[order_[j]] * beta(o)[order_[j]];
        products_[i] = sum;
      }
      gram_->project(products_.data(), 0.0, projected_.data());
      for (std::size_t i = 0; i < half; ++i) beta(o)[order_[i]] += projected_[i];
    }
    // Remove from the last slot down: remove() moves the last slot into the gap, and must not move a slot that is still to be removed.
    std::sort(order_.begin() + static_cast<std::ptrdiff_t>(half), order_.begin() + static_cast<std::ptrdiff_t>(n), [](auto a, auto b) { return a > b; });
    for (std::size_t i = half; i < n; ++i) {
      move_last(task_row, order_[i], size() - 1);
      remove(order_[i]);
    }
    const double after = exact_norm2();
    if (after > 0) scale_ *= std::sqrt(std::max(before, 0.0) / after);
    fold_scale();  // here scale_ may also grow, and would overflow after many halvings
    norm2_ = after > 0 ? before : 0.0;
  }

  // Sorts the slots into order_: L first, then D. Scores that differ from the least score of L by a factor of at most 1 + 1e-10 are
  // tied with it; the oldest of the tied examples go to L.
  void sort_by_size(std::size_t half) {
    sizes();
    const std::size_t n = size();
    for (std::size_t j = 0; j < n; ++j) order_[j] = j;
    const auto begin = order_.begin(), end = begin + static_cast<std::ptrdiff_t>(n), middle = begin + static_cast<std::ptrdiff_t>(half);
    if (half == 0) return;
    std::nth_element(begin, middle - 1, end, [&](auto a, auto b) { return scores_[a] > scores_[b]; });
    const double last = scores_[order_[half - 1]], tie = 1.0 + 1e-10;
    const auto rank = [&](std::size_t j) { return scores_[j] > last * tie ? 0 : scores_[j] * tie >= last ? 1 : 2; };
    std::sort(begin, end, [&](auto a, auto b) {
      const int ra = rank(a), rb = rank(b);
      return ra != rb ? ra < rb : arrivals_[a] < arrivals_[b];
    });
  }

  const double ridge_;
  std::unique_ptr<CholeskyGram> gram_;
  Vec<std::size_t> order_;
  Vec<double> products_, projected_;
};

}  // namespace budgetron
