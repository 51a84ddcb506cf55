// The hashed table of a Budgetron: explanations of its margins, saving and loading. See parts/table.hpp.
#include "rules/budgetron/parts/table.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace budgetron {

void HashedTable::terms(const Seen& e, Terms& to) const {
  for (std::size_t k = 0; k < width(); ++k) to.columns(kShared, k)[to.n - 1] = bias_[k];
  const Rows& rows = *e.x.rows;
  const auto first = rows.indptr[e.x.at];
  auto position = first;
  std::vector<std::size_t> columns;
  for (const TableEntry& entry : *e.entries) {  // entries are in the order of the row
    const bool is_constant = entry.hash == kConstant;
    while (!is_constant && mix64(static_cast<std::int64_t>(rows.indices[position])) != entry.hash) ++position;
    const std::size_t column = is_constant ? to.n - 1 : static_cast<std::size_t>(position++ - first);
    columns.push_back(column);
    if (shared_ && entry.cell != Cells::kNone) add_evidence(entry, column, to);
    for_each_cell(e, entry, [&](Cell cell, double r, std::size_t source) { add_terms(weights(cell), entry, r, source, column, to); });
  }
  if (pairs_.any()) add_pair_terms(e, columns, to);
}

void HashedTable::add_terms(const float* w, const TableEntry& entry, double r, std::size_t source, std::size_t column, Terms& to) const {
  for (std::size_t k = 0; k < width(); ++k) to.columns(source, k)[column] += r * static_cast<double>(w[k]) * entry.phi[values_[k]];
}

// The evidence of one feature, see find_evidence().
void HashedTable::add_evidence(const TableEntry& entry, std::size_t column, Terms& to) const {
  const float* m = mass(entry.cell);
  const auto log_share = [&](std::size_t c) { return std::log((static_cast<double>(m[c]) + kPriorMass) / total_[c]); };
  double centre = outputs_ == 1 ? log_share(0) : 0.0;
  for (std::size_t c = 0; outputs_ > 1 && c < classes_; ++c) centre += log_share(c) / static_cast<double>(classes_);
  for (std::size_t o = 0; o < outputs_; ++o) {
    const double n = entry.phi[1] * (log_share(outputs_ == 1 ? 1 : o) - centre);
    for (std::size_t b = 0; b < rates_.size(); ++b) to.columns(kShared, b * outputs_ + o)[column] += bayes_[b] * n;
  }
}

// The terms of the belief on pairs are those of the belief before it, and half of a pair for each of its features.
void HashedTable::add_pair_terms(const Seen& e, const std::vector<std::size_t>& columns, Terms& to) const {
  for (std::size_t k = width(); k < width() + outputs_; ++k)
    for (std::size_t source = 0; source < kSources; ++source) std::copy_n(to.columns(source, k - outputs_), to.n, to.columns(source, k));
  std::size_t number = 0;
  pairs_.for_each(cells_, *e.entries, [&](std::size_t i, std::size_t j) {
    const PairEntry& pair = (*e.pairs)[number++];
    for (std::size_t o = 0; pair.cell != Cells::kNone && o < outputs_; ++o)
      for (const std::size_t entry : {i, j}) to.columns(kShared, width() + o)[columns[entry]] += 0.5 * static_cast<double>(weights(pair.cell)[o]) * static_cast<double>(pair.phi);
  });
}

void HashedTable::save(State& state) {
  cells_.save(state.reals["table_cells"], state.integers["table_tags"]);
  state.reals["table_total"].assign(total_.begin(), total_.end());
  state.reals["table_bias"].assign(bias_.begin(), bias_.end());
  state.reals["table_bias_squares"].assign(bias_squares_.begin(), bias_squares_.end());
  state.reals["table_bayes"].assign(bayes_.begin(), bayes_.end());
  state.reals["table_bayes_squares"].assign(bayes_squares_.begin(), bayes_squares_.end());
  state.reals["table_mean_squares"].assign(mean_squares_.begin(), mean_squares_.end());
}

void HashedTable::load(const State& state) {
  const auto copy = [&](const char* name, Vec<double>& to) {
    const std::vector<double>& from = state.reals.at(name);
    if (from.size() != to.size()) throw std::invalid_argument("saved model: wrong size of the table");
    std::copy(from.begin(), from.end(), to.begin());
  };
  cells_.load(state.reals.at("table_cells"), state.integers.at("table_tags"));
  copy("table_total", total_);
  copy("table_bias", bias_);
  copy("table_bias_squares", bias_squares_);
  copy("table_bayes", bayes_);
  copy("table_bayes_squares", bayes_squares_);
  copy("table_mean_squares", mean_squares_);
}

}  // namespace budgetron
