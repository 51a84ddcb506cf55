// A mixin for rules that project examples onto the span of the stored examples. Base is CoefficientLearner or a class derived from it.
//
//   α = H⁻¹k_t,  δ² = K_tt − k_tᵀα
//   eviction of r, P = H⁻¹:  γ_j = −P_jr / P_rr,   β_j += β_r γ_j,   S ← S ∖ {r}
//
// S is the set of stored examples, β their coefficients, H their Gram matrix in the multitask kernel, k_t the kernel values of the new example t
// with S. If t takes the slot of r, then P is the inverse for S and t, which is Q in span.hpp.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "algebra/span.hpp"
#include "learner/coefficient_learner.hpp"

namespace budgetron {

template <class Base>
class WithSpan : public Base {
 public:
  // Examples whose distance from the span, in the norm of the multitask kernel, is at most `eta` are projected instead of stored.
  WithSpan(const Config& config, double eta)
      : Base(config, eta), span_(this->bytes_, this->capacity(), is_small(config, eta), config.single && !config.sparse) {}

  void forget(std::int64_t task_id) override {
    for (std::size_t slot = 0; slot < this->size();) {
      if (this->task_ids_[slot] == task_id) {
        span_.remove(slot);
        this->remove(slot);
      } else {
        ++slot;
      }
    }
  }

 protected:
  void grow(std::size_t capacity) override {
    span_.reserve(capacity);
    Base::grow(capacity);
  }
  void rows_moved() override { span_.rebuild(this->size(), rows()); }
  void kernel_changed() override {
    rows_moved();
    // The Gram matrix of nearly dependent examples is ill-conditioned: if its inverse were only updated, it could be wrong in every digit
    // after one eviction. So the inverse is rebuilt after each eviction.
    span_.evict_dependent(this->eta2_, [this](std::size_t r) {
      evict(r);
      rows_moved();
    });
  }
  void save_rule(State& state) override {
    Base::save_rule(state);
    span_.save(state);
  }
  void load_rule(const State& state) override {
    Base::load_rule(state);
    span_.load(state, this->size(), rows());
  }

  Gram::RowOf rows() {
    return [this](std::size_t slot, double* row) { this->task_row_of_slot(slot, true, row); };
  }

  // Projects the example in slot r onto the others, and removes it.
  void evict(std::size_t r) {
    span_.set_eviction(r);
    distribute(r);
    span_.remove(r);
    this->remove(r);
  }

  // β += size · step · α, for an example that is projected onto the stored ones. The caller must have divided `size` by scale_.
  void add(const Step& step, double size, const double* alpha) {
    simd().axpy(step.sign * size, alpha, this->size(), this->beta(step.plus));
    if (step.minus < this->config_.n_outputs) simd().axpy(-step.sign * size, alpha, this->size(), this->beta(step.minus));
  }

  // Learns from a mistake on `example`. The caller has just called span_.project() for this example. delta2 is its squared distance from the
  // span. An example within η of the span is projected. Any other example is stored, after as many evictions as it needs. But if its row alone
  // exceeds the budget, nothing is learned. The caller must have divided `size` by scale_.
  std::uint8_t project_or_store(const Example& example, double kk, double delta2, const Step& step, double size, Scratch& scratch) {
    if (delta2 <= this->eta2_) {
      add(step, size, span_.alpha.data());
      return kMistake | kUpdated;
    }
    if (!this->store_->fits_alone(example.x)) return kMistake;
    const double* k = scratch.task_row.data();
    while (!this->store_->fits(example.x)) {
      const std::size_t r = cheapest([&](std::size_t j) { return span_.root_diagonal(j); });
      this->move_last(scratch.task_row, r, this->size() - 1);
      evict(r);
      delta2 = span_.project(k, kk, rows());
    }
    if (this->full()) {
      const std::size_t r = cheapest(span_.root_diagonals(delta2));
      replace_projected(r, example, kk, delta2, step, size, scratch);
    } else {
      span_.append(k, kk, delta2);
      this->set(this->append(example), step, size);
    }
    return kMistake | kUpdated | kStored;
  }

  // Sets span_.scores to ‖β_j‖/√P_jj (or √Q_jj), the norm of the change of f if j is evicted, without the common factor scale_. Returns the
  // slot with the lowest score; if several are tied, the oldest.
  template <class RootDiagonal>
  std::size_t cheapest(RootDiagonal root_diagonal) {
    for (std::size_t j = 0; j < this->size(); ++j) span_.scores[j] = this->norm(j) / root_diagonal(j);
    return this->argmin_oldest(span_.scores.data(), this->size());
  }

  // Stores the new example in slot r. The last call of span_.project() must have been for it. The replaced example is projected onto the new
  // one and the others. The coefficient of the new example is size · step, plus its share of the replaced one.
  void replace_projected(std::size_t r, const Example& example, double kk, double delta2, const Step& step, double size, Scratch& scratch) {
    span_.replace(r, scratch.task_row.data(), kk, delta2);
    distribute(r);
    this->beta(step.plus)[r] += step.sign * size;
    if (step.minus < this->config_.n_outputs) this->beta(step.minus)[r] -= step.sign * size;
    this->replace(r, example);
  }

  Span span_;

 private:
  // Whether η is so small that nearly dependent examples are stored. Span then uses a Cholesky factor instead of the inverse (gram.hpp).
  // K_tt is at most largest_self() if the kernel is normalised. Otherwise its size is unknown, and η counts as small.
  static bool is_small(const Config& config, double eta) {
    const bool normalised = config.kernel.kind == Kernel::Kind::gaussian || config.kernel.normalize;
    return !normalised || eta < 1e-2 * std::sqrt(config.similarity->largest_self());
  }

  // Sets β_r to 0, then adds γ_j times its old value to every β_j. If a new example takes slot r, γ_r is the share of that example.
  void distribute(std::size_t r) {
    for (std::size_t o = 0; o < this->config_.n_outputs; ++o) {
      const double coefficient = this->beta(o)[r];
      this->beta(o)[r] = 0.0;
      simd().axpy(coefficient, span_.gamma.data(), this->size(), this->beta(o));
    }
  }
};

}  // namespace budgetron
