// The beliefs of a Budgetron on sparse rows, one per rate lambda. One hashed table of cells has the shared and own weights of all
// features.
//
// j runs over the non-zero features of a row of task i. a_j is the typical |x_j|, a running mean (rate 1/8) in the cell of j, with x_j
// included, so that |x_j|/a_j is at most 8 however large x_j is:
//
//   v_j = x_j/a_j  or  sign(x_j), by belief;   phi = v/|v|
//   n   = sum_j phi_j log(M_jc/M_c)           the evidence of naive Bayes for class c, with phi of the signs
//   f   = b + sum_j (w_j + o w_ji) phi_j + k n,   w_ji in the cell of (feature, task), o = 0.3
//   every weight with its feature phi: G = keep G + (g phi)^2, w += lambda g phi/sqrt(G) (AdaGrad), and the same for b and k;
//   M_jc += |phi_j|
//
// keep is 1 in AdaGrad, whose weights converge. In a belief with a smaller one, the steps do not shrink to nothing, and it follows a stream
// that drifts. For b and k it is 1.
//
// M_jc is the mass of feature j in examples of class c: the sum of |phi_j|. M_c is the sum of all M_jc. g is the weight of the example
// times [y] - p, as in fourier_adagrad.hpp.
//
// Once a quarter of the cells hold a shared feature, a new feature gets a cell only at its second occurrence. Most words of a text occur
// only once, and would disturb the cells of others. A Bloom filter (one hash, so one bit per feature) records which features have
// occurred.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "intrinsics.hpp"
#include "rules/budgetron/features/hashing.hpp"
#include "rules/budgetron/parts/fourier_adagrad.hpp"
#include "rules/budgetron/parts/part.hpp"
#include "rules/budgetron/parts/steps.hpp"

namespace budgetron {

class HashedTable final : public Part {
 public:
  static constexpr double kMinError = 1e-5;  // a belief that gives the true class a probability above 99.999 % does not update its weights
  static constexpr double kOwnShare = 0.3, kTypicalRate = 1.0 / 8.0, kBayesRate = 0.3;
  static constexpr double kPriorMass = 0.1;  // is added to every M_jc, so that a class without the feature keeps some probability
  static constexpr double kMaxSize = 1e38;  // larger |x| count as this: typical sizes are float32 and must stay finite; rows may be float64

  // keeps: the share of G that each belief keeps at a step of a weight.
  HashedTable(Bytes& bytes, const std::vector<double>& rates, const std::vector<double>& keeps, const std::vector<double>& signs, std::size_t outputs, std::size_t cells,
              bool single, bool shared, bool own)
      : rates_(rates), keeps_(keeps), outputs_(outputs), classes_(std::max<std::size_t>(2, outputs)), cells_(cells), single_(single), shared_(shared),
        own_(own), own_factor_(shared ? kOwnShare : 1.0), steps_(bytes, outputs), data_(bytes, cells * stride()), seen_(bytes, cells),
        total_(bytes, classes_, 1000 * kPriorMass), bias_(bytes, width()), bias_squares_(bytes, width()), bayes_(bytes, rates.size(), 0.5),
        bayes_squares_(bytes, rates.size(), 1.0), gradient_(bytes, width()) {
    for (const double sign : signs) values_.push_back(sign != 0);
  }

  std::size_t count() const override { return rates_.size(); }

  void margins(const Seen& e, double* f) const override {
    find_entries(e);
    find_evidence(e);
    for (std::size_t b = 0; b < rates_.size(); ++b)
      for (std::size_t o = 0; o < outputs_; ++o) f[b * outputs_ + o] = bias_[b * outputs_ + o] + bayes_[b] * e.evidence[o];
    for (const TableEntry& entry : *e.entries) {
      if (shared_) add_margins(weights(entry.cell), entry, 1.0, f);
      for (std::size_t j = 0; own_ && j < e.n_related; ++j)
        add_margins(weights(own_cell(entry, e.related[j].id)), entry, own_factor_ * e.related[j].coefficient, f);
    }
  }

  void variances(const Seen& e, double* v) override {
    find_entries(e);
    for (std::size_t b = 0; b < rates_.size(); ++b) v[b] = rates_[b];
    for (const TableEntry& entry : *e.entries) {
      if (shared_) add_step_sizes(weights(entry.cell), entry, 1.0, v);
      for (std::size_t j = 0; own_ && j < e.n_related; ++j) {
        const double r = own_factor_ * e.related[j].coefficient;
        add_step_sizes(weights(own_cell(entry, e.related[j].id)), entry, r * r, v);
      }
    }
  }

