// Budgetron: how one example is scored and learned.
//
// An example has a row x, a task i, a label y and a weight omega.
//
//   1  Compute the features of x, and find the rows of the tasks related to i.
//   2  Compute the margins f_b of every belief, their mixture, and their combination. The margin of the model is the calibrated average of the
//      mixture and the combination. The example is a mistake if this margin does not predict y. An example of weight 0 ends here.
//   3  Update the weights of the beliefs, the combination and the calibration from these margins.
//   4  Update every part. Drop a part that has had negligible weight for long, and let parts of large weight grow. Update the scaler.
//
// Parts that are asleep (budgetron.hpp) neither predict nor learn the example.
//
// Only the parts know how a belief predicts, how it learns and what it stores per task (part.hpp). The order of the steps matters: step 3 needs
// margins of parts that have not learned the example yet, and step 4 may drop beliefs.
#include "rules/budgetron/budgetron.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "learner/registry.hpp"
#include "rules/budgetron/parts/bins.hpp"
#include "rules/budgetron/parts/filter.hpp"
#include "rules/budgetron/parts/fourier_adagrad.hpp"
#include "rules/budgetron/parts/latent.hpp"

namespace budgetron {

Budgetron::Budgetron(const Config& config)
    : Learner(config),
      frequent_(bytes_),
      has_shared_(config.parameters.flag("shared", true)),
      has_bins_(config.parameters.count("bins", 0) > 0),
      longest_with_pairs_(config.parameters.count("pairs", 0)),
      columns_(config.sparse ? config.parameters.array("frequent_columns").size() : config.d),
      scaler_(bytes_, columns_),
      fourier_(bytes_, columns_, config.parameters.real("bandwidth", 1.0), config.parameters.array("bandwidths")),
      rows_(bytes_, config),
      mixture_(bytes_, 1),
      combination_(bytes_, 1, config.n_outputs),
      calibration_(bytes_, config.n_outputs),
      parts_(bytes_),
      index_(bytes_),
      idle_(bytes_) {
  for (const double column : config.parameters.array("frequent_columns")) frequent_.push_back(static_cast<std::int32_t>(column));
  make_parts(config);
  mixture_ = Mixture(bytes_, n_beliefs());
  combination_ = Combination(bytes_, n_beliefs(), outputs());
  rows_.lay_out(parts_);
  fourier_.resize(frequencies_in_use());
  size_all(scratch());
}

template <class PartType, class... Arguments>
void Budgetron::add_part(Arguments&&... arguments) {
  parts_.push_back(std::make_unique<PartType>(bytes_, std::forward<Arguments>(arguments)...));
  parts_.back()->object_bytes = sizeof(PartType);
  bytes_.used += sizeof(PartType);
  index_.push_back(static_cast<std::int64_t>(index_.size()));
  idle_.push_back(0);
}

void Budgetron::make_parts(const Config& config) {
  if (has_columns()) make_dense_parts(config);
  if (config_.sparse)
    add_part<HashedTable>(config.parameters.array("table_rates"), config.parameters.array("keeps"), config.parameters.array("signs"), outputs(), config.parameters.count("cells", 1), config.parameters.count("pairs", 0), config_.single,
                          config.parameters.flag("shared", true), config.parameters.flag("own", true));
}

void Budgetron::make_dense_parts(const Config& config) {
  const std::vector<double> rates = config.parameters.array("rates"), filters = config.parameters.array("filters");
  const bool shared = config.parameters.flag("shared", true), own = config.parameters.flag("own", true), full_covariance = config.parameters.flag("full_covariance", true);
  const std::size_t columns = columns_ + 1, rank = config.parameters.count("latent", 0);
  const std::size_t none = std::size_t{1} << 20, fourier_filter = config.parameters.count("fourier_filter", none);
  const std::size_t plain_filter = config.parameters.count("plain_filter", none), cells = config.parameters.count("fourier_cells", 0), short_rows = config.parameters.count("short_rows", 0);
  const std::size_t limit = config.parameters.count("max_filter_frequencies", 0);
  const std::vector<double> filter_rates = config.parameters.array("filter_rates"), lapses = config.parameters.array("filter_lapses");
  // `filters` has three numbers per filter: prior, own and floor (see FilterBelief). Each bank of Fourier features has its own bandwidths
  // (features/fourier_features.hpp). From index `fourier_filter` on, one filter per bank sees the features of that bank. `none` is an index that no
  // filter has.
  for (std::size_t k = 0; 3 * k < filters.size(); ++k) {
    const bool sees_fourier = fourier_filter != none && k >= fourier_filter && k < fourier_filter + fourier_.banks();
    const std::size_t bank = sees_fourier ? k - fourier_filter : 0;
    const bool expects_different_tasks = filters[3 * k + 1] > 1 && k != plain_filter;
    const std::size_t frequencies = sees_fourier && shared ? config.parameters.count(bank ? "bank_frequencies" : "filter_frequencies", 0) : 0;
    add_part<Filter>("filter" + std::to_string(k), FilterBelief{filters[3 * k], filters[3 * k + 1], filters[3 * k + 2], k < filter_rates.size() ? filter_rates[k] : 0.0, k < lapses.size() ? lapses[k] : 0.0},
                     Filter::Shape{outputs(), columns, frequencies, frequencies ? limit : 0, full_covariance, shared, own, sees_fourier ? cells : 0, k == plain_filter, bank, expects_different_tasks && !sees_fourier ? short_rows : 0});
  }
  if (rank && shared && own) add_part<Latent>(rank, outputs(), columns, full_covariance);
  const std::vector<double> owns = config.parameters.array("owns");
  for (std::size_t k = 0; k < rates.size(); ++k)
    add_part<FourierAdaGrad>("adagrad" + std::to_string(k), rates[k], owns.at(k), outputs(), columns, config.parameters.count("frequencies", 0), config.parameters.count("max_frequencies", 0), shared,
                          own ? config.parameters.count("own_cells", 0) : 0);
  if (const std::size_t edges = config.parameters.count("bins", 0))
    add_part<BinnedColumns>(BinnedColumns::Shape{columns_, outputs(), edges, config.parameters.flag("bin_pairs", false), config.parameters.count("bin_cells", 0)});
}

// ---- one example

// Returns the columns of x that parts for dense rows see.
const double* Budgetron::find_row(const Instance& x, Working& work) const {
  if (!config_.sparse) {
    if (!config_.single) return x.rows->dense_f64 + x.at * columns_;
    std::copy_n(x.rows->dense_f32 + x.at * columns_, columns_, work.row.data());
    return work.row.data();
  }
  // The columns of a row and the frequent columns are both in ascending order.
  const Rows& rows = *x.rows;
  std::int64_t entry = rows.indptr[x.at];
  const std::int64_t end = rows.indptr[x.at + 1];
  for (std::size_t j = 0; j < columns_; ++j) {
    while (entry < end && rows.indices[entry] < frequent_[j]) ++entry;
    const bool found = entry < end && rows.indices[entry] == frequent_[j];
    work.row[j] = !found ? 0.0 : config_.single ? static_cast<double>(rows.data_f32[entry]) : rows.data_f64[entry];
  }
  return work.row.data();
}

void Budgetron::find_features(const double* row, Working& work) const {
  double* z = work.columns.data();
  scaler_.features(row, z);
  const double sqrt_d = std::sqrt(static_cast<double>(columns_));
  for (std::size_t j = 0; j < columns_; ++j) work.linear[j] = z[j] / sqrt_d;
  work.linear[columns_] = 1.0;
  bool fourier_needed = false;
  for (std::size_t p = 0; p < parts_.size(); ++p) fourier_needed = fourier_needed || (parts_[p]->frequencies() && is_awake(p));
  if (!fourier_needed) return;
  fourier_.features(z, work.rounded.data(), work.phases.data(), work.fourier.data());
  float* begin = work.bank_features.data();
  for (std::size_t p = 0; p < parts_.size(); begin += bank_width(p++)) {
    const std::size_t bank = parts_[p]->bank();
    if (bank == 0 || !is_awake(p)) continue;
    work.banks[bank - 1] = begin;
    fourier_.features_of_bank(bank, work.phases.data(), parts_[p]->frequencies(), begin);
  }
}

void Budgetron::score(const Instance& x, Task task, Scratch& s) const {
  auto& work = s.rule_scratch<Working>();
  const double* row = has_columns() ? find_row(x, work) : nullptr;
  if (row) find_features(row, work);
  work.seen = Seen{x, task.id, row, work.linear.data(), work.fourier.data(), work.banks.data(), nullptr, work.related.data(), 0, &work.entries, &work.pairs, work.evidence.data(), work.bins.data(), work.evidence.data() + outputs()};
  rows_.find_related(task, work.related.data(), work.seen.n_related);
  rows_.find(task, parts_, work.related.data(), work.priors.data(), work.seen);
  work.awake.clear();
  std::size_t b = 0;
  for (std::size_t p = 0; p < parts_.size(); b += parts_[p++]->count()) {
    if (!is_awake(p)) continue;
    parts_[p]->margins(work.seen, work.values.data() + work.awake.size() * outputs());
    for (std::size_t k = 0; k < parts_[p]->count(); ++k) work.awake.push_back(b + k);
  }
  // An offset is the score of another model. It is added to the margin of every belief, so that beliefs learn only what the offset does not explain.
  for (std::size_t k = 0; x.rows->offsets && k < work.awake.size() * outputs(); ++k) work.values[k] += x.rows->offsets[x.at * outputs() + k % outputs()];
  Mixture::probabilities(work.values.data(), work.awake.size(), outputs(), work.probabilities.data());
  const bool lapses = apply_lapses(work);
  mixture_.margins(lapses ? nullptr : work.values.data(), work.probabilities.data(), work.awake, outputs(), work.mixed.data());
  combination_.margins(work.probabilities.data(), work.awake, work.mixed.data(), work.combination.data(), work.combined.data());
  calibration_.margins(work.combined.data(), work.calibrated.data(), s.margins.data());
}

// Changes the probabilities of beliefs that assume that some labels are random. Returns whether any such belief is awake.
// Such beliefs exist only with two classes.
bool Budgetron::apply_lapses(Working& work) const {
  bool any = false;
  double* probabilities = work.probabilities.data();
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (!is_awake(p)) continue;
    const double lapse = parts_[p]->lapse();
    if (lapse > 0) {
      any = true;
      for (std::size_t k = 0; k < 2 * parts_[p]->count(); ++k) probabilities[k] = with_lapse(probabilities[k], lapse, 2);
    }
    probabilities += parts_[p]->count() * std::max<std::size_t>(2, outputs());
  }
  return any;
}

