// SecondOrderPerceptron: the multitask second-order Perceptron in dual form, with or without a budget.
//
// S is the set of stored examples, y_S their labels, β their coefficients, a the ridge, K the multitask kernel, k_t its values between the new
// example t and S, f the margin of t, and P = K_SS⁻¹. α has the coefficients of the projection of x_t onto the stored examples, and δ² is the
// squared distance of x_t from this projection (span.hpp).
//
//   R = (aI + K_SS)⁻¹ and β = R y_S until an example is projected or evicted
//   on a mistake:  ρ = R k_t,  s = a + K_tt − k_tᵀρ,  e = (ρ, −1):   R ← [R 0; 0 0] + e eᵀ/s,   β ← (β, 0) − e (y_t − f)/s
//   if δ² = 0, or evicting x_t itself loses least:   e = ρ − α, and x_t is not stored
//   eviction of r, γ = −P_·r/P_rr:   β_j += γ_j β_r,   R_ij += γ_i R_rj + R_ir γ_j + γ_i R_rr γ_j
//
// In a full store, the new example takes the slot of the evicted one. P then includes the new example (Q in span.hpp).
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "algebra/span.hpp"
#include "learner/coefficient_learner.hpp"

namespace budgetron {

namespace {

class SecondOrderPerceptron final : public CoefficientLearner {
 public:
  explicit SecondOrderPerceptron(const Config& config)
      : CoefficientLearner(config),
        ridge_(config.parameters.real("ridge", 1.0)),
        r_(bytes_),
        labels_(bytes_),
        rho_(bytes_),
        e_(bytes_),
        row_(bytes_),
        residual_(bytes_, config.n_outputs) {
    if (!(ridge_ > 0)) throw std::invalid_argument("_core.make: the ridge of a SecondOrderPerceptron must be above 0");
    if (!unbounded()) span_ = std::make_unique<Span>(bytes_, capacity(), true, config.single && !config.sparse);
    if (span_) bytes_.used += sizeof(Span);
    grow(capacity());
  }

  void forget(std::int64_t task_id) override {
    for (std::size_t slot = 0; slot < size();) {
      if (task_ids_[slot] != task_id) {
        ++slot;
        continue;
      }
      // Removing an example from K_SS subtracts R_·j R_j·/R_jj from R, and R_·j β_j/R_jj from β, where j is its slot.
      if (const double own = r(slot, slot); own > 0) {
        std::copy_n(&r(slot, 0), size(), e_.data());
        for (std::size_t o = 0; o < config_.n_outputs; ++o) simd().axpy(-beta(o)[slot] / own, e_.data(), size(), beta(o));
        add_square(e_.data(), -1.0 / own);
      }
      if (span_) span_->remove(slot);
      remove(slot);
    }
  }

 protected:
  std::uint8_t on_mistake(const Example& example, double kk, const Step& step, Scratch& scratch) override {
    double* k = scratch.task_row.data();
    double delta2 = span_ ? span_->project(k, kk, rows()) : 1.0;
    if (delta2 == 0) {
      learn_projected(k, kk, step, scratch.margins.data());
      return kMistake | kUpdated;
    }
    if (!store_->fits_alone(example.x)) return kMistake;
    if (!store_->fits(example.x)) {
      do {
        span_->settle();
        const std::size_t last = size() - 1, victim = evict();
        move_last(scratch.task_row, victim, last);
      } while (!store_->fits(example.x));
      for (std::size_t o = 0; o < config_.n_outputs; ++o) scratch.margins[o] = simd().dot(beta(o), k, size());
      delta2 = span_->project(k, kk, rows());
    }
    const std::size_t n = size();
    const double s = innovation(k, kk);
    set_residual(step, scratch.margins.data());
    if (!full()) {
      if (span_) span_->append(k, kk, delta2);
      append(example);
      extend(n, s, step);
      return kMistake | kUpdated | kStored;
    }
    const std::size_t victim = cheapest_or_new(s, delta2);
    if (victim == n) {
      learn_projected(k, kk, step, scratch.margins.data());
      return kMistake | kUpdated;
    }
    span_->replace(victim, k, kk, delta2);
    replace_in_matrix(victim, s);
    for (std::size_t o = 0; o < config_.n_outputs; ++o) {
      // First the step changes β. Then the coefficient of the victim, times γ, is added to β. The slot of the victim gets the new example.
      const double of_victim = beta(o)[victim] - rho_[victim] * residual_[o] / s;
      simd().axpy(-residual_[o] / s, rho_.data(), n, beta(o));
      simd().axpy(of_victim, span_->gamma.data(), n, beta(o));
      beta(o)[victim] = residual_[o] / s + of_victim * span_->gamma[victim];
    }
    replace(victim, example);
    set_labels(victim, step);
    return kMistake | kUpdated | kStored;
  }

