// The beliefs of a Budgetron on sparse rows: one per rate lambda, and one on pairs of features if rows may have pairs. A hashed table of cells holds
// the shared and own weights of all features.
//
// A feature has one cell for its shared weights, and one per task for the own weights of the task. The table keeps the frequent features
// (cells.hpp). If there are shared weights, a task has own weights of a feature only while the count of the shared cell is at least 3.
//
// j runs over the non-zero features of a row of task i. a_j is the typical |x_j|, a running mean (rate 1/8) in the cell of j, with x_j
// included, so that |x_j|/a_j is at most 8 however large x_j is. A feature without a cell has a_j = |x_j|.
//
//   v_j = x_j/a_j  or  sign(x_j), by belief;   phi = v/|v|
//   n   = sum_j phi_j log(M_jc/M_c)           the evidence of naive Bayes for class c, with phi of the signs
//   f   = b + sum_j (w_j + w_ji) phi_j + kappa n     w_j: shared weight of feature j; w_ji: own weight of task i for it
//   every weight with its feature phi: G = keep G + (g phi)^2, w += lambda g phi/sqrt(G + c S phi^2) (AdaGrad)
//   b += lambda g/sqrt(sum g^2)
//
// A feature without a cell adds nothing to n and f. The constant is one more feature, with own weights only: phi = 1/sqrt(1 + non-zeros). g is
// the weight of the example times [y] - p, and S the running mean of g^2. adagrad_and_bayes.hpp defines the masses M_jc and M_c, and the update of
// kappa.
//
// The belief on pairs comes last. It adds to f of the belief before it the weights of pairs of features (pairs.hpp), with the same update,
// lambda = 0.5, keep = 1, c = 4 and phi of the same size for all pairs of the row.
//
// A weight learns as if it had seen its feature c times before, with squared gradients of the usual size S. c is 2 for shared and 16 for own weights,
// so the shared weights learn what tasks have in common before the own weights do. (Without shared weights, c is 2 for own weights.) With c = 0, the
// first step of a weight has the size lambda however small its gradient is. On a stream with rare positives, nearly all gradients are small and
// negative. The own weights of every task would then become negative, the shared weights would become too large to make up for this, and the
// probabilities of new tasks would be too large.
//
// In AdaGrad keep is 1, and the weights converge. With a smaller keep, steps do not shrink to 0, so the belief follows a stream that drifts.
// For b and kappa, keep is always 1.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rules/budgetron/features/hashing.hpp"
#include "rules/budgetron/parts/adagrad_and_bayes.hpp"
#include "rules/budgetron/parts/cells.hpp"
#include "rules/budgetron/parts/pairs.hpp"
#include "rules/budgetron/parts/part.hpp"

namespace budgetron {

class HashedTable final : public Part {
 public:
  static constexpr double kTypicalRate = 1.0 / 8.0;
  static constexpr std::uint64_t kOwnCount = 3;  // a feature has own weights once its shared cell has this count
  static constexpr double kOwnPrior = 16.0, kPairPrior = 4.0;  // c of own weights and of pairs
  static constexpr double kPairRate = 0.5;
  static constexpr double kMaxSize = 1e38;  // the limit of |x|: rows may be float64, but typical sizes are float32 and must stay finite

  // `keeps` is the share of G that each belief keeps at a step; `signs` is 1 for beliefs that see only the signs of features.
  HashedTable(Bytes& bytes, const std::vector<double>& rates, const std::vector<double>& keeps, const std::vector<double>& signs, std::size_t outputs, std::size_t cells,
              std::size_t pairs, bool single, bool shared, bool own)
      : rates_(rates), keeps_(keeps), outputs_(outputs), classes_(classes_of(outputs)), pairs_(pairs), single_(single), shared_(shared), own_(own),
        cells_(bytes, cells, 1 + classes_ + 2 * width()), moves_(bytes, count() * outputs), gradients_(bytes, count(), outputs), evidence_(bytes, outputs),
        bias_(bytes, width()), bias_squares_(bytes, width()), bayes_(bytes, rates.size(), 0.5), bayes_squares_(bytes, rates.size(), 1.0) {
    for (const double sign : signs) values_.insert(values_.end(), outputs, sign != 0);
  }

