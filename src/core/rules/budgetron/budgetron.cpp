// Budgetron: features, margins of every belief, their mixture, and the update, one example (x, i, y, omega) at a time.
//
//   1  features of x, and the rows of the tasks related to i
//   2  f_b of every belief; the margin is that of the mixture; a mistake is a lead of the true class <= 0. omega = 0 ends here
//   3  the weights of the beliefs; a part without weight is dropped
//   4  every part learns; the columns are counted
//
// What a belief is, how it learns and what it keeps of a task is known to the parts alone (part.hpp).
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "rules/budgetron/filter.hpp"
#include "rules/budgetron/latent.hpp"
#include "rules/budgetron/mixture.hpp"
#include "rules/budgetron/scaler.hpp"
#include "rules/budgetron/table.hpp"
#include "rules/budgetron/wave_adagrad.hpp"
#include "rules/budgetron/waves.hpp"
#include "rules/registry.hpp"
#include "stores/row_table.hpp"

namespace budgetron {

namespace {

constexpr std::size_t kKeptEntries = 64;  // features of a sparse row that there is always room for; longer rows allocate temporarily

struct Working : RuleScratch {
  explicit Working(Bytes& bytes)
      : features(bytes), columns(bytes), phases(bytes), values(bytes), logs(bytes), evidence(bytes), entries(bytes), related(bytes), priors(bytes) {}
  Vec<double> features, columns, phases, values, logs, evidence;
  Vec<TableEntry> entries;
  Vec<Related> related;
  Vec<double> priors;  // rows of tasks that have none yet
  Seen seen;
};

class Budgetron final : public Learner {
 public:
  explicit Budgetron(const Config& config)
      : Learner(config),
        factor_(dynamic_cast<const Factored*>(config.similarity.get())),
        clustered_(config.parameters.flag("clustered", false)),
        cluster_share_(config.parameters.real("cluster_share", 0.5)),
        scaler_(bytes_, config.sparse ? 0 : config.d),
        waves_(bytes_, config.sparse ? 0 : config.d, config.sparse ? 0 : config_.parameters.count("waves", 0), config_.parameters.real("bandwidth", 1.0)),
        rows_(bytes_, 0, config_.parameters.count("max_task_rows", 0), config.hash_seed),
        mixture_(bytes_, 1),
        parts_(bytes_),
        index_(bytes_),
        idle_(bytes_) {
    make_parts();
    mixture_ = Mixture(bytes_, n_beliefs());
    lay_out();
    rows_.widen(row_width_);
    size_all(scratch());
  }

  State query(const Query& query) override {
    State answer;
    if (query.name == "beliefs") {
      for (std::size_t p = 0, b = 0; p < parts_.size(); ++p)
        for (std::size_t k = 0; k < parts_[p]->count(); ++k, ++b) {
          answer.integers["part"].push_back(index_[p]);
          answer.integers["belief"].push_back(static_cast<std::int64_t>(k));
          answer.reals["weight"].push_back(mixture_.weights[b]);
        }
      return answer;
    }
    if (query.name == "variances") {
      auto& out = answer.reals["variance"];
      score_each(query, [&](std::size_t, const Instance&, Scratch& s) { add_variances(s, out); });
      return answer;
    }
    if (query.name == "linear_weights") {
      auto& out = answer.reals["weights"];
      score_each(query, [&](std::size_t, const Instance&, Scratch& s) { add_linear_weights(s, out); });
      return answer;
    }
    return Learner::query(query);
  }

  void forget(std::int64_t id) override {
    const auto row = rows_.find({id, false});
    if (row != RowTable::kNone) rows_.drop(row);
    rows_.end_reserve();
  }

  void end_reserve() noexcept override {
    rows_.end_reserve();
    Vec<TableEntry>& entries = scratch().made<Working>().entries;
    if (entries.capacity() > kKeptEntries) release(entries);  // a long row leaves nothing behind
  }

  void task_weights(Task, double*) const override {}
  void coefficients(double*) const override {}

 protected:
  void size_scratch(Scratch& s) const override {
    auto& own = s.made<Working>();
    own.features.resize(config_.sparse ? 0 : config_.d + 1 + 2 * waves_.count());
    own.columns.resize(config_.sparse ? 0 : config_.d);
    own.phases.resize(waves_.count());
    own.values.resize(n_beliefs() * outputs());
    own.logs.resize(n_beliefs() * std::max<std::size_t>(2, outputs()));
    own.evidence.resize(outputs());
    if (config_.sparse) own.entries.reserve(kKeptEntries);
    own.related.resize(most_related());
    own.priors.resize((most_related() + 1) * row_width_);
  }

