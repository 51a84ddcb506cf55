// mtrbp, the Randomized Budget Perceptron.
//
//   on a mistake:  if |S| = B: remove a uniformly random member;  S ← S ∪ {t},  β_t = y_t
//
// The generator is splitmix64, with one draw per eviction.
#include <cstddef>
#include <cstdint>

#include "intrinsics.hpp"
#include "rules/coefficient_learner.hpp"

namespace budgetron {

namespace {

class RandomBudgetPerceptron final : public CoefficientLearner {
 public:
  explicit RandomBudgetPerceptron(const Config& config) : CoefficientLearner(config), generator_(config.parameters.word("seed", 0)) {}

 protected:
  std::uint8_t on_mistake(const Example& example, double, const Step& step, Scratch&) override {
    if (!store_->fits_alone(example.x)) return kMistake;
    while (!store_->fits(example.x)) remove(draw());
    std::size_t slot;
    if (full())
      replace(slot = draw(), example);
    else
      slot = append(example);
    set(slot, step, 1.0);
    return kMistake | kUpdated | kStored;
  }

  void save_rule(State& state) override {
    CoefficientLearner::save_rule(state);
    state.integers["rng"] = {static_cast<std::int64_t>(generator_)};
  }
  void load_rule(const State& state) override {
    CoefficientLearner::load_rule(state);
    generator_ = static_cast<std::uint64_t>(state.integers.at("rng").at(0));
  }

 private:
  std::size_t draw() {
    std::uint64_t z = generator_ += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    return static_cast<std::size_t>(high_product(z, size()));
  }

  std::uint64_t generator_;
};

const Registered registered("random_budget_perceptron", {"seed"}, make_counted<RandomBudgetPerceptron>);

}  // namespace

}  // namespace budgetron