  std::size_t count() const override { return rates_.size() + (pairs_.any() ? 1 : 0); }
  bool stays() const override { return true; }  // only the table learns features that are new or rare
  bool sees_entries() const override { return true; }

  void margins(const Seen& e, double* f) const override {
    find_entries(e);
    find_evidence(e);
    for (std::size_t b = 0; b < rates_.size(); ++b)
      for (std::size_t o = 0; o < outputs_; ++o) f[b * outputs_ + o] = bias_[b * outputs_ + o] + bayes_[b] * e.evidence[o];
    width() == kUsualWidth ? add_margins<kUsualWidth>(e, f) : add_margins<0>(e, f);
    if (!pairs_.any()) return;
    pairs_.find(cells_, *e.entries, *e.pairs);
    double* last = f + width();
    std::copy_n(last - outputs_, outputs_, last);
    for (const PairEntry& pair : *e.pairs)
      for (std::size_t o = 0; pair.cell != Cells::kNone && o < outputs_; ++o) last[o] += static_cast<double>(weights(pair.cell)[o]) * static_cast<double>(pair.phi);
  }

  // About how far a step with g = 1 would move f, in place of a variance (as in fourier_adagrad.hpp).
  void variances(const Seen& e, double* v) override {
    find_entries(e);
    for (std::size_t b = 0; b < rates_.size(); ++b) v[b] = rates_[b];
    for (const TableEntry& entry : *e.entries) {
      if (shared_ && entry.hash != kConstant) add_step_sizes(entry.cell, entry, 1.0, v);
      for (std::size_t j = 0; own_ && j < e.n_related; ++j) {
        const double r = e.related[j].coefficient;
        add_step_sizes(has_own(entry) ? own_cell(e, entry, j) : Cells::kNone, entry, r * r, v);
      }
    }
    if (!pairs_.any()) return;
    v[rates_.size()] = v[rates_.size() - 1];
    pairs_.find(cells_, *e.entries, *e.pairs);
    for (const PairEntry& pair : *e.pairs)
      v[rates_.size()] += kPairRate * static_cast<double>(pair.phi) * static_cast<double>(pair.phi) / std::sqrt(1.0 + mean_square(pair.cell, 0));
  }

  bool learn(const Seen& e, const double* f, std::size_t label, double omega) override {
    const bool any_steps = find_gradients(f, label, omega);
    const bool evicted = count_features(e);
    width() == kUsualWidth ? update_cells<kUsualWidth>(e, label) : update_cells<0>(e, label);
    if (pairs_.any()) learn_pairs(*e.pairs, evicted);
    for (std::size_t b = 0; b < rates_.size(); ++b) {
      double bayes_gradient = 0;
      for (std::size_t o = 0; o < outputs_; ++o) {
        const std::size_t k = b * outputs_ + o;
        step_bias(bias_[k], bias_squares_[k], gradients_[k], rates_[b]);
        bayes_gradient += gradients_[k] * e.evidence[o];
      }
      step_bayes(bayes_[b], bayes_squares_[b], bayes_gradient);
    }
    return any_steps;
  }

  // One term per entry of the row, zero for features without a cell, and the constant.
  void terms(const Seen& e, Terms& to) const override;

  std::size_t bytes(std::size_t) const override { return cells_.bytes(); }

  void save(State& state) override;
  void load(const State& state) override;

 private:
  using Cell = Cells::Cell;
  static constexpr Cell kUnknown = Cells::kNone - 1;  // an own cell that may exist and was not looked up yet

  // What the steps of all weights of one belief and output have in common in the current example.
  struct Move {
    float gradient, rate, keep;
    float shared_prior, own_prior;  // c S; for pairs, both are the same
    std::size_t value;              // which of the two values of an entry (phi) the belief uses; unused for pairs
  };

  // The hash of the constant. Columns are not negative, so no column has this hash.
  static constexpr std::uint64_t kConstant = mix64(std::int64_t{-1});

  std::size_t width() const { return rates_.size() * outputs_; }
  // Two beliefs and two classes. The loops over the weights of a cell are compiled for this width, too: what does not depend on the feature
  // then stays in registers.
  static constexpr std::size_t kUsualWidth = 2;
  float& typical(Cell cell) { return *cells_.numbers(cell); }
  float typical(Cell cell) const { return *cells_.numbers(cell); }
  float* mass(Cell cell) { return cells_.numbers(cell) + 1; }
  const float* mass(Cell cell) const { return cells_.numbers(cell) + 1; }
  float* weights(Cell cell) { return cells_.numbers(cell) + 1 + classes_; }  // then the squares
  const float* weights(Cell cell) const { return cells_.numbers(cell) + 1 + classes_; }