  void score(const Instance& x, Task task, Scratch& s) const override {
    auto& own = s.made<Working>();
    if (!config_.sparse) find_features(x, own);
    own.seen = Seen{x, task.key, own.features.data(), nullptr, own.related.data(), 0, &own.entries, own.evidence.data()};
    find_related(task, own.related.data(), own.seen.n_related);
    find_rows(task, own);
    std::size_t b = 0;
    for (const auto& part : parts_) {
      part->margins(own.seen, own.values.data() + b * outputs());
      b += part->count();
    }
    Mixture::logs(own.values.data(), n_beliefs(), outputs(), own.logs.data());
    mixture_.margins(own.values.data(), own.logs.data(), outputs(), s.margins.data());
  }

  std::uint8_t absorb(const Example& example, Scratch& s) override {
    auto& own = s.made<Working>();
    Step direction;
    std::uint8_t flags = mistaken(example, s, direction) ? kMistake : 0;
    if (example.weight == 0) return flags;
    const double omega = std::min(example.weight, kHeaviest);
    make_rows(example.task, own);
    mixture_.learn(own.logs.data(), outputs(), example.label, omega);
    std::size_t b = 0;
    for (const auto& part : parts_) {
      if (part->learn(own.seen, own.values.data() + b * outputs(), example.label, omega)) flags |= kUpdated;
      b += part->count();
    }
    use_waves();
    drop_idle();
    if (!config_.sparse) with_row(example.x, [&](const auto* x) { scaler_.learn(x); });
    return flags;
  }

  void grow(std::size_t) override {}
  bool stores() const override { return false; }
  void slot_removed(std::size_t, std::size_t) override {}

  bool rule_grows_little(std::size_t n, const std::int64_t* ids) const override {
    return rows_.limited() || missing_rows(0, n, ids, ids) <= std::max<std::size_t>(64, rows_.size());
  }
  void reserve_rule(const Rows& rows, std::size_t from, std::size_t to, const std::int64_t* ids, const std::int64_t* clusters) override {
    rows_.reserve(missing_rows(from, to, ids, clusters));
    if (!config_.sparse) return;
    std::int64_t longest = 0;
    for (std::size_t i = from; i < to; ++i) longest = std::max(longest, rows.indptr[i + 1] - rows.indptr[i]);
    scratch().made<Working>().entries.reserve(static_cast<std::size_t>(longest));
  }

  void save_rule(State& state) override;
  void load_rule(const State& state) override;

 private:
  // Larger weights count as this one. A step already ends just past the boundary, and products with it stay finite.
  static constexpr double kHeaviest = 1e9;
  static constexpr double kNegligible = 0.01;     // a part whose beliefs together have less weight is idle
  static constexpr std::int64_t kPatience = 5000;  // steps until an idle part is dropped

  std::size_t outputs() const { return config_.n_outputs; }
  std::size_t n_beliefs() const {
    std::size_t sum = 0;
    for (const auto& part : parts_) sum += part->count();
    return sum;
  }

  // ---- parts

  template <class Made, class... Given>
  void add_part(Given&&... given) {
    parts_.push_back(std::make_unique<Made>(bytes_, std::forward<Given>(given)...));
    parts_.back()->object_bytes = sizeof(Made);
    bytes_.used += sizeof(Made);
    index_.push_back(static_cast<std::int64_t>(index_.size()));
    idle_.push_back(0);
  }

