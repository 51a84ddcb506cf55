// Budget maintenance of NOGD: once the store is full, its examples stay. Learning continues in the span of the eigenvectors that belong to the
// r largest eigenvalues of their Gram matrix (the Nyström approximation).
//
//   before the first step with a full store:   H = VΛVᵀ,  M = Λ_r^(−½) V_rᵀ,  β ← V_r V_rᵀ β
//   at this and every later step τ y:          β ← β + τ y MᵀM k_t
//
// H is the Gram matrix of the stored examples, β their coefficients, k_t the kernel row of the new example. Λ_r and V_r are the r largest
// eigenvalues and their eigenvectors; eigenvalues of at most 1e-10 times the largest are left out. If an example is removed, or γ of the kernel
// changes, M is discarded, and computed again once the store is full.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "algebra/eigen.hpp"
#include "rules/budget_sgd/margin_learner.hpp"

namespace budgetron {

class Nystrom final : public MarginLearner {
 public:
  explicit Nystrom(const Config& config)
      : MarginLearner(config),
        share_(config.parameters.real("rank", 0.2)),
        m_(bytes_, config.capacity * config.capacity),
        values_(bytes_, config.capacity),
        work_(bytes_, config.capacity) {
    if (!(share_ > 0 && share_ <= 1)) throw std::invalid_argument("_core.make: rank must be above 0 and at most 1");
  }

 protected:
  std::uint8_t learn_step(const Example& example, const Update& u, Scratch& scratch) override {
    if (rank_ == 0 && !full() && store_->fits(example.x)) {
      append_step(example, u);
      return kUpdated | kStored;
    }
    if (rank_ == 0 && !decompose()) return 0;
    const std::size_t n = size();
    for (std::size_t i = 0; i < rank_; ++i) values_[i] = simd().dot(m_.data() + i * n, scratch.task_row.data(), n);
    std::fill_n(row_.begin(), n, 0.0);
    for (std::size_t i = 0; i < rank_; ++i) simd().axpy(values_[i], m_.data() + i * n, n, row_.data());
    simd().axpy(u.step.sign * size_of(u), row_.data(), n, beta(u.step.plus));
    if (u.step.minus < config_.n_outputs) simd().axpy(-u.step.sign * size_of(u), row_.data(), n, beta(u.step.minus));
    return kUpdated;
  }

  void slot_removed(std::size_t slot, std::size_t last) override {
    rank_ = 0;  // the store is no longer full
    MarginLearner::slot_removed(slot, last);
  }
  void kernel_changed() override { rank_ = 0; }

  void save_rule(State& state) override {
    MarginLearner::save_rule(state);
    state.reals["features"].assign(m_.begin(), m_.begin() + static_cast<std::ptrdiff_t>(rank_ * size()));
    state.integers["rank"] = {static_cast<std::int64_t>(rank_)};
  }
  void load_rule(const State& state) override {
    MarginLearner::load_rule(state);
    const auto& features = state.reals.at("features");
    const std::int64_t rank = state.integers.at("rank").at(0);
    if (rank < 0 || static_cast<std::size_t>(rank) > size() || features.size() != static_cast<std::size_t>(rank) * size() || features.size() > m_.size())
      throw std::invalid_argument("load: features must have rank times the number of stored examples entries");
    // After a resize to a larger budget, the store is not full: examples are stored until it is full, and then M is computed again. With a pool, the
    // number of examples does not tell whether there is room, so M stays.
    rank_ = full() || config_.pool ? static_cast<std::size_t>(rank) : 0;
    std::copy(features.begin(), features.end(), m_.begin());
  }

 private:
  bool decompose() {
    const std::size_t n = size();
    if (n == 0) return false;
    // K_ij and K_ji may differ in the last digits. Both are set to the entry in the row of the later example, as in the NumPy definition.
    for (std::size_t j = 0; j < n; ++j) task_row_of_slot(j, true, m_.data() + j * n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j) m_[i * n + j] = m_[j * n + i] = arrivals_[i] > arrivals_[j] ? m_[i * n + j] : m_[j * n + i];
    symmetric_eigen(m_.data(), n, values_.data(), work_.data());
    const std::size_t wanted = std::max<std::size_t>(1, static_cast<std::size_t>(share_ * static_cast<double>(n) + 0.5));
    std::size_t rank = 0;
    while (rank < wanted && values_[n - 1 - rank] > 1e-10 * values_[n - 1]) ++rank;
    if (rank == 0) return false;
    rows_of_largest_first(n);
    for (std::size_t o = 0; o < config_.n_outputs; ++o) {
      for (std::size_t i = 0; i < rank; ++i) work_[i] = simd().dot(m_.data() + i * n, beta(o), n);
      std::fill_n(beta(o), n, 0.0);
      for (std::size_t i = 0; i < rank; ++i) simd().axpy(work_[i], m_.data() + i * n, n, beta(o));
    }
    for (std::size_t i = 0; i < rank; ++i)
      for (std::size_t j = 0; j < n; ++j) m_[i * n + j] /= std::sqrt(values_[n - 1 - i]);
    rank_ = rank;
    return true;
  }

  // Row i becomes the eigenvector of values_[n − 1 − i].
  void rows_of_largest_first(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j) std::swap(m_[i * n + j], m_[j * n + i]);
    for (std::size_t i = 0; i < n / 2; ++i) std::swap_ranges(m_.data() + i * n, m_.data() + (i + 1) * n, m_.data() + (n - 1 - i) * n);
  }

  const double share_;  // r/B
  std::size_t rank_ = 0;  // r; 0 as long as there is no M
  Vec<double> m_;         // M, r × n, for n stored examples; in decompose(), first H and then its eigenvectors
  Vec<double> values_, work_;
};

}  // namespace budgetron