  bool learn(const Seen& e, const double* f, std::size_t label, double omega) override {
    const bool any_steps = find_gradients(f, label, omega);
    for (const TableEntry& entry : *e.entries) {  // one after the other: two features may have the same cell
      if (shared_) step(weights(entry.cell), entry, 1.0);
      for (std::size_t j = 0; own_ && j < e.n_related; ++j)
        step(weights(own_cell(entry, e.related[j].id)), entry, own_factor_ * e.related[j].coefficient);
    }
    for (std::size_t b = 0; b < rates_.size(); ++b) {
      double bayes_gradient = 0;
      for (std::size_t o = 0; o < outputs_; ++o) {
        const std::size_t k = b * outputs_ + o;
        bias_squares_[k] += gradient_[k] * gradient_[k];
        bias_[k] += rates_[b] * gradient_[k] / std::sqrt(bias_squares_[k] + 1e-9);
        bayes_gradient += gradient_[k] * e.evidence[o];
      }
      bayes_squares_[b] += bayes_gradient * bayes_gradient;
      bayes_[b] += kBayesRate * bayes_gradient / std::sqrt(bayes_squares_[b]);
    }
    update_statistics(e, label);
    return any_steps;
  }

  // One term per entry of the row, zero for features without a cell, and the constant.
  void terms(const Seen& e, Terms& to) const override {
    for (std::size_t k = 0; k < width(); ++k) to.columns(kShared, k)[to.n - 1] = bias_[k];
    const Rows& rows = *e.x.rows;
    const auto first = rows.indptr[e.x.at];
    auto position = first;
    for (const TableEntry& entry : *e.entries) {  // entries are in the order of the row
      while (mix64(static_cast<std::int64_t>(rows.indices[position])) != entry.hash) ++position;
      const auto column = static_cast<std::size_t>(position++ - first);
      if (shared_) {
        add_terms(weights(entry.cell), entry, 1.0, kShared, column, to);
        add_evidence(entry, column, to);
      }
      for (std::size_t j = 0; own_ && j < e.n_related; ++j)
        add_terms(weights(own_cell(entry, e.related[j].id)), entry, own_factor_ * e.related[j].coefficient, e.related[j].own ? kOwn : kRelated, column, to);
    }
  }

  std::size_t bytes(std::size_t) const override { return data_.size() * sizeof(float) + seen_.size(); }

  void save(State& state) override;
  void load(const State& state) override;

 private:
  std::size_t width() const { return rates_.size() * outputs_; }
  std::size_t stride() const { return 1 + classes_ + 2 * width(); }
  float& typical(std::size_t cell) { return data_[cell * stride()]; }
  float typical(std::size_t cell) const { return data_[cell * stride()]; }
  float* mass(std::size_t cell) { return data_.data() + cell * stride() + 1; }
  const float* mass(std::size_t cell) const { return data_.data() + cell * stride() + 1; }
  float* weights(std::size_t cell) { return data_.data() + cell * stride() + 1 + classes_; }  // then the squares
  const float* weights(std::size_t cell) const { return data_.data() + cell * stride() + 1 + classes_; }

  std::size_t cell_of(std::uint64_t h) const { return static_cast<std::size_t>(((h >> 32) * cells_) >> 32); }
  // ~: the hash of a pair is symmetric, and without it feature 2 of task 5 would have the cell of feature 5 of task 2.
  std::size_t own_cell(const TableEntry& entry, std::int64_t id) const { return cell_of(mix64(entry.hash ^ mix64(~id))); }
  double next_typical(std::size_t cell, double size) const {
    const double old = static_cast<double>(typical(cell));
    return old > 0 ? old + (size - old) * kTypicalRate : size;
  }

  template <class Use>
  void for_each_nonzero(const Instance& x, Use use) const {
    const Rows& rows = *x.rows;
    for (auto k = rows.indptr[x.at]; k < rows.indptr[x.at + 1]; ++k) {
      const double value = single_ ? static_cast<double>(rows.data_f32[k]) : rows.data_f64[k];
      if (value != 0) use(mix64(static_cast<std::int64_t>(rows.indices[k])), value);
    }
  }

