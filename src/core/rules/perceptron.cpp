// Perceptron: the multitask kernel Perceptron without a budget.
//
//   on a mistake   y_t f_{i_t}(x_t) ≤ 0:   S ← S ∪ {t},  β_t = y_t
//
// Example t has the row x_t, the task i_t and the label y_t. f_i(x) is the margin of a row x of task i. S is the set of stored examples, and β_t
// the coefficient of example t (coefficient_learner.hpp).
#include <cstdint>
#include <stdexcept>

#include "learner/coefficient_learner.hpp"

namespace budgetron {

namespace {

class Perceptron final : public CoefficientLearner {
 public:
  explicit Perceptron(const Config& config) : CoefficientLearner(config) {
    if (config.capacity) throw std::invalid_argument("_core.make: a Perceptron has no capacity");
  }

 protected:
  std::uint8_t on_mistake(const Example& example, double, const Step& step, Scratch&) override {
    set(append(example), step, 1.0);
    return kMistake | kUpdated | kStored;
  }
};

const Registered registered("perceptron", {}, make_counted<Perceptron>);

}  // namespace

}  // namespace budgetron