  void make_parts() {
    const std::vector<double> rates = config_.parameters.array("rates"), filters = config_.parameters.array("filters");
    const bool shared = config_.parameters.flag("shared", true), own = config_.parameters.flag("own", true), whole = config_.parameters.flag("whole", true);
    const std::size_t columns = config_.d + 1, rank = config_.parameters.count("latent", 0);
    if (config_.sparse) {
      add_part<HashedTable>(rates, config_.parameters.array("signs"), outputs(), config_.parameters.count("cells", 1), config_.single, shared, own);
      return;
    }
    const std::size_t none = std::size_t{1} << 20, wave_filter = config_.parameters.count("wave_filter", none);
    const std::size_t plain_filter = config_.parameters.count("plain_filter", none), cells = config_.parameters.count("wave_cells", 0);
    for (std::size_t k = 0; 3 * k < filters.size(); ++k) {
      const std::size_t waves = k == wave_filter && shared ? config_.parameters.count("whole_waves", 0) : 0;
      add_part<Filter>("filter" + std::to_string(k), FilterBelief{filters[3 * k], filters[3 * k + 1], filters[3 * k + 2]},
                       Filter::Shape{outputs(), columns, waves, whole, shared, own, k == wave_filter ? cells : 0, k == plain_filter});
    }
    if (rank && shared && own) add_part<Latent>(rank, outputs(), columns, whole);
    if (!rates.empty()) add_part<WaveAdaGrad>(rates, config_.parameters.array("owns"), outputs(), columns, waves_.count(), shared, own ? config_.parameters.count("own_cells", 0) : 0);
  }

  // Gives every part its place in the row of a task.
  void lay_out() {
    row_width_ = 0;
    for (const auto& part : parts_) {
      part->at = row_width_;
      row_width_ += part->row_width();
    }
  }

  // Lets a filter use all of its waves, once it has a fifth of the weight. It is decided when 16, 32, 64 ... examples have
  // been learned: on a stream that a linear model describes, most waves of a filter are never used, and cost nothing.
  void use_waves() {
    const std::int64_t seen = n_seen_ + 1;
    if (seen < 16 || (seen & (seen - 1)) != 0) return;
    std::size_t b = 0;
    for (const auto& part : parts_) {
      if (part->curved() && mixture_.weight_of(b, part->count()) >= 0.2) part->use_all_waves();
      b += part->count();
    }
  }

  void drop_idle() {
    std::size_t b = 0, longest = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      idle_[p] = mixture_.weight_of(b, parts_[p]->count()) < kNegligible ? idle_[p] + 1 : 0;
      b += parts_[p]->count();
      if (idle_[p] > idle_[longest]) longest = p;
    }
    if (idle_[longest] >= kPatience) drop_part(longest);
  }

  void drop_part(std::size_t p) {
    std::size_t b = 0;
    for (std::size_t q = 0; q < p; ++q) b += parts_[q]->count();
    mixture_.drop(b, parts_[p]->count());
    const std::size_t at = parts_[p]->at, width = parts_[p]->row_width(), before = row_width_;
    const auto place = static_cast<std::ptrdiff_t>(p);
    bytes_.used -= parts_[p]->object_bytes;
    parts_.erase(parts_.begin() + place);
    index_.erase(index_.begin() + place);
    idle_.erase(idle_.begin() + place);
    lay_out();
    if (width) rows_.narrow(row_width_, [&](double* row) { std::copy(row + at + width, row + before, row + at); });
  }

  // ---- features and rows of one example

  template <class Use>
  void with_row(const Instance& x, Use use) const {
    if (config_.single)
      use(x.rows->dense_f32 + x.at * config_.d);
    else
      use(x.rows->dense_f64 + x.at * config_.d);
  }

  void find_features(const Instance& x, Working& own) const {
    double* z = own.columns.data();
    with_row(x, [&](const auto* row) { scaler_.features(row, z); });
    const double root = std::sqrt(static_cast<double>(config_.d));
    for (std::size_t j = 0; j < config_.d; ++j) own.features[j] = z[j] / root;
    own.features[config_.d] = 1.0;
    if (waves_.count()) waves_.features(z, own.phases.data(), own.features.data() + config_.d + 1);
  }

  std::size_t most_related() const { return factor_ ? factor_->longest_row() : clustered_ ? 2 : 1; }

  // Coefficients and ids of the tasks whose own weights this task uses.
  void find_related(Task task, Related* out, std::size_t& n) const {
    n = 0;
    if (factor_) {
      const auto id = static_cast<std::size_t>(task.key);
      for (auto k = static_cast<std::size_t>(factor_->starts[id]); k < static_cast<std::size_t>(factor_->starts[id + 1]); ++k)
        out[n++] = {factor_->values[k], factor_->tasks[k], nullptr};
      return;
    }
    if (clustered_) out[n++] = {std::sqrt(cluster_share_), task.cluster, nullptr};
    out[n++] = {clustered_ ? std::sqrt(1.0 - cluster_share_) : 1.0, task.key, nullptr};
  }
  RowTable::Name name_of(std::size_t related, const Seen& e) const { return {e.related[related].id, clustered_ && related == 0}; }

