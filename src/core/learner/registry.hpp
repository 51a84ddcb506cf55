// Rules by name. A rule's file registers it under the file's name; no other file has to know the rule:
//
//   const Registered registered("forgetron", {}, make_counted<Forgetron>);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "learner/learner.hpp"

namespace budgetron {

// An object must have static storage, because it stays in the list of rules until the process ends. The list is built before main(),
// in an unspecified order, and only read afterwards. The order does not matter, because rules are looked up by name.
class Registered {
 public:
  using Make = std::unique_ptr<Learner> (*)(const Config&);
  Registered(const char* name, std::vector<std::string> parameters, Make make);

  const char* name;
  std::vector<std::string> parameters;  // the names that the rule's constructor reads
  Make make;
  const Registered* next;
};

std::vector<std::string> rule_names();
std::unique_ptr<Learner> make_learner(const Config& config);

// Creates a rule, and counts its object and the arrays among its parameters as its memory.
template <class Rule>
std::unique_ptr<Learner> make_counted(const Config& config) {
  auto learner = std::make_unique<Rule>(config);
  learner->bytes_.used += sizeof(Rule) + config.parameters.bytes();
  return learner;
}

}  // namespace budgetron
