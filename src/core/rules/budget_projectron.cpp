// BudgetProjectron, the multitask Budget Projectron.
//
// S is the set of stored examples, β their coefficients, H their Gram matrix in the multitask kernel K, and k_t the kernel values of the new
// example t with S. δ is the distance of t from the span of S, and η the parameter `eta`. A mistake with √K_tt ≤ η is not learned.
//
//   on any other mistake:  α = H⁻¹k_t,  δ² = K_tt − k_tᵀα
//     δ ≤ η:   β ← β + y_t α
//     else:    S ← S ∪ {t},  β_t = y_t.  If now |S| = B + 1, with P = H⁻¹ of the B + 1 instances:
//              r = argmin of ‖β_j‖ / √P_jj over the stored j (not t),   γ_j = −P_jr / P_rr
//              β_j += β_r γ_j for all j ≠ r (also t),   S ← S ∖ {r}
//
// Under a byte budget, examples are evicted in the same way, but before t is stored and with P of S alone, until the row of t fits. δ is
// computed again after each eviction. Nothing is learned if the row of t alone exceeds the budget.
#include <cstddef>
#include <cstdint>

#include "learner/with_span.hpp"

namespace budgetron {

namespace {

class BudgetProjectron final : public WithSpan<CoefficientLearner> {
 public:
  explicit BudgetProjectron(const Config& config) : WithSpan(config, config.parameters.real("eta", 0.0)) {}

 protected:
  std::uint8_t on_mistake(const Example& example, double kk, const Step& step, Scratch& scratch) override {
    const double delta2 = span_.project(scratch.task_row.data(), kk, rows());
    return project_or_store(example, kk, delta2, step, 1.0, scratch);
  }
};

const Registered registered("budget_projectron", {"eta"}, make_counted<BudgetProjectron>);

}  // namespace

}  // namespace budgetron
