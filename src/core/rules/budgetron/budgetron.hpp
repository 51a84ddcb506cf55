// Budgetron: a mixture of many small models, called beliefs, which are weighted by how well they predict. A part (part.hpp) holds one or more
// beliefs that share state.
//
//   budgetron.cpp  the rule: features, margins of every belief, their mixture, and the update
//   sizes.cpp      which part gets more bytes, and which is dropped
//   answers.cpp    queries: weights of beliefs, variances, explanations
//   state.cpp      saving and loading
//   table.cpp      explanations and state of the part for sparse rows
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "learner/learner.hpp"
#include "rules/budgetron/calibration.hpp"
#include "rules/budgetron/combination.hpp"
#include "rules/budgetron/features/fourier_features.hpp"
#include "rules/budgetron/features/scaler.hpp"
#include "rules/budgetron/mixture.hpp"
#include "rules/budgetron/parts/part.hpp"
#include "rules/budgetron/parts/table.hpp"
#include "rules/budgetron/parts/task_rows.hpp"

namespace budgetron {

struct BudgetronScratch : RuleScratch {
  explicit BudgetronScratch(Bytes& bytes)
      : row(bytes), linear(bytes), fourier(bytes), bank_features(bytes), banks(bytes), columns(bytes), rounded(bytes), phases(bytes), values(bytes), probabilities(bytes), mixed(bytes), combined(bytes), combination(bytes), calibrated(bytes), evidence(bytes), awake(bytes), bins(bytes), entries(bytes), pairs(bytes), related(bytes), priors(bytes) {}
  Vec<double> row;            // see Seen::row; empty if Seen::row points to the caller's array
  Vec<double> linear;         // see Seen::linear
  Vec<float> fourier;         // see Seen::fourier
  Vec<float> bank_features;   // the Fourier features of each part that uses another bank than bank 0, one part after the other
  Vec<const float*> banks;    // where the features of bank 1, 2 ... begin in bank_features
  Vec<double> columns;  // the standardised columns
  Vec<float> rounded, phases;  // see FourierFeatures::features()
  Vec<double> values, probabilities;  // margins and class probabilities of the beliefs that are awake
  Vec<double> mixed;  // margins of the mixture
  Vec<double> combined;  // margins of the average of the mixture and the combination, before calibration
  Vec<double> combination;  // working memory of the combination
  Vec<double> calibrated;  // working memory of the calibration
  Vec<double> evidence;  // see Seen::evidence and Seen::bin_evidence
  Vec<std::size_t> awake;  // the beliefs that see the example, in the order of `values` and `probabilities`
  Vec<std::uint8_t> bins;  // see Seen::bins
  Vec<TableEntry> entries;  // the non-zeros of a sparse row, and the constant
  Vec<PairEntry> pairs;  // pairs of these non-zeros
  Vec<Related> related;  // see Seen::related
  Vec<double> priors;  // rows of tasks without a stored row, see TaskRows::find()
  Seen seen;  // the current example; it points to the arrays above
};

class Budgetron final : public Learner {
 public:
  explicit Budgetron(const Config& config);

  State query(const Query& query) override;
  void forget(std::int64_t id) override {
    rows_.forget(id);
    for (const auto& part : parts_) part->forget(id);
  }
  void end_reserve() noexcept override;
  void task_weights(Task, double*) const override {}
  void coefficients(double*) const override {}

 protected:
  void size_scratch(Scratch& s) const override;
  void score(const Instance& x, Task task, Scratch& s) const override;
  std::uint8_t update(const Example& example, Scratch& s) override;

  void grow(std::size_t) override {}
  bool stores() const override { return false; }
  void slot_removed(std::size_t, std::size_t) override {}

  bool rule_grows_little(std::size_t n, const std::int64_t* ids) const override {
    return rows_.limited() || rows_.count_missing(0, n, ids, ids) <= std::max<std::size_t>(64, rows_.size());
  }
  void reserve_rule(const Rows& rows, std::size_t from, std::size_t to, const std::int64_t* ids, const std::int64_t* clusters) override;

  void save_rule(State& state) override;
  void load_rule(const State& state) override;

 private:
  using Working = BudgetronScratch;

