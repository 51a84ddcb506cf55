// The state of a learner as named arrays. A model file holds these and the stored rows.
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
