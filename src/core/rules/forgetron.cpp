// Forgetron, the multitask Self-Tuned Forgetron.
//
// M counts mistakes, S is the set of stored examples, β their coefficients, f_i the margin of task i, B the budget, and c_G² the largest diagonal
// entry of A⁻¹, the matrix of task similarities. Q begins at 0 and adds up the effects of all evictions.
//
//   on a mistake:  M ← M + 1,  S ← S ∪ {t},  β_t = y_t.  If now |S| = B + 1:
//     r = the oldest example,  σ = |β_r|,  y_r = sign β_r,  μ = y_r f'_{i_r}(x_r)   (f' includes the new example)
//     φ = the largest in (0, 1] with  c²σ²φ² + 2c²σφ − 2σμφ² + Q ≤ (15/32) c² M,   c² = c_G² (2c_G² for more than two classes)
//     Q ← Q + c²σ²φ² + 2c²σφ − 2σμφ²,   β ← φβ,   S ← S ∖ {r}
//   Under a byte budget, one long sparse row may evict several examples at once. Then σ = Σσ_r and σμ = Σσ_r μ_r.
//   With more than two classes, β_r is σ for one output and −σ for another, and μ is f'(x_r) of the first minus f'(x_r) of the second.
//
// In the code: m is M, q_ is Q, and a φ² + b φ + c ≤ 0 is the inequality.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "learner/coefficient_learner.hpp"

namespace budgetron {

namespace {

class Forgetron final : public CoefficientLearner {
 public:
  explicit Forgetron(const Config& config)
      : CoefficientLearner(config),
        c2_(config.similarity->largest_self() * (config.n_outputs == 1 ? 1.0 : 2.0)),
        oldest_row_(bytes_, capacity()),
        evicted_(bytes_, unbounded() ? 0 : capacity()) {}

 protected:
  std::uint8_t on_mistake(const Example& example, double, const Step& step, Scratch& scratch) override {
    if (!store_->fits_alone(example.x)) return kMistake;
    Vec<std::size_t>& evicted = evicted_;
    if (store_->fits(example.x)) {
      evicted.assign(full() ? 1 : 0, full() ? simd().oldest(arrivals_.data(), size()) : 0);
    } else {  // a long sparse row evicts as many of the oldest examples as its entries need
      evicted.resize(size());
      for (std::size_t j = 0; j < evicted.size(); ++j) evicted[j] = j;
      std::sort(evicted.begin(), evicted.end(), [&](auto a, auto b) { return arrivals_[a] < arrivals_[b]; });
      evicted.resize(std::max<std::size_t>(store_->n_to_evict(example.x, evicted), full() ? 1 : 0));
    }

    const double newest = evicted.empty() ? 1.0 : shrink(evicted, example, step, scratch.row.data());  // |β_t|
    std::size_t slot;
    if (evicted.size() == 1 && full()) {
      replace(slot = evicted[0], example);
    } else {
      std::sort(evicted.rbegin(), evicted.rend());  // from the last slot down, so that remove() moves no slot that is still to be removed
      for (std::size_t r : evicted) remove(r);
      slot = append(example);
    }
    if (scale_ < 1e-100) fold_scale();
    set(slot, step, newest / scale_);
    return kMistake | kUpdated | kStored;
  }

  void grow(std::size_t capacity) override {
    oldest_row_.resize(capacity);
    CoefficientLearner::grow(capacity);
  }

  void save_rule(State& state) override {
    CoefficientLearner::save_rule(state);
    state.reals["q"] = {q_};
  }
  void load_rule(const State& state) override {
    CoefficientLearner::load_rule(state);
    q_ = state.reals.at("q").at(0);
  }

 private:
  // Multiplies all coefficients by φ, which bounds the effect of the eviction; updates Q and returns φ. `kernel_row` has K' of the new example
  // and each stored one, without the similarity of their tasks.
  double shrink(const Vec<std::size_t>& evicted, const Example& example, const Step& step, const double* kernel_row) {
    double sigma = 0, sigma_mu = 0;
    for (std::size_t r : evicted) {
      task_row_of_slot(r, false, oldest_row_.data());
      double to_newest = kernel_row[r];
      config_.similarity->multiply({task_ids_[r], clusters_[r]}, &example.task.id, &example.task.cluster, 1, &to_newest, workspace());
      std::size_t plus = 0, minus = 0;
      for (std::size_t o = 0; o < config_.n_outputs; ++o) {
        if (beta(o)[r] > beta(plus)[r]) plus = o;
        if (beta(o)[r] < beta(minus)[r]) minus = o;
      }
      const auto value = [&](std::size_t o) {  // f'_o(x_r)
        const double moved = o == step.plus ? step.sign : o == step.minus ? -step.sign : 0.0;
        return scale_ * simd().dot(beta(o), oldest_row_.data(), size()) + moved * to_newest;
      };
      const double beta_r = flushed(scale_ * beta(plus)[r]);
      const double mu = config_.n_outputs == 1 ? (beta_r < 0 ? -value(0) : value(0)) : value(plus) - value(minus);
      sigma += std::abs(beta_r);
      sigma_mu += std::abs(beta_r) * mu;
    }
    const double m = static_cast<double>(n_mistakes_ + 1);
    const double a = c2_ * sigma * sigma - 2.0 * sigma_mu, b = 2.0 * c2_ * sigma, c = q_ - 15.0 / 32.0 * c2_ * m;
    const double phi = a + b + c <= 0 ? 1.0 : -2.0 * c / (b + std::sqrt(std::max(0.0, b * b - 4.0 * a * c)));
    q_ = phi < 1.0 ? 15.0 / 32.0 * c2_ * m : q_ + a + b;  // if φ < 1, the inequality is an equality
    scale_ *= phi;
    return phi;
  }

  double c2_, q_ = 0.0;
  Vec<double> oldest_row_;
  Vec<std::size_t> evicted_;  // slots
};

const Registered registered("forgetron", {}, make_counted<Forgetron>);

}  // namespace

}  // namespace budgetron
