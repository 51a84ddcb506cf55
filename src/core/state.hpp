// Named arrays: the state of a learner, which a model file holds together with the stored rows, or the arguments and the answer of a query
// (Learner::query).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace budgetron {

struct State {
  std::map<std::string, std::vector<double>> reals;
  std::map<std::string, std::vector<std::int64_t>> integers;
};

}  // namespace budgetron