// Example weights are limited to this value, so that products stay finite. The limit changes little, because the margin after a step
// grows only with the logarithm of so large a weight (steps.hpp).
constexpr double kMaxWeight = 1e9;

std::uint8_t Budgetron::update(const Example& example, Scratch& s) {
  auto& work = s.rule_scratch<Working>();
  Step direction;
  std::uint8_t flags = mistaken(example, s, direction) ? kMistake : 0;
  if (example.weight == 0) return flags;
  const double omega = std::min(example.weight, kMaxWeight);
  rows_.add_missing(example.task, parts_, work.related.data(), work.seen, n_seen_);
  calibration_.learn(work.combined.data(), work.calibrated.data(), example.label, omega);
  combination_.learn(work.awake, work.combination.data(), example.label, omega);
  mixture_.learn(work.probabilities.data(), work.awake, outputs(), example.label, omega);
  const double* f = work.values.data();
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (!is_awake(p)) continue;
    if (parts_[p]->learn(work.seen, f, example.label, omega)) flags |= kUpdated;
    f += parts_[p]->count() * outputs();
  }
  rows_.end_missing(example.task, parts_, work.related.data(), work.priors, work.seen);
  use_bytes_when_due(drop_idle());
  if (has_columns()) scaler_.learn(work.seen.row);
  return flags;
}