  // Whether a task has own weights of this feature: always of the constant, and of all features if there are no shared weights.
  bool has_own(const TableEntry& entry) const {
    return own_ && (!shared_ || entry.hash == kConstant || (entry.cell != Cells::kNone && cells_.count(entry.cell) >= kOwnCount));
  }
  // The ~ is needed because h is mix64(feature) and xor is symmetric: without it, feature 2 of task 5 would share a cell with feature 5 of
  // task 2.
  static std::uint64_t own_hash(std::uint64_t h, std::int64_t id) { return own_hash(h, mix_task(id)); }
  static std::uint64_t own_hash(std::uint64_t h, std::uint64_t mixed_task) { return mix64(h ^ mixed_task); }
  static std::uint64_t mix_task(std::int64_t id) { return mix64(~id); }
  // mix_task() of the first related task, computed once per row, because most examples have only one related task.
  static std::uint64_t mix_first_task(const Seen& e) { return e.n_related ? mix_task(e.related[0].id) : 0; }
  // The cell of the own weights of an entry for related task j, or kNone. Only for entries that have own weights.
  Cell own_cell(const Seen& e, const TableEntry& entry, std::size_t j) const {
    return j == 0 ? entry.own : cells_.find(own_hash(entry.hash, e.related[j].id));
  }

  // Calls use(cell, factor of its weights in f, source) for every cell that the entry has.
  template <class Use>
  void for_each_cell(const Seen& e, const TableEntry& entry, Use use) const {
    if (shared_ && entry.cell != Cells::kNone) use(entry.cell, 1.0, kShared);
    if (entry.own != Cells::kNone) use(entry.own, e.related[0].coefficient, e.related[0].own ? kOwn : kRelated);
    for (std::size_t j = 1; j < e.n_related && has_own(entry); ++j) {
      const Cell cell = own_cell(e, entry, j);
      if (cell != Cells::kNone) use(cell, e.related[j].coefficient, e.related[j].own ? kOwn : kRelated);
    }
  }