  // Writes the features that have a cell to e.entries, with both of their values.
  void find_entries(const Seen& e) const {
    Vec<TableEntry>& entries = *e.entries;
    entries.clear();
    const bool only_seen = 4 * used_ > cells_;  // new features get no cell yet
    for_each_nonzero(e.x, [&](std::uint64_t h, double value) {
      const std::size_t cell = cell_of(h);
      if (only_seen && !(seen_[cell] >> (h & 7) & 1)) return;
      prefetch(data_.data() + cell * stride());
      entries.push_back({h, cell, value, {0.0, 0.0}});
    });
    double squares = 0;
    for (TableEntry& entry : entries) {
      for (std::size_t j = 0; own_ && j < e.n_related; ++j) prefetch(weights(own_cell(entry, e.related[j].id)));
      const double sign = entry.size < 0 ? -1.0 : 1.0;
      entry.size = std::min(sign * entry.size, kMaxSize);
      entry.phi[0] = sign * entry.size / next_typical(entry.cell, entry.size);
      entry.phi[1] = sign;
      squares += entry.phi[0] * entry.phi[0];
    }
    const double sizes = std::sqrt(squares), signs = std::sqrt(static_cast<double>(entries.size()));
    for (TableEntry& entry : entries) {
      entry.phi[0] /= sizes > 0 ? sizes : 1.0;
      entry.phi[1] /= signs;
    }
  }

  // Writes n to e.evidence, one number per output. For two classes it is the log ratio of the second class to the first.
  void find_evidence(const Seen& e) const {
    double* n = e.evidence;
    std::fill_n(n, outputs_, 0.0);
    if (!shared_) return;
    if (outputs_ == 1) {
      for (const TableEntry& entry : *e.entries) {
        const float* m = mass(entry.cell);
        n[0] += entry.phi[1] * std::log((static_cast<double>(m[1]) + kPriorMass) * total_[0] / ((static_cast<double>(m[0]) + kPriorMass) * total_[1]));
      }
      return;
    }
    double mean = 0;
    for (std::size_t c = 0; c < classes_; ++c) {
      for (const TableEntry& entry : *e.entries)
        n[c] += entry.phi[1] * std::log((static_cast<double>(mass(entry.cell)[c]) + kPriorMass) / total_[c]);
      mean += n[c] / static_cast<double>(classes_);
    }
    for (std::size_t c = 0; c < classes_; ++c) n[c] -= mean;
  }

  void add_margins(const float* w, const TableEntry& entry, double r, double* f) const {
    for (std::size_t b = 0; b < rates_.size(); ++b)
      for (std::size_t o = 0; o < outputs_; ++o)
        f[b * outputs_ + o] += r * static_cast<double>(w[b * outputs_ + o]) * entry.phi[values_[b]];
  }
  void add_terms(const float* w, const TableEntry& entry, double r, std::size_t source, std::size_t column, Terms& to) const {
    for (std::size_t k = 0; k < width(); ++k) to.columns(source, k)[column] += r * static_cast<double>(w[k]) * entry.phi[values_[k / outputs_]];
  }
  // The evidence of one feature, see find_evidence().
  void add_evidence(const TableEntry& entry, std::size_t column, Terms& to) const {
    const float* m = mass(entry.cell);
    const auto log_share = [&](std::size_t c) { return std::log((static_cast<double>(m[c]) + kPriorMass) / total_[c]); };
    double centre = outputs_ == 1 ? log_share(0) : 0.0;
    for (std::size_t c = 0; outputs_ > 1 && c < classes_; ++c) centre += log_share(c) / static_cast<double>(classes_);
    for (std::size_t o = 0; o < outputs_; ++o) {
      const double n = entry.phi[1] * (log_share(outputs_ == 1 ? 1 : o) - centre);
      for (std::size_t b = 0; b < rates_.size(); ++b) to.columns(kShared, b * outputs_ + o)[column] += bayes_[b] * n;
    }
  }
  void add_step_sizes(const float* w, const TableEntry& entry, double r, double* v) const {
    for (std::size_t b = 0; b < rates_.size(); ++b) {
      double mean = 0;
      for (std::size_t o = 0; o < outputs_; ++o) mean += static_cast<double>(w[width() + b * outputs_ + o]);
      v[b] += r * rates_[b] * entry.phi[values_[b]] * entry.phi[values_[b]] / std::sqrt(1.0 + mean / static_cast<double>(outputs_));
    }
  }
  void step(float* w, const TableEntry& entry, double r) const {
    for (std::size_t b = 0; b < rates_.size(); ++b) {
      const double phi = r * entry.phi[values_[b]];
      const auto rate = static_cast<float>(rates_[b]);
      const auto keep = static_cast<float>(keeps_[b]);
      for (std::size_t k = b * outputs_; k < (b + 1) * outputs_; ++k) {
        const auto gradient = static_cast<float>(phi * gradient_[k]);
        if (gradient == 0) continue;
        float& squares = w[width() + k];
        squares = keep * squares + (gradient * gradient + 1e-30f);
        w[k] += rate * gradient / std::sqrt(squares);
      }
    }
  }

