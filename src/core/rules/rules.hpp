// One file a rule; each offers one function.
#pragma once

#include <memory>

#include "rules/coefficient_learner.hpp"

namespace budgetron {

std::unique_ptr<Learner> make_perceptron(const Config& config);
std::unique_ptr<Learner> make_random_budget_perceptron(const Config& config);
std::unique_ptr<Learner> make_forgetron(const Config& config);
std::unique_ptr<Learner> make_budget_projectron(const Config& config);
std::unique_ptr<Learner> make_shared_projectron(const Config& config);
std::unique_ptr<Learner> make_budgetron(const Config& config);

}  // namespace budgetron