// ---- working memory

void Budgetron::size_features(Working& work, std::size_t frequencies) const {
  resize_exactly(work.fourier, 2 * frequencies);
  resize_exactly(work.phases, frequencies);
}

std::size_t Budgetron::bank_widths() const {
  std::size_t sum = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) sum += bank_width(p);
  return sum;
}

void Budgetron::size_scratch(Scratch& s) const {
  auto& work = s.rule_scratch<Working>();
  work.row.resize(config_.sparse || config_.single ? columns_ : 0);
  work.columns.resize(columns_);
  work.linear.resize(has_columns() ? columns_ + 1 : 0);
  work.rounded.resize(columns_);
  size_features(work, fourier_.count());
  resize_exactly(work.bank_features, bank_widths());
  work.banks.resize(fourier_.banks() - 1);
  work.values.resize(n_beliefs() * outputs());
  work.probabilities.resize(n_beliefs() * std::max<std::size_t>(2, outputs()));
  work.mixed.resize(outputs());
  work.combined.resize(outputs());
  work.combination.resize(Combination::scratch_size(n_beliefs(), outputs()));
  work.calibrated.resize(Calibration::scratch_size(outputs()));
  work.evidence.resize(2 * outputs());
  work.awake.reserve(n_beliefs());
  work.bins.resize(has_bins_ ? columns_ : 0);
  if (config_.sparse) work.entries.reserve(kShortEntries);  // reserve_rule() allocates more for longer rows
  work.pairs.reserve(Pairs::most(longest_with_pairs_));
  work.related.resize(rows_.max_related());
  work.priors.resize((rows_.max_related() + 1) * rows_.width());
}

