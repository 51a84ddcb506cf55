// The beliefs of a Budgetron on sparse rows, one per rate lambda. A hashed table of cells holds the shared and own weights of all features.
//
// A feature has one cell for its shared weights, and one for its own weights per task. A hash selects a bucket of eight cells. Within the
// bucket, a cell is found by its tag, 12 more bits of the hash, so that features in one bucket are not confused. A cell also has a count,
// from 0 to 15, so that the table keeps the frequent features. Each occurrence of its feature adds 1. A new feature that finds no cell
// subtracts 1 from the lowest count of its bucket, or takes that cell if the count is 0. A task has own weights of a feature only while the
// count of the shared cell is at least 3.
//
// j runs over the non-zero features of a row of task i. a_j is the typical |x_j|, a running mean (rate 1/8) in the cell of j, with x_j
// included, so that |x_j|/a_j is at most 8 however large x_j is. A feature without a cell has a_j = |x_j|.
//
//   v_j = x_j/a_j  or  sign(x_j), by belief;   phi = v/|v|
//   n   = sum_j phi_j log(M_jc/M_c)           the evidence of naive Bayes for class c, with phi of the signs
//   f   = b + sum_j (w_j + o w_ji) phi_j + k n,   w_ji the own weight of feature j for task i, o = 0.3; without a cell, all of this is 0
//   every weight with its feature phi: G = keep G + (g phi)^2, w += lambda g phi/sqrt(G) (AdaGrad), and the same for b and k;
//   M_jc += |phi_j|
//
// In AdaGrad keep is 1, and the weights converge. With a smaller keep, steps do not shrink to 0, so the belief follows a stream that drifts.
// For b and k, keep is always 1.
//
// M_jc is the mass of feature j in examples of class c: the sum of |phi_j|. M_c is the sum of all M_jc. g is the weight of the example
// times [y] - p, as in fourier_adagrad.hpp.
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
  static constexpr std::size_t kWays = 8;                // cells per bucket
  static constexpr std::uint16_t kTags = 4096, kMaxCount = 15;  // tag and count of a cell: 12 and 4 bits
  static constexpr std::uint16_t kOwnCount = 3;          // the count of its shared cell from which a feature has own weights
  static constexpr double kPriorMass = 0.1;  // added to every M_jc, so that a class without the feature keeps some probability
  static constexpr double kMaxSize = 1e38;  // the limit of |x|: rows may be float64, but typical sizes are float32 and must stay finite

  // `keeps` is the share of G that each belief keeps at a step; `signs` is 1 for beliefs that see only the signs of features.
  HashedTable(Bytes& bytes, const std::vector<double>& rates, const std::vector<double>& keeps, const std::vector<double>& signs, std::size_t outputs, std::size_t cells,
              bool single, bool shared, bool own)
      : rates_(rates), keeps_(keeps), outputs_(outputs), classes_(std::max<std::size_t>(2, outputs)), cells_(std::max(cells, kWays)), buckets_(cells_ / kWays), single_(single), shared_(shared),
        own_(own), own_factor_(shared ? kOwnShare : 1.0), steps_(bytes, outputs), data_(bytes, cells_ * stride()), tags_(bytes, cells_),
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
    for (const TableEntry& entry : *e.entries)
      for_each_cell(e, entry, [&](std::size_t cell, double r, std::size_t) { add_margins(weights(cell), entry, r, f); });
  }

  void variances(const Seen& e, double* v) override {
    find_entries(e);
    for (std::size_t b = 0; b < rates_.size(); ++b) v[b] = rates_[b];
    for (const TableEntry& entry : *e.entries) {
      if (shared_) add_step_sizes(entry.cell, entry, 1.0, v);
      for (std::size_t j = 0; own_ && j < e.n_related; ++j) {
        const double r = own_factor_ * e.related[j].coefficient;
        add_step_sizes(has_own(entry.cell) ? own_cell(e, entry, j) : kNone, entry, r * r, v);
      }
    }
  }

  bool learn(const Seen& e, const double* f, std::size_t label, double omega) override {
    const bool any_steps = find_gradients(f, label, omega);
    count_features(e);
    for (const TableEntry& entry : *e.entries)  // one after the other: two features may have the same cell
      for_each_cell(e, entry, [&](std::size_t cell, double r, std::size_t) { step(weights(cell), entry, r); });
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
      if (shared_ && entry.cell != kNone) add_evidence(entry, column, to);
      for_each_cell(e, entry, [&](std::size_t cell, double r, std::size_t source) { add_terms(weights(cell), entry, r, source, column, to); });
    }
  }

  std::size_t bytes(std::size_t) const override { return data_.size() * sizeof(float) + tags_.size() * sizeof(std::uint16_t); }

  void save(State& state) override;
  void load(const State& state) override;

 private:
  using Cell = std::uint32_t;
  static constexpr Cell kNone = static_cast<Cell>(-1);  // the cell of a feature that has none

  std::size_t width() const { return rates_.size() * outputs_; }
  std::size_t stride() const { return 1 + classes_ + 2 * width(); }
  float& typical(std::size_t cell) { return data_[cell * stride()]; }
  float typical(std::size_t cell) const { return data_[cell * stride()]; }
  float* mass(std::size_t cell) { return data_.data() + cell * stride() + 1; }
  const float* mass(std::size_t cell) const { return data_.data() + cell * stride() + 1; }
  float* weights(std::size_t cell) { return data_.data() + cell * stride() + 1 + classes_; }  // then the squares
  const float* weights(std::size_t cell) const { return data_.data() + cell * stride() + 1 + classes_; }

  // The first cell of the bucket of a hash.
  Cell first_cell(std::uint64_t h) const { return static_cast<Cell>((((h >> 32) * buckets_) >> 32) * kWays); }
  // At least 1, since cells that were never used have tag 0.
  static std::uint16_t tag_of(std::uint64_t h) { return std::max<std::uint16_t>(static_cast<std::uint16_t>(h & (kTags - 1)), 1); }
  std::uint16_t tag(std::size_t cell) const { return static_cast<std::uint16_t>(tags_[cell] / (kMaxCount + 1)); }
  std::uint16_t count(std::size_t cell) const { return static_cast<std::uint16_t>(tags_[cell] % (kMaxCount + 1)); }

  // The cell of a hash: the first cell of its bucket with the same tag, or kNone. The loop has no branches, because the processor could not
  // predict which cell it is.
  Cell find(std::uint64_t h) const {
    const Cell first = first_cell(h);
    const std::uint16_t* bucket = tags_.data() + first;
    const std::uint16_t wanted = tag_of(h);
    unsigned hits = 0;
    for (unsigned k = 0; k < kWays; ++k) hits |= static_cast<unsigned>(bucket[k] / (kMaxCount + 1) == wanted) << k;
    return hits ? first + static_cast<Cell>(floor_log2(hits & (~hits + 1))) : kNone;
  }

  // The first cell with the lowest count in the bucket. A new feature takes it if the count is 0.
  Cell lowest(std::uint64_t h) const {
    const Cell first = first_cell(h);
    std::size_t least = count(first) * kWays;  // the minimum of count · 8 + k over the cells k of the bucket, again without branches
    for (std::size_t k = 1; k < kWays; ++k) least = std::min(least, count(first + k) * kWays + k);
    return first + static_cast<Cell>(least % kWays);
  }

  // Counts an occurrence of a hash and returns its cell, which may be new, or kNone if it gets none. `known` is its cell before this row was
  // counted, or kNone. Sets `evicted` if another feature loses its cell.
  Cell count_occurrence(std::uint64_t h, Cell known, bool& evicted) {
    // An earlier feature of the row may have taken the cell, and then its tag differs.
    Cell cell = known != kNone && tag(known) == tag_of(h) ? known : find(h);
    if (cell != kNone) {
      if (count(cell) < kMaxCount) ++tags_[cell];
      return cell;
    }
    cell = lowest(h);
    if (count(cell) > 0) {
      --tags_[cell];
      return kNone;
    }
    prefetch_numbers(data_.data() + cell * stride(), stride());
    if (tags_[cell] != 0) {
      evicted = true;
      std::fill_n(data_.data() + cell * stride(), stride(), 0.0f);
    }
    tags_[cell] = static_cast<std::uint16_t>(tag_of(h) * (kMaxCount + 1) + 1);
    return cell;
  }

  // Without shared weights, all features have own weights.
  bool has_own(Cell cell) const { return own_ && (!shared_ || (cell != kNone && count(cell) >= kOwnCount)); }
  // The ~ is needed because h is mix64(feature) and xor is symmetric: without it, feature 2 of task 5 would share a cell with feature 5 of
  // task 2.
  static std::uint64_t own_hash(std::uint64_t h, std::int64_t id) { return mix64(h ^ mix64(~id)); }
  // The cell of the own weights of an entry for related task j, or kNone. Only for entries that have own weights.
  Cell own_cell(const Seen& e, const TableEntry& entry, std::size_t j) const {
    return j == 0 ? entry.own : find(own_hash(entry.hash, e.related[j].id));
  }
  // Looks up the cells of an entry.
  void find_cells(const Seen& e, TableEntry& entry) const {
    entry.cell = find(entry.hash);
    entry.own = has_own(entry.cell) && e.n_related ? find(own_hash(entry.hash, e.related[0].id)) : kNone;
  }

  // Calls use(cell, factor of its weights in f, source) for the cells of an entry that exist.
  template <class Use>
  void for_each_cell(const Seen& e, const TableEntry& entry, Use use) const {
    if (shared_ && entry.cell != kNone) use(entry.cell, 1.0, kShared);
    for (std::size_t j = 0; has_own(entry.cell) && j < e.n_related; ++j) {
      const Cell cell = own_cell(e, entry, j);
      if (cell != kNone) use(cell, own_factor_ * e.related[j].coefficient, e.related[j].own ? kOwn : kRelated);
    }
  }

  double next_typical(Cell cell, double size) const {
    if (cell == kNone) return size;
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

  // Writes the non-zero features to e.entries, with their cells and both of their values.
  void find_entries(const Seen& e) const {
    Vec<TableEntry>& entries = *e.entries;
    entries.clear();
    for_each_nonzero(e.x, [&](std::uint64_t h, double value) {
      prefetch(tags_.data() + first_cell(h));
      entries.push_back({h, kNone, kNone, value, {0.0, 0.0}});
    });
    for (TableEntry& entry : entries) {
      entry.cell = find(entry.hash);
      if (entry.cell != kNone) prefetch_numbers(data_.data() + entry.cell * stride(), stride());
      for (std::size_t j = 0; has_own(entry.cell) && j < e.n_related; ++j) prefetch(tags_.data() + first_cell(own_hash(entry.hash, e.related[j].id)));
    }
    double squares = 0;
    for (TableEntry& entry : entries) {
      if (has_own(entry.cell) && e.n_related) {
        entry.own = find(own_hash(entry.hash, e.related[0].id));
        if (entry.own != kNone) prefetch_numbers(weights(entry.own), 2 * width());
      }
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

  // The numbers may lie in two cache lines.
  static void prefetch_numbers(const float* numbers, std::size_t n) {
    prefetch(numbers);
    prefetch(numbers + n - 1);
  }

  // Counts the features of a row, and updates the cells of its entries. Their values do not change.
  void count_features(const Seen& e) {
    bool evicted = false;
    for (TableEntry& entry : *e.entries) {
      entry.cell = count_occurrence(entry.hash, entry.cell, evicted);
      const Cell known = entry.own;
      entry.own = kNone;
      for (std::size_t j = 0; has_own(entry.cell) && j < e.n_related; ++j) {
        const Cell cell = count_occurrence(own_hash(entry.hash, e.related[j].id), j == 0 ? known : kNone, evicted);
        if (j == 0) entry.own = cell;
      }
    }
    if (!evicted) return;
    // A feature may have lost its cell to a later one of the same row.
    for (TableEntry& entry : *e.entries) find_cells(e, entry);
  }

  // Writes n to e.evidence, one number per output. For two classes it is the log ratio of the second class to the first.
  void find_evidence(const Seen& e) const {
    double* n = e.evidence;
    std::fill_n(n, outputs_, 0.0);
    if (!shared_) return;
    if (outputs_ == 1) {
      for (const TableEntry& entry : *e.entries) {
        if (entry.cell == kNone) continue;
        const float* m = mass(entry.cell);
        n[0] += entry.phi[1] * std::log((static_cast<double>(m[1]) + kPriorMass) * total_[0] / ((static_cast<double>(m[0]) + kPriorMass) * total_[1]));
      }
      return;
    }
    double mean = 0;
    for (std::size_t c = 0; c < classes_; ++c) {
      for (const TableEntry& entry : *e.entries)
        if (entry.cell != kNone) n[c] += entry.phi[1] * std::log((static_cast<double>(mass(entry.cell)[c]) + kPriorMass) / total_[c]);
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
  // Adds r times the step sizes of one cell to v. A feature without a cell has G = 0.
  void add_step_sizes(Cell cell, const TableEntry& entry, double r, double* v) const {
    for (std::size_t b = 0; b < rates_.size(); ++b) {
      double mean = 0;
      for (std::size_t o = 0; cell != kNone && o < outputs_; ++o) mean += static_cast<double>(weights(cell)[width() + b * outputs_ + o]);
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

  // Updates the typical sizes and the masses.
  void update_statistics(const Seen& e, std::size_t label) {
    for (const TableEntry& entry : *e.entries) {
      if (entry.cell == kNone) continue;
      typical(entry.cell) = static_cast<float>(next_typical(entry.cell, entry.size));
      const double phi = std::abs(entry.phi[1]);
      mass(entry.cell)[label] += static_cast<float>(phi);
      total_[label] += phi;
    }
  }

  std::vector<double> rates_, keeps_;
  std::vector<std::size_t> values_;  // which of the two values of an entry (phi) each belief uses
  std::size_t outputs_, classes_, cells_, buckets_;
  bool single_, shared_, own_;
  double own_factor_;
  Steps steps_;
  Vec<float> data_;          // per cell: typical |x|, mass per class, weights (beliefs × outputs), squares
  Vec<std::uint16_t> tags_;  // per cell: tag · 16 + count
  // M_c; b and its G; k and its G; and the gradient of each belief and output for the current example.
  Vec<double> total_, bias_, bias_squares_, bayes_, bayes_squares_, gradient_;
};

inline void HashedTable::save(State& state) {
  state.reals["table_cells"].assign(data_.begin(), data_.end());
  state.integers["table_tags"].assign(tags_.begin(), tags_.end());
  state.reals["table_total"].assign(total_.begin(), total_.end());
  state.reals["table_bias"].assign(bias_.begin(), bias_.end());
  state.reals["table_bias_squares"].assign(bias_squares_.begin(), bias_squares_.end());
  state.reals["table_bayes"].assign(bayes_.begin(), bayes_.end());
  state.reals["table_bayes_squares"].assign(bayes_squares_.begin(), bayes_squares_.end());
}

inline void HashedTable::load(const State& state) {
  const auto& cells = state.reals.at("table_cells");
  const auto& tags = state.integers.at("table_tags");
  const auto copy = [](const std::vector<double>& from, Vec<double>& to) {
    if (from.size() != to.size()) throw std::invalid_argument("saved model: wrong size of the table");
    std::copy(from.begin(), from.end(), to.begin());
  };
  if (cells.size() != data_.size() || tags.size() != tags_.size()) throw std::invalid_argument("saved model: wrong size of the table");
  std::transform(cells.begin(), cells.end(), data_.begin(), [](double x) { return static_cast<float>(x); });
  std::transform(tags.begin(), tags.end(), tags_.begin(), [](std::int64_t x) { return static_cast<std::uint16_t>(x); });
  copy(state.reals.at("table_total"), total_);
  copy(state.reals.at("table_bias"), bias_);
  copy(state.reals.at("table_bias_squares"), bias_squares_);
  copy(state.reals.at("table_bayes"), bayes_);
  copy(state.reals.at("table_bayes_squares"), bayes_squares_);
}

}  // namespace budgetron