  void grow(std::size_t capacity) override {
    if (capacity > stride_) {
      Vec<double> wider(bytes_, capacity * capacity), labels(bytes_, config_.n_outputs * capacity);
      for (std::size_t i = 0; i < size(); ++i) std::copy_n(r_.data() + i * stride_, size(), wider.data() + i * capacity);
      for (std::size_t o = 0; o < config_.n_outputs && stride_; ++o) std::copy_n(labels_.data() + o * stride_, size(), labels.data() + o * capacity);
      for (auto* vector : {&rho_, &e_, &row_}) vector->resize(capacity);
      r_.swap(wider);
      labels_.swap(labels);
      stride_ = capacity;
    }
    CoefficientLearner::grow(capacity);
  }

  void slot_removed(std::size_t slot, std::size_t last) override {
    for (std::size_t j = 0; j <= last; ++j) r(slot, j) = r(last, j);
    for (std::size_t j = 0; j <= last; ++j) r(j, slot) = r(j, last);
    for (std::size_t o = 0; o < config_.n_outputs; ++o) labels_[o * stride_ + slot] = labels_[o * stride_ + last];
    CoefficientLearner::slot_removed(slot, last);
  }

  void rows_moved() override {
    if (span_) span_->rebuild(size(), rows());
  }
  // Within a budget, removes the examples that have become linearly dependent. Then recomputes R and β by adding the examples one by one.
  void kernel_changed() override {
    rows_moved();
    if (span_)
      span_->evict_dependent(0.0, [this](std::size_t slot) {
        span_->remove(slot);
        remove(slot);
        rows_moved();
      });
    for (std::size_t o = 0; o < config_.n_outputs; ++o) std::fill_n(beta(o), size(), 0.0);
    for (std::size_t j = 0; j < size(); ++j) {
      task_row_of_slot(j, true, row_.data());
      multiply(row_.data(), j);
      const double s = innovation(row_.data(), row_[j], j);
      for (std::size_t o = 0; o < config_.n_outputs; ++o) residual_[o] = labels_[o * stride_ + j] - simd().dot(beta(o), row_.data(), j);
      grow_matrix(j, s);
    }
  }

  void save_rule(State& state) override {
    CoefficientLearner::save_rule(state);
    auto& packed = state.reals["precision"];
    for (std::size_t i = 0; i < size(); ++i) packed.insert(packed.end(), &r(i, 0), &r(i, 0) + i + 1);
    auto& labels = state.reals["labels"];
    for (std::size_t o = 0; o < config_.n_outputs; ++o) labels.insert(labels.end(), labels_.data() + o * stride_, labels_.data() + o * stride_ + size());
    if (span_) span_->save(state);
  }
  void load_rule(const State& state) override {
    CoefficientLearner::load_rule(state);
    const auto& packed = state.reals.at("precision");
    const auto& labels = state.reals.at("labels");
    if (packed.size() != triangle(size()) || labels.size() != config_.n_outputs * size())
      throw std::invalid_argument("saved model: wrong size of the precision or of the labels");
    for (std::size_t i = 0; i < size(); ++i)
      for (std::size_t j = 0; j <= i; ++j) r(i, j) = r(j, i) = packed[triangle(i) + j];
    for (std::size_t o = 0; o < config_.n_outputs; ++o)
      std::copy_n(labels.begin() + static_cast<std::ptrdiff_t>(o * size()), size(), labels_.begin() + static_cast<std::ptrdiff_t>(o * stride_));
    if (span_) span_->load(state, size(), rows());
  }

