// Perceptron (the paper's unbounded baseline).
//
//   on a mistake   y_t f_{i_t}(x_t) ≤ 0:   S ← S ∪ {t},  β_t = y_t
#include <cstdint>
#include <memory>

#include "rules/rules.hpp"

namespace budgetron {

namespace {

class Perceptron final : public CoefficientLearner {
 public:
  using CoefficientLearner::CoefficientLearner;

 protected:
  std::uint8_t on_mistake(const Example& example, double, const Step& step, Scratch&) override {
    set(append(example), step, 1.0);
    return kMistake | kUpdated | kStored;
  }
};

}  // namespace

std::unique_ptr<Learner> make_perceptron(const Config& config) { return make_counted<Perceptron>(config); }

}  // namespace budgetron
