#include <memory>
#include <stdexcept>

#include "rules/rules.hpp"

namespace budgetron {

std::unique_ptr<Learner> make_learner(const Config& config) {
  switch (config.rule) {
    case Rule::perceptron: return make_perceptron(config);
    case Rule::random: return make_random_budget_perceptron(config);
    case Rule::forgetron: return make_forgetron(config);
    case Rule::projectron: return make_budget_projectron(config);
    case Rule::shared_projectron: return make_shared_projectron(config);
    case Rule::budgetron: return make_budgetron(config);
  }
  throw std::invalid_argument("no such rule");
}

}  // namespace budgetron