 private:
  double& r(std::size_t i, std::size_t j) { return r_[i * stride_ + j]; }
  Gram::RowOf rows() {
    return [this](std::size_t slot, double* row) { task_row_of_slot(slot, true, row); };
  }

  // ρ = R k over the first n slots.
  void multiply(const double* k, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) rho_[i] = simd().dot(&r(i, 0), k, n);
  }
  // Sets ρ and returns s. In exact arithmetic, k_tᵀR k_t is at most K_tt. With a budget and huge kernel values, rounding can make it larger.
  // R is then scaled down, because it would otherwise grow without bound.
  double innovation(const double* k, double kk) {
    multiply(k, size());
    const double explained = simd().dot(k, rho_.data(), size());
    if (span_ && explained > kk) {
      const double share = kk / explained;
      for (std::size_t i = 0; i < size(); ++i) simd().axpy(share - 1.0, &r(i, 0), size(), &r(i, 0));
      for (std::size_t i = 0; i < size(); ++i) rho_[i] *= share;
    }
    return innovation(k, kk, size());
  }
  // In exact arithmetic, s is at least a. Without a budget, R is at most I/a, so s is also at least a‖ρ‖². With huge kernel values, rounding can
  // make s smaller. It is then raised to these bounds, because R would otherwise grow without bound.
  double innovation(const double* k, double kk, std::size_t n) const {
    const double s = ridge_ + std::max(kk - simd().dot(k, rho_.data(), n), 0.0);
    return span_ ? s : std::max(s, ridge_ * simd().dot(rho_.data(), rho_.data(), n));
  }
  // Computes y_t − f.
  void set_residual(const Step& step, const double* f) {
    for (std::size_t o = 0; o < config_.n_outputs; ++o) residual_[o] = label(step, o) - f[o];
  }
  static double label(const Step& step, std::size_t o) { return o == step.plus ? step.sign : o == step.minus ? -step.sign : 0.0; }
  void set_labels(std::size_t slot, const Step& step) {
    for (std::size_t o = 0; o < config_.n_outputs; ++o) labels_[o * stride_ + slot] = label(step, o);
  }
  // R += factor · e eᵀ
  void add_square(const double* e, double factor) {
    for (std::size_t i = 0; i < size(); ++i) simd().axpy(factor * e[i], e, size(), &r(i, 0));
    mirror(size());
  }
  // Copies the lower triangle of R to the upper one, because rounding may have made them differ. Only the lower one is saved.
  void mirror(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j) r(j, i) = r(i, j);
  }

  // Learns the new example without storing it: span_->alpha is its projection onto the stored examples.
  void learn_projected(const double* k, double kk, const Step& step, const double* f) {
    const double s = innovation(k, kk);
    set_residual(step, f);
    for (std::size_t j = 0; j < size(); ++j) e_[j] = rho_[j] - span_->alpha[j];
    add_square(e_.data(), 1.0 / s);
    for (std::size_t o = 0; o < config_.n_outputs; ++o) simd().axpy(-residual_[o] / s, e_.data(), size(), beta(o));
  }