  // A part is idle while its weight is negligible. A part that has been idle for long sleeps: it sees only one example in kWakeEvery. This saves
  // time, and is enough to regain weight. sleeps_after() chooses one of the three limits.
  static constexpr std::int64_t kSleepAfter = 2500, kSleepSoon = 500, kSleepSoonIfSlow = 1000, kWakeEvery = 8;

  static constexpr std::size_t kShortEntries = static_cast<std::size_t>(kShortRow) + 1;  // one more, for the constant

  std::size_t outputs() const { return config_.n_outputs; }
  bool has_columns() const { return !config_.sparse || columns_ > 0; }  // whether there are parts for dense rows
  std::size_t n_beliefs() const {
    std::size_t sum = 0;
    for (const auto& part : parts_) sum += part->count();
    return sum;
  }

  // The number of idle examples after which part p sleeps. Unless the combination is worse than the mixture, idle parts may contribute to it, so
  // only parts with Fourier features sleep, because they take the most time. Otherwise idle parts hardly change a prediction, and all of them sleep
  // much sooner. If tasks share no weights, 500 examples may be few for each task, so no part sleeps sooner. Parts that stay never sleep.
  std::int64_t sleeps_after(std::size_t p) const {
    const Part& part = *parts_[p];
    constexpr std::int64_t never = INT64_MAX;
    if (part.stays()) return never;
    if (combination_.is_no_worse() || !has_shared_) return part.frequencies() > 0 ? kSleepAfter : never;
    return part.learns_slowly() ? kSleepSoonIfSlow : kSleepSoon;
  }
  bool is_awake(std::size_t p) const { return idle_[p] < sleeps_after(p) || n_seen_ % kWakeEvery == 0; }

  // ---- budgetron.cpp

  template <class PartType, class... Arguments>
  void add_part(Arguments&&... arguments);
  void make_parts(const Config& config);
  void make_dense_parts(const Config& config);
  void size_features(Working& work, std::size_t frequencies) const;
  std::size_t bank_width(std::size_t p) const { return parts_[p]->bank() ? 2 * parts_[p]->frequencies() : 0; }
  std::size_t bank_widths() const;
  const double* find_row(const Instance& x, Working& work) const;
  void find_features(const double* row, Working& work) const;
  bool apply_lapses(Working& work) const;

  // ---- sizes.cpp

  std::size_t frequencies_in_use() const;
  // Finds the part that has been idle longest among those that may be dropped. If it has been idle for at least kDropAfter examples, drops it and
  // returns true.
  bool drop_idle();
  void drop_part(std::size_t p);
  void use_bytes_when_due(bool dropped);
  void use_bytes();
  void grow_kind(Kind kind, const Part& favoured, double compared_weight);
  void reclaim_frequencies();
  std::size_t frequency_bytes() const;
  std::size_t cost(const Part& part, std::size_t frequencies) const;
  std::size_t affordable(const Part& part, std::size_t wanted) const;
  void grow(Part& part, std::size_t frequencies);

  // ---- answers.cpp

  void add_variances(Scratch& s, std::vector<double>& out) const;
  std::vector<double> lapse_factors(const Working& work) const;
  std::vector<double> coefficients(const Working& work) const;
  std::vector<std::size_t> places_of_terms(const Part& part, const Instance& x, std::size_t n) const;
  void add_terms(const Seen& e, const Working& work, const std::vector<double>& factors, std::size_t n, std::vector<double>& columns, std::vector<double>& fourier) const;
  void add_linear_weights(Scratch& s, std::vector<double>& out) const;
  State explain(const Query& query) const;

  Vec<std::int32_t> frequent_;  // sparse rows: the columns that parts for dense rows see, ascending
  bool has_shared_;             // whether there are weights that all tasks share
  bool has_bins_;               // whether there are beliefs on binned columns
  std::size_t longest_with_pairs_;  // sparse rows: the largest number of features of a row with pairs; 0: no pairs
  std::size_t columns_;         // how many columns the parts for dense rows see
  Scaler scaler_;
  FourierFeatures fourier_;
  TaskRows rows_;
  Mixture mixture_;
  Combination combination_;
  Calibration calibration_;
  Parts parts_;
  Vec<std::int64_t> index_;  // per part: its index among the parts that the model began with
  Vec<std::int64_t> idle_;   // per part: for how many examples in a row it has had negligible weight
  std::size_t spare_ = 0;  // bytes of dropped parts, and of frequencies that parts have given up, that nothing else uses yet
};

}  // namespace budgetron