void Budgetron::reserve_rule(const Rows& rows, std::size_t from, std::size_t to, const std::int64_t* ids, const std::int64_t* clusters) {
  rows_.reserve(rows_.count_missing(from, to, ids, clusters));
  if (!config_.sparse) return;
  std::int64_t longest = 0;
  for (std::size_t i = from; i < to; ++i) longest = std::max(longest, rows.indptr[i + 1] - rows.indptr[i]);
  scratch().rule_scratch<Working>().entries.reserve(static_cast<std::size_t>(longest) + 1);
}

void Budgetron::end_reserve() noexcept {
  rows_.end_reserve();
  Vec<TableEntry>& entries = scratch().rule_scratch<Working>().entries;
  if (entries.capacity() <= kShortEntries) return;
  try {  // frees the space for a long row, unless there is no memory for the smaller array that replaces it
    Vec<TableEntry> smaller(bytes_);
    smaller.reserve(kShortEntries);
    entries.swap(smaller);
  } catch (const std::bad_alloc&) {
  }
}

namespace {
const Registered registered("budgetron",
                            {"shared", "own", "clustered", "cluster_share", "filters", "filter_rates", "filter_lapses", "fourier_filter", "fourier_cells", "short_rows", "plain_filter", "full_covariance", "filter_frequencies", "frequencies",
                             "bandwidth", "bandwidths", "bank_frequencies", "latent", "rates", "owns", "frequent_columns", "first_rows", "limit", "rows_beyond_limit", "table_rates", "keeps", "signs", "own_cells", "cells", "pairs", "max_task_rows", "max_frequencies", "max_filter_frequencies", "rows_may_grow", "bins", "bin_pairs", "bin_cells"},
                            make_counted<Budgetron>);

}  // namespace

}  // namespace budgetron