  // The rows of a new example; those that do not exist are filled with the prior in working memory. Scoring only reads the
  // rows; learning writes to them through the same pointers, which is why const is cast away here and nowhere else.
  void find_rows(Task task, Working& own) const {
    if (row_width_ == 0) return;
    std::size_t missing = 0;
    const auto find = [&](RowTable::Name name) {
      const auto at = rows_.find(name);
      if (at != RowTable::kNone) return const_cast<double*>(rows_.values(at));
      double* row = own.priors.data() + missing++ * row_width_;
      for (const auto& part : parts_) part->begin_row(row, name.id);
      return row;
    };
    for (std::size_t j = 0; j < own.seen.n_related; ++j) {
      own.related[j].row = find(name_of(j, own.seen));
      if (own.related[j].id == task.key && !name_of(j, own.seen).common) own.seen.mine = own.related[j].row;
    }
    if (!own.seen.mine) own.seen.mine = find({task.key, false});
  }

  // Makes the rows that do not exist, before learning, and marks all as recently updated: first those that exist, so that
  // none of them makes room for another.
  void make_rows(Task task, Working& own) {
    if (row_width_ == 0) return;
    const auto each = [&](auto use) {
      bool mine = false;
      for (std::size_t j = 0; j < own.seen.n_related; ++j) {
        const RowTable::Name name = name_of(j, own.seen);
        mine |= name.id == task.key && !name.common;
        use(name);
      }
      if (!mine) use(RowTable::Name{task.key, false});
    };
    each([&](RowTable::Name name) {
      const auto at = rows_.find(name);
      if (at != RowTable::kNone) rows_.touch(at, n_seen_);
    });
    each([&](RowTable::Name name) {
      if (rows_.find(name) != RowTable::kNone) return;
      if (rows_.at_limit()) rows_.drop(rows_.oldest());
      const auto at = rows_.add(name, 0);
      for (const auto& part : parts_) part->begin_row(rows_.values(at), name.id);
      rows_.touch(at, n_seen_);
    });
    own.seen.mine = nullptr;
    find_rows(task, own);
  }

  // Rows that learning these examples adds at most.
  std::size_t missing_rows(std::size_t from, std::size_t to, const std::int64_t* ids, const std::int64_t* clusters) const {
    if (row_width_ == 0) return 0;
    Bytes passing;
    Vec<std::int64_t> absent(passing), absent_clusters(passing);
    Vec<Related> related(passing, most_related());
    for (std::size_t i = from; i < to; ++i) {
      std::size_t n = 0;
      find_related({ids[i], clusters[i]}, related.data(), n);
      for (std::size_t j = 0; j < n; ++j) {
        const bool common = clustered_ && j == 0;
        if (rows_.find({related[j].id, common}) == RowTable::kNone) (common ? absent_clusters : absent).push_back(related[j].id);
      }
      if (rows_.find({ids[i], false}) == RowTable::kNone) absent.push_back(ids[i]);
    }
    return count_distinct(absent) + count_distinct(absent_clusters);
  }

  // ---- answers

  // Of the mixture: sum_b w_b (V_b + f_b^2) - (sum_b w_b f_b)^2, one number per output.
  void add_variances(Scratch& s, std::vector<double>& out) {
    auto& own = s.made<Working>();
    std::vector<double> v(n_beliefs());
    std::size_t b = 0;
    for (const auto& part : parts_) {
      part->variances(own.seen, v.data() + b);
      b += part->count();
    }
    for (std::size_t o = 0; o < outputs(); ++o) {
      double mean = 0, square = 0;
      for (b = 0; b < v.size(); ++b) {
        const double f = own.values[b * outputs() + o];
        mean += mixture_.weights[b] * f;
        square += mixture_.weights[b] * (v[b] + f * f);
      }
      out.push_back(std::max(0.0, square - mean * mean));
    }
  }

  // Weights of the linear features for the task, outputs × (d + 1), averaged over the beliefs.
  void add_linear_weights(Scratch& s, std::vector<double>& out) {
    auto& own = s.made<Working>();
    const std::size_t width = config_.sparse ? 0 : outputs() * (config_.d + 1);
    std::vector<double> each(n_beliefs() * width), sum(width);
    std::size_t b = 0;
    for (const auto& part : parts_) {
      part->linear_weights(own.seen, each.data() + b * width);
      b += part->count();
    }
    for (b = 0; b < n_beliefs(); ++b)
      for (std::size_t k = 0; k < width; ++k) sum[k] += mixture_.weights[b] * each[b * width + k];
    out.insert(out.end(), sum.begin(), sum.end());
  }

