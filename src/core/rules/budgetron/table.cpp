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
  evidence_.for_each_output(mass(entry.cell), [&](std::size_t o, double n) {
    for (std::size_t b = 0; b < rates_.size(); ++b) to.columns(kShared, b * outputs_ + o)[column] += bayes_[b] * (entry.phi[1] * n);
  });
}

// The belief on pairs begins with the terms of the belief before it. Each pair then adds half of its term to the term of each of its two features.
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

// Calls use(name in a saved model, values) for every vector of the table, except the cells.
template <class Use>
void HashedTable::for_each_vector(Use use) {
  use("table_total", evidence_.total());
  use("table_bias", bias_);
  use("table_bias_squares", bias_squares_);
  use("table_bayes", bayes_);
  use("table_bayes_squares", bayes_squares_);
  use("table_mean_squares", gradients_.mean_squares());
}

void HashedTable::save(State& state) {
  cells_.save(state.reals["table_cells"], state.integers["table_tags"]);
  for_each_vector([&](const char* name, Vec<double>& values) { state.reals[name].assign(values.begin(), values.end()); });
}

void HashedTable::load(const State& state) {
  cells_.load(state.reals.at("table_cells"), state.integers.at("table_tags"));
  for_each_vector([&](const char* name, Vec<double>& values) {
    const std::vector<double>& saved = state.reals.at(name);
    if (saved.size() != values.size()) throw std::invalid_argument("saved model: wrong size of the table");
    std::copy(saved.begin(), saved.end(), values.begin());
  });
}

}  // namespace budgetron
