#include "learner/registry.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace budgetron {

namespace {

// Constant initialisation guarantees that this is null before the first rule registers itself.
const Registered* first = nullptr;

}  // namespace

Registered::Registered(const char* name_, std::vector<std::string> parameters_, Make make_)
    : name(name_), parameters(std::move(parameters_)), make(make_), next(first) {
  first = this;
}

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const Registered* rule = first; rule; rule = rule->next) names.emplace_back(rule->name);
  std::sort(names.begin(), names.end());
  return names;
}

std::unique_ptr<Learner> make_learner(const Config& config) {
  for (const Registered* rule = first; rule; rule = rule->next)
    if (config.rule == rule->name) {
      config.parameters.check_names(rule->parameters);
      return rule->make(config);
    }
  std::string names;
  for (const auto& name : rule_names()) names += (names.empty() ? "" : ", ") + name;
  throw std::invalid_argument("_core.make: rule must be one of " + names + "; got " + config.rule);
}

}  // namespace budgetron