  double next_typical(Cell cell, double size) const {
    if (cell == Cells::kNone) return size;
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

  // Writes the non-zero features to e.entries, with their cells and both of their values, and the constant as the last entry.
  void find_entries(const Seen& e) const {
    Vec<TableEntry>& entries = *e.entries;
    entries.clear();
    for_each_nonzero(e.x, [&](std::uint64_t h, double value) {
      cells_.prefetch_bucket(h);
      TableEntry& entry = entries.emplace_back();  // not push_back(), for which compilers build the entry on the stack and copy it
      entry.hash = h;
      entry.own = Cells::kNone;
      entry.size = value;
    });
    const std::uint64_t first_task = mix_first_task(e);
    for (TableEntry& entry : entries) {
      entry.cell = cells_.find(entry.hash);
      if (entry.cell != Cells::kNone) cells_.prefetch_numbers(entry.cell);
      if (!e.n_related || !has_own(entry)) continue;
      entry.own = kUnknown;
      cells_.prefetch_bucket(own_hash(entry.hash, first_task));
      for (std::size_t j = 1; j < e.n_related; ++j) cells_.prefetch_bucket(own_hash(entry.hash, e.related[j].id));
    }
    const double n = static_cast<double>(entries.size()), size_of_signs = 1.0 / std::sqrt(n);
    double squares = 0;
    for (TableEntry& entry : entries) {
      if (entry.own == kUnknown) {
        entry.own = cells_.find(own_hash(entry.hash, first_task));
        if (entry.own != Cells::kNone) cells_.prefetch_numbers(entry.own);
      }
      const double sign = std::copysign(1.0, entry.size);  // without a branch: the signs of numbers cannot be predicted
      entry.size = std::min(sign * entry.size, kMaxSize);
      entry.phi[0] = sign * entry.size / next_typical(entry.cell, entry.size);
      entry.phi[1] = sign * size_of_signs;
      squares += entry.phi[0] * entry.phi[0];
    }
    const double norm = squares > 0 ? std::sqrt(squares) : 1.0;
    for (TableEntry& entry : entries) entry.phi[0] /= norm;
    const double constant = 1.0 / std::sqrt(n + 1.0);
    entries.push_back({kConstant, Cells::kNone, own_ && e.n_related ? cells_.find(own_hash(kConstant, first_task)) : Cells::kNone, 1.0, {constant, constant}});
  }

  // Counts the features of a row. Sets `cell` and `own` of its entries to the cells that they have afterwards. Returns whether a hash lost its cell.
  bool count_features(const Seen& e) {
    const std::uint64_t first_task = mix_first_task(e);
    bool evicted = false;
    for (TableEntry& entry : *e.entries) {
      if (entry.hash != kConstant) entry.cell = cells_.count_occurrence([&] { return entry.hash; }, entry.cell, evicted);
      const Cell before = entry.own;
      entry.own = Cells::kNone;
      for (std::size_t j = 0; j < e.n_related && has_own(entry); ++j) {
        const auto hash = [&] { return own_hash(entry.hash, j == 0 ? first_task : mix_task(e.related[j].id)); };
        const Cell cell = cells_.count_occurrence(hash, j == 0 ? before : Cells::kNone, evicted);
        if (j == 0) entry.own = cell;
      }
    }
    if (!evicted) return false;
    // A feature may have lost its cell to a later feature of the same row.
    for (TableEntry& entry : *e.entries) {
      if (entry.hash != kConstant) entry.cell = cells_.find(entry.hash, entry.cell);
      entry.own = e.n_related && has_own(entry) ? cells_.find(own_hash(entry.hash, first_task), entry.own) : Cells::kNone;
    }
    return true;
  }

  // Writes n to e.evidence, one number per output. For two classes it is the log ratio of the second class to the first.
  void find_evidence(const Seen& e) const {
    double* n = e.evidence;
    std::fill_n(n, outputs_, 0.0);
    if (!shared_) return;
    const double phi = std::abs(e.entries->front().phi[1]);  // the same for all features
    for (std::size_t o = 0; o < outputs_; ++o) {
      const double prior = evidence_.log_prior(o);
      Evidence::LogRatio ratio;
      for (const TableEntry& entry : *e.entries) {
        if (entry.cell == Cells::kNone) continue;
        const float* m = mass(entry.cell);
        const std::size_t positive = entry.phi[1] > 0 ? 1 : 0;  // as an index, so that there is no branch
        ratio.logs += std::copysign(1.0, entry.phi[1]) * prior;
        if (outputs_ == 1) {
          ratio.above *= static_cast<double>(m[positive]) + Evidence::kPriorMass;
          ratio.below *= static_cast<double>(m[1 - positive]) + Evidence::kPriorMass;
        } else {
          (positive ? ratio.above : ratio.below) *= static_cast<double>(m[o]) + Evidence::kPriorMass;
        }
        ratio.end_of_factor();
      }
      n[o] = phi * ratio.value();
    }
    evidence_.centre(n);
  }

  void add_terms(const float* w, const TableEntry& entry, double r, std::size_t source, std::size_t column, Terms& to) const;
  void add_evidence(const TableEntry& entry, std::size_t column, Terms& to) const;
  void add_pair_terms(const Seen& e, const std::vector<std::size_t>& columns, Terms& to) const;
  template <class Use>
  void for_each_vector(Use use);
  // Adds the weights of all entries, times their features, to f. Width is width(), or 0 for any.
  template <std::size_t Width>
  void add_margins(const Seen& e, double* f) const {
    const std::size_t n = Width ? Width : width();
    double sums[Width ? Width : 1];
    std::size_t values[Width ? Width : 1];
    std::copy_n(f, Width, sums);
    std::copy_n(values_.data(), Width, values);
    double* const sum = Width ? sums : f;
    const std::size_t* const value = Width ? values : values_.data();
    for (const TableEntry& entry : *e.entries)
      for_each_cell(e, entry, [&](Cell cell, double r, std::size_t) {
        for (std::size_t k = 0; k < n; ++k) sum[k] += r * static_cast<double>(weights(cell)[k]) * entry.phi[value[k]];
      });
    std::copy_n(sums, Width, f);
  }
  // Adds r times the step sizes of one cell to v. A feature without a cell has G = 0.
  void add_step_sizes(Cell cell, const TableEntry& entry, double r, double* v) const {
    for (std::size_t b = 0; b < rates_.size(); ++b)
      v[b] += r * rates_[b] * entry.phi[values_[b * outputs_]] * entry.phi[values_[b * outputs_]] / std::sqrt(1.0 + mean_square(cell, b));
  }
  // The mean of G over the outputs of a belief; 0 without a cell.
  double mean_square(Cell cell, std::size_t belief) const {
    double sum = 0;
    for (std::size_t o = 0; cell != Cells::kNone && o < outputs_; ++o) sum += static_cast<double>(weights(cell)[width() + belief * outputs_ + o]);
    return sum / static_cast<double>(outputs_);
  }

  // Takes a step of the weights of all entries, and updates their typical sizes and masses. Width is width(), or 0 for any.
  template <std::size_t Width>
  void update_cells(const Seen& e, std::size_t label) {
    const std::size_t n = Width ? Width : width();
    Move usual[Width ? Width : 1];
    std::copy_n(moves_.data(), Width, usual);
    const Move* const moves = Width ? usual : moves_.data();
    double total = evidence_.total()[label];
    for (const TableEntry& entry : *e.entries) {  // one after the other: two features may have the same cell
      for_each_cell(e, entry, [&](Cell cell, double r, std::size_t source) {
        float* w = weights(cell);
        for (std::size_t k = 0; k < n; ++k)
          step(w[k], w[n + k], moves[k], static_cast<float>(r * entry.phi[moves[k].value]), source == kShared ? moves[k].shared_prior : moves[k].own_prior);
      });
      if (entry.cell == Cells::kNone) continue;
      typical(entry.cell) = static_cast<float>(next_typical(entry.cell, entry.size));
      const double phi = std::abs(entry.phi[1]);
      mass(entry.cell)[label] += static_cast<float>(phi);
      total += phi;
    }
    evidence_.total()[label] = total;
  }
  static void step(float& w, float& squares, const Move& move, float phi, float prior) { step_weight(w, squares, phi, move.gradient, move.rate, move.keep, prior); }
  // Counts the pairs and takes a step of their weights. In the cell of a pair, the weights and their G are where the cell of a feature has the
  // weights and the G of the first belief.
  void learn_pairs(Vec<PairEntry>& pairs, bool evicted) {
    Pairs::count(cells_, pairs, evicted);
    for (const PairEntry& pair : pairs)
      for (std::size_t o = 0; pair.cell != Cells::kNone && o < outputs_; ++o) {
        const Move& move = moves_[width() + o];
        float* w = weights(pair.cell) + o;
        step(*w, w[width()], move, pair.phi, move.shared_prior);
      }
  }
  // Computes the gradients of every belief and output, and moves_ from them. Returns whether any belief takes a step.
  bool find_gradients(const double* f, std::size_t label, double omega) {
    bool any_steps = false;
    for (std::size_t b = 0; b < count(); ++b) {
      const bool steps = gradients_.find(b, f, label, omega), pairs = b == rates_.size();
      any_steps |= steps;
      const double rate = pairs ? kPairRate : rates_[b], keep = steps && !pairs ? keeps_[b] : 1.0;
      const double shared_prior = pairs ? kPairPrior : kSharedPrior, own_prior = shared_ && !pairs ? kOwnPrior : shared_prior;
      for (std::size_t k = b * outputs_; k < (b + 1) * outputs_; ++k)
        moves_[k] = {static_cast<float>(gradients_[k]), static_cast<float>(rate), static_cast<float>(keep), static_cast<float>(shared_prior * gradients_.mean_square(k)),
                     static_cast<float>(own_prior * gradients_.mean_square(k)), pairs ? 0 : values_[k]};
    }
    return any_steps;
  }

  std::vector<double> rates_, keeps_;
  std::vector<std::size_t> values_;  // per belief and output: which of the two values of an entry (phi) it uses
  std::size_t outputs_, classes_;
  Pairs pairs_;
  bool single_, shared_, own_;
  Cells cells_;  // per cell: typical |x|, mass per class, weights (beliefs × outputs), squares
  Vec<Move> moves_;
  Gradients gradients_;
  Evidence evidence_;
  Vec<double> bias_, bias_squares_, bayes_, bayes_squares_;  // b and its sum of g^2; kappa and its `squares`
};

}  // namespace budgetron