  const Factored* factor_;  // of an explicit graph
  const bool clustered_;
  const double cluster_share_;  // of the variance of own weights, that which the tasks of a cluster have in common
  Scaler scaler_;
  Waves waves_;
  RowTable rows_;
  std::size_t row_width_ = 0;
  Mixture mixture_;
  Vec<std::unique_ptr<Part>> parts_;
  Vec<std::int64_t> index_;  // of each part among those that the model began with
  Vec<std::int64_t> idle_;
};

void Budgetron::save_rule(State& state) {
  state.integers["part_index"].assign(index_.begin(), index_.end());
  state.integers["part_idle"].assign(idle_.begin(), idle_.end());
  state.reals["belief_weight"].assign(mixture_.weights.begin(), mixture_.weights.end());
  for (const auto& part : parts_) part->save(state);
  if (!config_.sparse) {
    state.integers["scaler_count"] = {scaler_.count};
    state.reals["scaler_centre"].assign(scaler_.centre.begin(), scaler_.centre.end());
    state.reals["scaler_spread"].assign(scaler_.spread.begin(), scaler_.spread.end());
    state.reals["scaler_mean"].assign(scaler_.mean.begin(), scaler_.mean.end());
    state.reals["scaler_variance"].assign(scaler_.variance.begin(), scaler_.variance.end());
  }
  // In the order of their last update, oldest first.
  auto& ids = state.integers["row_id"];
  auto& common = state.integers["row_common"];
  auto& values = state.reals["row_values"];
  for (auto at = rows_.oldest(); at != RowTable::kNone; at = rows_.newer(at)) {
    ids.push_back(rows_.row(at).name.id);
    common.push_back(rows_.row(at).name.common);
    values.insert(values.end(), rows_.values(at), rows_.values(at) + row_width_);
  }
}

void Budgetron::load_rule(const State& state) {
  const auto require = [](bool holds) {
    if (!holds) throw std::invalid_argument("a saved Budgetron whose arrays do not agree in number");
  };
  const auto& index = state.integers.at("part_index");
  const auto& idle = state.integers.at("part_idle");
  for (std::size_t p = parts_.size(); p-- > 0;)
    if (std::find(index.begin(), index.end(), index_[p]) == index.end()) {
      require(parts_.size() > 1);
      drop_part(p);
    }
  const auto& weights = state.reals.at("belief_weight");
  require(index.size() == parts_.size() && idle.size() == parts_.size() && weights.size() == n_beliefs());
  std::copy(idle.begin(), idle.end(), idle_.begin());
  std::copy(weights.begin(), weights.end(), mixture_.weights.begin());
  for (const auto& part : parts_) part->load(state);
  if (!config_.sparse) {
    scaler_.count = state.integers.at("scaler_count").at(0);
    const auto copy = [&](const char* name, Vec<double>& to) {
      const auto& from = state.reals.at(name);
      require(from.size() == to.size());
      std::copy(from.begin(), from.end(), to.begin());
    };
    copy("scaler_centre", scaler_.centre);
    copy("scaler_spread", scaler_.spread);
    copy("scaler_mean", scaler_.mean);
    copy("scaler_variance", scaler_.variance);
  }
  const auto& ids = state.integers.at("row_id");
  const auto& common = state.integers.at("row_common");
  const auto& values = state.reals.at("row_values");
  require(common.size() == ids.size() && values.size() == ids.size() * row_width_);
  rows_.reserve(ids.size());
  for (std::size_t k = 0; k < ids.size(); ++k) {
    require(!rows_.at_limit() && rows_.find({ids[k], common[k] != 0}) == RowTable::kNone);
    const auto at = rows_.add({ids[k], common[k] != 0}, 0);
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(k * row_width_), row_width_, rows_.values(at));
    rows_.touch(at, n_seen_);
  }
  size_all(scratch());
}

const Registered registered("budgetron",
                            {"shared", "own", "clustered", "cluster_share", "filters", "wave_filter", "wave_cells", "plain_filter", "whole", "whole_waves", "waves",
                             "bandwidth", "latent", "rates", "owns", "signs", "own_cells", "cells", "max_task_rows"},
                            make_counted<Budgetron>);

}  // namespace

}  // namespace budgetron
