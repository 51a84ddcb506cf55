// The registry of rules. Each rule registers itself in its own file, so no other file has to name it:
//
//   const Registered registered("forgetron", {}, make_counted<Forgetron>);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "learner/learner.hpp"

namespace budgetron {

// One entry of the list of rules. It must have static storage, because it stays in the list until the process ends. The list is built when the
// library or program is loaded, in an unspecified order, and only read afterwards. The order does not matter, because rules are looked up by
// name.
class Registered {
 public:
  using Make = std::unique_ptr<Learner> (*)(const Config&);
  Registered(const char* name, std::vector<std::string> parameters, Make make);

  const char* name;
  std::vector<std::string> parameters;  // the names that the rule's constructor reads
  Make make;
  const Registered* next;  // in the list of all rules
};

std::vector<std::string> rule_names();
std::unique_ptr<Learner> make_learner(const Config& config);

// Creates a rule, and adds the bytes of the object itself and of the parameters, which the model keeps, to the rule's count of bytes.
template <class Rule>
std::unique_ptr<Learner> make_counted(const Config& config) {
  auto learner = std::make_unique<Rule>(config);
  learner->bytes_.used += sizeof(Rule) + config.parameters.bytes();
  return learner;
}

}  // namespace budgetron
