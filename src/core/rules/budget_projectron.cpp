// mtbprj, the Budget Projectron.   H is the Gram matrix of S in the multitask kernel, k_t its row for x_t.
//
//   on a mistake:  α = H⁻¹k_t,  δ² = K_tt − k_tᵀα
//     δ ≤ η:   β ← β + y_t α
//     else:    S ← S ∪ {t},  β_t = y_t.  If now |S| = B + 1, with P = H⁻¹ of the B + 1 instances:
//              r = argmin over the old of ‖β_j‖ / √P_jj,   γ_j = −P_jr / P_rr,   β_j += β_r γ_j (t too),   S ← S ∖ {r}
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "rules/coefficient_learner.hpp"
#include "algebra/span.hpp"

namespace budgetron {

namespace {

class BudgetProjectron final : public CoefficientLearner {
 public:
  explicit BudgetProjectron(const Config& config)
      : CoefficientLearner(config, eta_of(config)), span_(bytes_, capacity(), small_eta(config), config.single && !config.sparse) {}

 protected:
  std::uint8_t on_mistake(const Example& example, double kk, const Step& step, Scratch& scratch) override {
    const double* k = scratch.task_row.data();
    double delta2 = span_.project(k, kk, rows());
    if (delta2 <= eta2_) {
      add(step, span_.alpha.data());
      return kMistake | kUpdated;
    }
    if (!store_->fits_alone(example.x)) return kMistake;
    while (!store_->fits(example.x)) {
      const std::size_t r = cheapest([&](std::size_t j) { return span_.root_diagonal(j); });
      move_last(scratch.task_row, r, size() - 1);
      evict(r);
      delta2 = span_.project(k, kk, rows());
    }
    if (full()) {
      const std::size_t r = cheapest([&](std::size_t j) { return span_.root_diagonal(j, delta2); });
      span_.replace(r, k, kk, delta2);
      distribute(r, &step);
      replace(r, example);
    } else {
      span_.append(k, kk, delta2);
      set(append(example), step, 1.0);
    }
    return kMistake | kUpdated | kStored;
  }

  void grow(std::size_t capacity) override {
    span_.reserve(capacity);
    CoefficientLearner::grow(capacity);
  }

 public:
  void forget(std::int64_t key) override {
    for (std::size_t slot = 0; slot < size();) {
      if (keys_[slot] == key) {
        span_.remove(slot);
        remove(slot);
      } else {
        ++slot;
      }
    }
  }

 protected:
  void rows_moved() override { span_.rebuild(size(), rows()); }
  void kernel_changed() override {
    rows_moved();
    // A matrix of dependent examples is so ill-conditioned that one eviction spoils its inverse: it is rebuilt after each.
    span_.evict_dependent(eta2_, [this](std::size_t r) {
      evict(r);
      rows_moved();
    });
  }
  void save_rule(State& state) override {
    CoefficientLearner::save_rule(state);
    span_.save(state);
  }
  void load_rule(const State& state) override {
    CoefficientLearner::load_rule(state);
    span_.load(state, size(), rows());
  }

 private:
  // K_tt is at most c_G² if the kernel is normalised. Otherwise its size is unknown, so η counts as small.
  static double eta_of(const Config& config) { return config.parameters.real("eta", 0.0); }
  static bool small_eta(const Config& config) {
    const bool normalised = config.kernel.kind == Kernel::Kind::gaussian || config.kernel.normalize;
    return !normalised || eta_of(config) < 1e-2 * std::sqrt(config.similarity->largest_self());
  }

  Gram::RowOf rows() {
    return [this](std::size_t slot, double* row) { task_row_of_slot(slot, true, row); };
  }

  // Projects r on the others and removes it.
  void evict(std::size_t r) {
    span_.set_eviction(r);
    distribute(r, nullptr);
    span_.remove(r);
    remove(r);
  }

  void add(const Step& step, const double* alpha) {
    simd().axpy(step.sign, alpha, size(), beta(step.plus));
    if (step.minus < config_.n_outputs) simd().axpy(-step.sign, alpha, size(), beta(step.minus));
  }

  template <class RootDiagonal>
  std::size_t cheapest(RootDiagonal root_diagonal) {
    for (std::size_t j = 0; j < size(); ++j) {
      double square = 0;
      for (std::size_t o = 0; o < config_.n_outputs; ++o) square += beta(o)[j] * beta(o)[j];
      span_.scores[j] = std::sqrt(square) / root_diagonal(j);
    }
    return lowest_arrival(span_.scores.data(), size());
  }

  // β_j += β_r γ_j. A new example, if there is one, has taken slot r and gets β = step in addition.
  void distribute(std::size_t r, const Step* step) {
    for (std::size_t o = 0; o < config_.n_outputs; ++o) {
      const double lost = beta(o)[r];
      beta(o)[r] = 0.0;
      simd().axpy(lost, span_.gamma.data(), size(), beta(o));
    }
    if (!step) return;
    beta(step->plus)[r] += step->sign;
    if (step->minus < config_.n_outputs) beta(step->minus)[r] -= step->sign;
  }

  Span span_;
};

const Registered registered("budget_projectron", {"eta"}, make_counted<BudgetProjectron>);

}  // namespace

}  // namespace budgetron