  // Extends R, β and the labels by the new example, which is in the last slot n.
  void extend(std::size_t n, double s, const Step& step) {
    grow_matrix(n, s);
    set_labels(n, step);
  }
  void grow_matrix(std::size_t n, double s) {
    for (std::size_t i = 0; i < n; ++i) {
      simd().axpy(rho_[i] / s, rho_.data(), n, &r(i, 0));
      r(i, n) = r(n, i) = -rho_[i] / s;
    }
    r(n, n) = 1.0 / s;
    mirror(n);
    for (std::size_t o = 0; o < config_.n_outputs; ++o) {
      simd().axpy(-residual_[o] / s, rho_.data(), n, beta(o));
      beta(o)[n] = residual_[o] / s;
    }
  }

  // The argmin of ‖β_j‖/√Q_jj over the slots and the new example (index size()), with β after the step. If several are tied, the oldest.
  std::size_t cheapest_or_new(double s, double delta2) {
    const std::size_t n = size();
    double newest = 0;
    for (std::size_t o = 0; o < config_.n_outputs; ++o) newest += residual_[o] * residual_[o];
    newest = std::sqrt(newest * delta2) / s;
    for (std::size_t j = 0; j < n; ++j) {
      double square = 0;
      for (std::size_t o = 0; o < config_.n_outputs; ++o) {
        const double b = beta(o)[j] - rho_[j] * residual_[o] / s;
        square += b * b;
      }
      span_->scores[j] = std::sqrt(square) / span_->root_diagonal(j, delta2);
    }
    const Extremes of = simd().extremes(span_->scores.data(), n);
    const double tied = std::min(of.least, newest) * (1.0 + 1e-10) + 1e-12 * std::max(of.largest, newest);
    return simd().oldest_within(span_->scores.data(), arrivals_.data(), n, tied);
  }

  // Updates R: the new example takes the slot of `victim`, which is projected onto the new example and the others (span_->gamma).
  void replace_in_matrix(std::size_t victim, double s) {
    const std::size_t n = size();
    add_square(rho_.data(), 1.0 / s);
    std::copy_n(&r(victim, 0), n, e_.data());
    const double *gamma = span_->gamma.data(), own = e_[victim], of_new = -rho_[victim] / s, share = gamma[victim];
    for (std::size_t i = 0; i < n; ++i) {
      if (i == victim) continue;
      for (std::size_t j = 0; j < n; ++j) r(i, j) += gamma[i] * e_[j] + e_[i] * gamma[j] + gamma[i] * gamma[j] * own;
    }
    for (std::size_t j = 0; j < n; ++j)
      r(victim, j) = r(j, victim) = -rho_[j] / s + share * e_[j] + of_new * gamma[j] + share * gamma[j] * own;
    r(victim, victim) = 1.0 / s + 2.0 * share * of_new + share * share * own;
    mirror(n);
  }

  // Evicts the stored example whose eviction loses least; returns its slot. Call span_->settle() first.
  std::size_t evict() {
    const std::size_t n = size();
    for (std::size_t j = 0; j < n; ++j) span_->scores[j] = norm(j) / span_->root_diagonal(j);
    const std::size_t victim = argmin_oldest(span_->scores.data(), n);
    span_->set_eviction(victim);
    std::copy_n(&r(victim, 0), n, e_.data());
    const double *gamma = span_->gamma.data(), own = e_[victim];
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) r(i, j) += gamma[i] * e_[j] + e_[i] * gamma[j] + gamma[i] * gamma[j] * own;
    mirror(n);
    for (std::size_t o = 0; o < config_.n_outputs; ++o) {
      const double lost = beta(o)[victim];
      simd().axpy(lost, gamma, n, beta(o));
    }
    span_->remove(victim);
    remove(victim);
    return victim;
  }

  const double ridge_;  // a
  std::unique_ptr<Span> span_;  // null without a budget, where nothing is projected
  Vec<double> r_, labels_;      // R, and y of the stored examples
  Vec<double> rho_, e_, row_, residual_;  // working memory: ρ, e, a kernel row, and y_t − f of each output
  std::size_t stride_ = 0;
};

const Registered registered("second_order_perceptron", {"ridge"}, make_counted<SecondOrderPerceptron>);

}  // namespace

}  // namespace budgetron
