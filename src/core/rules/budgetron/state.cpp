// Saves a Budgetron to the arrays of a model file, and loads it. The constructor has created all parts that the settings imply; loading drops
// the parts that the file lacks.
#include "rules/budgetron/budgetron.hpp"

#include <algorithm>
#include <stdexcept>

namespace budgetron {

void Budgetron::save_rule(State& state) {
  state.integers["part_index"].assign(index_.begin(), index_.end());
  state.integers["part_idle"].assign(idle_.begin(), idle_.end());
  state.integers["spare_bytes"] = {static_cast<std::int64_t>(spare_)};
  state.reals["belief_weight"].assign(mixture_.weights.begin(), mixture_.weights.end());
  combination_.save(state);
  calibration_.save(state);
  for (const auto& part : parts_) part->save(state);
  if (has_columns()) scaler_.save(state);
  rows_.save(state);
}

void Budgetron::load_rule(const State& state) {
  const auto require = [](bool condition) {
    if (!condition) throw std::invalid_argument("saved model: the sizes of its parts, beliefs and outputs are inconsistent");
  };
  const auto& index = state.integers.at("part_index");
  const auto& idle = state.integers.at("part_idle");
  for (std::size_t p = parts_.size(); p-- > 0;)
    if (std::find(index.begin(), index.end(), index_[p]) == index.end()) {
      require(parts_.size() > 1);
      drop_part(p);
    }
  const auto& weights = state.reals.at("belief_weight");
  const std::int64_t spare = state.integers.at("spare_bytes").at(0);
  require(index.size() == parts_.size() && idle.size() == parts_.size() && weights.size() == n_beliefs() && spare >= 0);
  require(std::find(idle.begin(), idle.end(), 0) != idle.end());  // the weights add up to 1, so at least one part is not idle
  std::copy(idle.begin(), idle.end(), idle_.begin());
  std::copy(weights.begin(), weights.end(), mixture_.weights.begin());
  combination_.load(state);
  calibration_.load(state);
  spare_ = static_cast<std::size_t>(spare);
  for (const auto& part : parts_) part->load(state);
  fourier_.resize(frequencies_in_use());
  if (has_columns()) scaler_.load(state);
  rows_.load(state, n_seen_);
  size_all(scratch());
}

}  // namespace budgetron
