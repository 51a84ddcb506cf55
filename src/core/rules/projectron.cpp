// Projectron and Projectron++. When the budget B is used up, they project all further mistakes or, with the parameter `evict`, evict a stored
// example for each new one.
//
// S is the set of stored examples, β their coefficients, H their Gram matrix in the multitask kernel K, k_t the kernel values of the example t with
// S, and f the margin. δ is the distance of t from the span of S.
//
//   α = H⁻¹k_t,  δ² = K_tt − k_tᵀα,  p = k_tᵀα
//   on a mistake, if δ ≤ η, or if |S| = B without `evict`:    β ← β + y_t α
//   on any other mistake:                                     S ← S ∪ {t},  β_t = y_t,  evicting as the Budget Projectron does
//   Projectron++, if ℓ = 1 − y_t f(x_t) is in (0, 1):         β ← β + τ y_t α
//     convention norm:      τ = min(ℓ/p, 2(ℓ − δ/η)/p, 1)  if ℓ > δ/η
//     convention squared:   the same with δ²/η instead of δ/η; on a mistake, δ² ≤ η instead of δ ≤ η
//     convention budget:    τ = min(ℓ/p, 1)  if 2ℓ − τp − 2Uδ ≥ 0,  U = ¼√((B + 1)/ln(B + 1))
//
// η and the margins refer to the normalised kernel K̃ = K/c_G², where c_G² is the largest diagonal entry of A⁻¹, the matrix of task similarities.
// Projectron++ stores β/c_G² instead of β. With more than two classes, p and δ² are doubled in τ (not by the convention budget). A mistake with K̃_tt
// ≤ η², or K̃_tt ≤ η by the convention squared, is not learned. See the NumPy definition.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "learner/with_span.hpp"

namespace budgetron {

namespace {

enum class Convention : std::size_t { norm, squared, budget };

class Projectron final : public WithSpan<CoefficientLearner> {
 public:
  explicit Projectron(const Config& config)
      : WithSpan(config, eta_in_kernel(config)),
        convention_(convention_of(config)),
        plus_(config.parameters.flag("plus", false)),
        evicts_(config.parameters.flag("evict", false)),
        eta_(config.parameters.real("eta", 0.0)),
        c2_(config.similarity->largest_self()),
        unit_(plus_ ? c2_ : 1.0),
        u_(config.capacity ? std::sqrt((static_cast<double>(config.capacity) + 1.0) / std::log(static_cast<double>(config.capacity) + 1.0)) / 4.0 : 0.0) {
    if (convention_ > Convention::budget || (plus_ && convention_ != Convention::budget && !(eta_ > 0)))
      throw std::invalid_argument("_core.make: projectron needs convention 0, 1 or 2, and eta above 0 for Projectron++ with convention 0 or 1");
  }

 protected:
  std::uint8_t update(const Example& example, Scratch& scratch) override {
    if (!plus_) return WithSpan::update(example, scratch);
    Step step;
    mistaken(example, scratch, step);
    const auto& f = scratch.margins;
    const bool paired = step.minus < config_.n_outputs;
    const double loss = 1.0 - (paired ? f[step.plus] - f[step.minus] : step.sign * f[0]);
    if (!(loss > 1e-10)) return 0;
    const double kk = example.self * config_.similarity->self(example.task, scratch.workspace.get());
    if (loss >= 1.0) return kk <= eta2_ ? kMistake : on_mistake(example, kk, step, scratch);
    double delta2 = span_.project(scratch.task_row.data(), kk, rows());
    // In every precision, a δ² below the rounding error of float32 rows counts as 0, so that rounding does not change the step.
    if (delta2 <= kNoiseSingle * kk) delta2 = 0.0;
    // With more than two classes, a step changes two outputs, so both count. With `budget` they do not, as in the tables of Lu et al. (2016).
    const double n_changed = paired && convention_ != Convention::budget ? 2.0 : 1.0;
    const double tau = size() ? step_of(loss, n_changed * (kk - delta2) / c2_, n_changed * delta2 / c2_) : 0.0;
    if (!(tau > 0)) return 0;
    add(step, tau / unit_, span_.alpha.data());
    return kUpdated;
  }

  std::uint8_t on_mistake(const Example& example, double kk, const Step& step, Scratch& scratch) override {
    double delta2 = span_.project(scratch.task_row.data(), kk, rows());
    if (!evicts_ && (full() || !store_->fits(example.x))) {
      if (size() == 0) return kMistake;
      delta2 = 0.0;
    }
    return project_or_store(example, kk, delta2, step, 1.0 / unit_, scratch);
  }

 private:
  // Model files have this number as a real, not as an integer.
  static Convention convention_of(const Config& config) {
    return static_cast<Convention>(static_cast<std::size_t>(config.parameters.real("convention", 0.0)));
  }
  static double eta_in_kernel(const Config& config) {
    const double eta = config.parameters.real("eta", 0.0);
    return std::sqrt(config.similarity->largest_self() * (convention_of(config) == Convention::squared ? eta : eta * eta));
  }

  // Returns τ; if it is not above 0, there is no step.
  double step_of(double loss, double p, double delta2) const {
    if (!(p > 0)) return 0.0;
    if (convention_ == Convention::budget) {
      const double tau = std::min(loss / p, 1.0);
      return 2.0 * loss - tau * p - 2.0 * u_ * std::sqrt(delta2) >= 0 ? tau : 0.0;
    }
    const double gap = convention_ == Convention::squared ? delta2 / eta_ : std::sqrt(delta2) / eta_;
    return std::min({loss / p, 2.0 * (loss - gap) / p, 1.0});
  }

  const Convention convention_;
  const bool plus_, evicts_;
  const double eta_, c2_;  // η and c_G²
  const double unit_;      // stored coefficients are β/unit_
  const double u_;         // U
};

const Registered registered("projectron", {"eta", "plus", "convention", "evict"}, make_counted<Projectron>);

}  // namespace

}  // namespace budgetron
