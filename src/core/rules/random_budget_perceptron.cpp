// RandomBudgetPerceptron, the multitask form of the Randomized Budget Perceptron (Cavallanti, Cesa-Bianchi and Gentile, Machine Learning 69, 2007).
//
//   on a mistake:  if |S| = B: evict a uniformly random example;  S ← S ∪ {t},  β_t = y_t
//
// S is the set of stored examples, B the budget, β_t the coefficient of example t, y_t its label. Under a byte budget, random examples are also
// evicted until the row of t fits. Each eviction draws one number from splitmix64.
#include <cstddef>
#include <cstdint>

#include "learner/coefficient_learner.hpp"
#include "learner/splitmix.hpp"

namespace budgetron {

namespace {

class RandomBudgetPerceptron final : public CoefficientLearner {
 public:
  explicit RandomBudgetPerceptron(const Config& config) : CoefficientLearner(config), generator_{config.parameters.word("seed", 0)} {}

 protected:
  std::uint8_t on_mistake(const Example& example, double, const Step& step, Scratch&) override {
    if (!store_->fits_alone(example.x)) return kMistake;
    while (!store_->fits(example.x)) remove(generator_.below(size()));
    std::size_t slot;
    if (full())
      replace(slot = generator_.below(size()), example);
    else
      slot = append(example);
    set(slot, step, 1.0);
    return kMistake | kUpdated | kStored;
  }

  void save_rule(State& state) override {
    CoefficientLearner::save_rule(state);
    state.integers["rng"] = {static_cast<std::int64_t>(generator_.state)};
  }
  void load_rule(const State& state) override {
    CoefficientLearner::load_rule(state);
    generator_.state = static_cast<std::uint64_t>(state.integers.at("rng").at(0));
  }

 private:
  Splitmix generator_;
};

const Registered registered("random_budget_perceptron", {"seed"}, make_counted<RandomBudgetPerceptron>);

}  // namespace

}  // namespace budgetron