  // Sets gradient_ to omega ([y] - p) of every belief and output, or to 0 for beliefs that take no step. Returns whether any takes a step.
  bool find_gradients(const double* f, std::size_t label, double omega) {
    bool any_steps = false;
    for (std::size_t b = 0; b < rates_.size(); ++b) {
      const bool steps = omega * steps_.gradient(f + b * outputs_, label) >= kMinError;
      for (std::size_t o = 0; o < outputs_; ++o) gradient_[b * outputs_ + o] = steps ? omega * steps_.g()[o] : 0.0;
      any_steps |= steps;
    }
    return any_steps;
  }

  // Updates the typical sizes, the masses, and the Bloom filter of features that have occurred.
  void update_statistics(const Seen& e, std::size_t label) {
    for_each_nonzero(e.x, [&](std::uint64_t h, double) { seen_[cell_of(h)] |= static_cast<std::uint8_t>(1u << (h & 7)); });
    for (const TableEntry& entry : *e.entries) {
      used_ += typical(entry.cell) == 0;
      typical(entry.cell) = static_cast<float>(next_typical(entry.cell, entry.size));
      const double phi = std::abs(entry.phi[1]);
      mass(entry.cell)[label] += static_cast<float>(phi);
      total_[label] += phi;
    }
  }

  std::vector<double> rates_, keeps_;
  std::vector<std::size_t> values_;  // which of the two values of an entry (phi) each belief uses
  std::size_t outputs_, classes_, cells_;
  bool single_, shared_, own_;
  double own_factor_;
  Steps steps_;
  Vec<float> data_;         // per cell: typical |x|, mass per class, weights (beliefs × outputs), squares
  Vec<std::uint8_t> seen_;  // the Bloom filter: eight bits per cell, for features that have occurred
  std::size_t used_ = 0;    // cells that hold a shared feature
  Vec<double> total_, bias_, bias_squares_, bayes_, bayes_squares_, gradient_;
};

inline void HashedTable::save(State& state) {
  state.reals["table_cells"].assign(data_.begin(), data_.end());
  state.integers["table_seen"].assign(seen_.begin(), seen_.end());
  state.integers["table_used"] = {static_cast<std::int64_t>(used_)};
  state.reals["table_total"].assign(total_.begin(), total_.end());
  state.reals["table_bias"].assign(bias_.begin(), bias_.end());
  state.reals["table_bias_squares"].assign(bias_squares_.begin(), bias_squares_.end());
  state.reals["table_bayes"].assign(bayes_.begin(), bayes_.end());
  state.reals["table_bayes_squares"].assign(bayes_squares_.begin(), bayes_squares_.end());
}

inline void HashedTable::load(const State& state) {
  const auto& cells = state.reals.at("table_cells");
  const auto& seen = state.integers.at("table_seen");
  const auto copy = [](const std::vector<double>& from, Vec<double>& to) {
    if (from.size() != to.size()) throw std::invalid_argument("saved model: wrong size of the table");
    std::copy(from.begin(), from.end(), to.begin());
  };
  if (cells.size() != data_.size() || seen.size() != seen_.size()) throw std::invalid_argument("saved model: wrong size of the table");
  std::transform(cells.begin(), cells.end(), data_.begin(), [](double x) { return static_cast<float>(x); });
  std::transform(seen.begin(), seen.end(), seen_.begin(), [](std::int64_t x) { return static_cast<std::uint8_t>(x); });
  used_ = static_cast<std::size_t>(state.integers.at("table_used").at(0));
  copy(state.reals.at("table_total"), total_);
  copy(state.reals.at("table_bias"), bias_);
  copy(state.reals.at("table_bias_squares"), bias_squares_);
  copy(state.reals.at("table_bayes"), bayes_);
  copy(state.reals.at("table_bayes_squares"), bayes_squares_);
}

}  // namespace budgetron
