// Budgetron: features, margins of every belief, their mixture, and the update, one example (x, i, y, omega) at a time.
//
//   1  features of x, and the rows of the tasks related to i
//   2  f_b of every belief, and their mixture; the margin is that of the mixture, calibrated; a mistake is a lead of the true
//      class <= 0. omega = 0 ends here
//   3  the weights of the beliefs, and the calibration
//   4  every part learns; a part without weight is dropped, parts with weight may grow; the columns are counted
//
// What a belief is, how it learns and what it keeps of a task is known to the parts alone (part.hpp).
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "rules/budgetron/calibration.hpp"
#include "rules/budgetron/filter.hpp"
#include "rules/budgetron/latent.hpp"
#include "rules/budgetron/mixture.hpp"
#include "rules/budgetron/scaler.hpp"
#include "rules/budgetron/table.hpp"
#include "rules/budgetron/task_rows.hpp"
#include "rules/budgetron/fourier_adagrad.hpp"
#include "rules/budgetron/fourier_features.hpp"
#include "rules/registry.hpp"

namespace budgetron {

namespace {

struct Working : RuleScratch {
  explicit Working(Bytes& bytes)
      : features(bytes), columns(bytes), phases(bytes), values(bytes), logs(bytes), mixed(bytes), evidence(bytes), awake(bytes), entries(bytes), related(bytes), priors(bytes) {}
  Vec<double> features, columns, phases, values, logs;
  Vec<double> mixed;  // margins of the mixture, before calibration
  Vec<double> evidence;
  Vec<std::size_t> awake;  // the beliefs that see the example; `values` and `logs` are theirs
  Vec<TableEntry> entries;
  Vec<Related> related;
  Vec<double> priors;  // rows of tasks that have none yet
  Seen seen;
};

class Budgetron final : public Learner {
 public:
  explicit Budgetron(const Config& config)
      : Learner(config),
        scaler_(bytes_, config.sparse ? 0 : config.d),
        fourier_(bytes_, config.d, config_.parameters.real("bandwidth", 1.0)),
        rows_(bytes_, config),
        mixture_(bytes_, 1),
        calibration_(bytes_, config.n_outputs),
        parts_(bytes_),
        index_(bytes_),
        idle_(bytes_) {
    make_parts();
    mixture_ = Mixture(bytes_, n_beliefs());
    rows_.lay_out(parts_);
    fourier_.resize(frequencies_in_use());
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
    if (query.name == "explain") return explain(query);
    return Learner::query(query);
  }

  void forget(std::int64_t id) override { rows_.forget(id); }

  void end_reserve() noexcept override {
    rows_.end_reserve();
    Vec<TableEntry>& entries = scratch().made<Working>().entries;
    if (entries.capacity() <= static_cast<std::size_t>(kShortRow)) return;
    try {  // a long row leaves nothing behind, unless there is no memory for the room that short rows always have
      Vec<TableEntry> few(bytes_);
      few.reserve(static_cast<std::size_t>(kShortRow));
      entries.swap(few);
    } catch (const std::bad_alloc&) {
    }
  }

  void task_weights(Task, double*) const override {}
  void coefficients(double*) const override {}

 protected:
  void size_scratch(Scratch& s) const override {
    auto& own = s.made<Working>();
    own.columns.resize(config_.sparse ? 0 : config_.d);
    size_features(own, fourier_.count());
    own.values.resize(n_beliefs() * outputs());
    own.logs.resize(n_beliefs() * std::max<std::size_t>(2, outputs()));
    own.mixed.resize(outputs());
    own.evidence.resize(outputs());
    own.awake.reserve(n_beliefs());
    if (config_.sparse) own.entries.reserve(static_cast<std::size_t>(kShortRow));  // longer rows allocate temporarily
    own.related.resize(rows_.most_related());
    own.priors.resize((rows_.most_related() + 1) * rows_.width());
  }

  void score(const Instance& x, Task task, Scratch& s) const override {
    auto& own = s.made<Working>();
    if (!config_.sparse) find_features(x, own);
    own.seen = Seen{x, task.id, own.features.data(), nullptr, own.related.data(), 0, &own.entries, own.evidence.data()};
    rows_.find_related(task, own.related.data(), own.seen.n_related);
    rows_.find(task, parts_, own.related.data(), own.priors.data(), own.seen);
    own.awake.clear();
    std::size_t b = 0;
    for (std::size_t p = 0; p < parts_.size(); b += parts_[p++]->count()) {
      if (!is_awake(p)) continue;
      parts_[p]->margins(own.seen, own.values.data() + own.awake.size() * outputs());
      for (std::size_t k = 0; k < parts_[p]->count(); ++k) own.awake.push_back(b + k);
    }
    // Another model's score: every belief learns what it leaves to explain.
    for (std::size_t k = 0; x.rows->offsets && k < own.awake.size() * outputs(); ++k) own.values[k] += x.rows->offsets[x.at * outputs() + k % outputs()];
    Mixture::logs(own.values.data(), own.awake.size(), outputs(), own.logs.data());
    mixture_.margins(own.values.data(), own.logs.data(), own.awake, outputs(), own.mixed.data());
    calibration_.margins(own.mixed.data(), s.margins.data());
  }

  std::uint8_t absorb(const Example& example, Scratch& s) override {
    auto& own = s.made<Working>();
    Step direction;
    std::uint8_t flags = mistaken(example, s, direction) ? kMistake : 0;
    if (example.weight == 0) return flags;
    const double omega = std::min(example.weight, kHeaviest);
    rows_.make(example.task, parts_, own.seen, n_seen_);
    rows_.find(example.task, parts_, own.related.data(), own.priors.data(), own.seen);
    calibration_.learn(own.mixed.data(), s.margins.data(), example.label, omega);
    mixture_.learn(own.logs.data(), own.awake, outputs(), example.label, omega);
    const double* f = own.values.data();
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      if (!is_awake(p)) continue;
      if (parts_[p]->learn(own.seen, f, example.label, omega)) flags |= kUpdated;
      f += parts_[p]->count() * outputs();
    }
    const bool dropped = drop_idle();
    if (dropped || looks_at(n_seen_ + 1)) use_bytes();
    if (!config_.sparse) with_row(example.x, [&](const auto* x) { scaler_.learn(x); });
    return flags;
  }

  void grow(std::size_t) override {}
  bool stores() const override { return false; }
  void slot_removed(std::size_t, std::size_t) override {}

  bool rule_grows_little(std::size_t n, const std::int64_t* ids) const override {
    return rows_.limited() || rows_.missing(0, n, ids, ids) <= std::max<std::size_t>(64, rows_.size());
  }
  void reserve_rule(const Rows& rows, std::size_t from, std::size_t to, const std::int64_t* ids, const std::int64_t* clusters) override {
    rows_.reserve(rows_.missing(from, to, ids, clusters));
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
  static constexpr std::int64_t kRest = 2500;      // steps until an idle part with Fourier features rests: it sees one example in kWake
  static constexpr std::int64_t kWake = 8;
  static constexpr double kEnoughWeight = 0.9;     // of all parts with Fourier features together, so that they grow
  static constexpr std::int64_t kFirstLook = 64;
  static constexpr std::size_t kPartOverhead = 640;  // planned bytes of a part beside its arrays, without those of its steps
  static constexpr std::int64_t kReclaim = 4096;  // examples after which tasks without a row get the bytes of unused frequencies

  std::size_t outputs() const { return config_.n_outputs; }
  std::size_t n_beliefs() const {
    std::size_t sum = 0;
    for (const auto& part : parts_) sum += part->count();
    return sum;
  }

  // A part with Fourier features that has been idle for long sees few examples: time goes to where the weight is, and it can still come
  // back. Linear parts are cheap and never rest: they are the first to follow a stream that changes.
  bool is_awake(std::size_t p) const { return parts_[p]->frequencies() == 0 || idle_[p] < kRest || n_seen_ % kWake == 0; }

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
    const std::size_t none = std::size_t{1} << 20, fourier_filter = config_.parameters.count("fourier_filter", none);
    const std::size_t plain_filter = config_.parameters.count("plain_filter", none), cells = config_.parameters.count("fourier_cells", 0);
    for (std::size_t k = 0; 3 * k < filters.size(); ++k) {
      const std::size_t frequencies = k == fourier_filter && shared ? config_.parameters.count("filter_frequencies", 0) : 0;
      add_part<Filter>("filter" + std::to_string(k), FilterBelief{filters[3 * k], filters[3 * k + 1], filters[3 * k + 2]},
                       Filter::Shape{outputs(), columns, frequencies, frequencies ? config_.parameters.count("max_filter_frequencies", 0) : 0, whole, shared, own, k == fourier_filter ? cells : 0, k == plain_filter});
    }
    if (rank && shared && own) add_part<Latent>(rank, outputs(), columns, whole);
    const std::vector<double> owns = config_.parameters.array("owns");
    for (std::size_t k = 0; k < rates.size(); ++k)
      add_part<FourierAdaGrad>("adagrad" + std::to_string(k), rates[k], owns.at(k), outputs(), columns, config_.parameters.count("frequencies", 0), config_.parameters.count("max_frequencies", 0), shared,
                            own ? config_.parameters.count("own_cells", 0) : 0);
  }

  // ---- sizes: bytes go to where the weight is

  // When 64, 128, 256 ... examples have been learned.
  static bool looks_at(std::int64_t seen) { return seen >= kFirstLook && (seen & (seen - 1)) == 0; }

  std::size_t frequencies_in_use() const {
    std::size_t most = 0;
    for (const auto& part : parts_) most = std::max(most, part->frequencies());
    return most;
  }
  // Bytes of the frequencies, if every part used all frequencies that it may.
  std::size_t frequency_bytes() const {
    std::size_t most = 0;
    for (const auto& part : parts_) most = std::max(most, part->max_frequencies());
    return most * FourierFeatures::bytes_each(config_.d);
  }

  // Parts begin with few frequencies: on a stream that a linear model describes, more would cost time and bytes for nothing. Once
  // the parts with Fourier features have nearly all of the weight, they use all of theirs, and the heaviest of them gets the bytes of
  // parts that were dropped. Otherwise these become rows for more tasks. Where memory runs out, the sizes stay until the next look.
  void use_bytes() {
    double curved = 0;
    std::size_t b = 0, heaviest = parts_.size();
    double most = -1;
    for (std::size_t p = 0; p < parts_.size(); b += parts_[p++]->count()) {
      if (parts_[p]->max_frequencies() == 0) continue;
      const double weight = mixture_.weight_of(b, parts_[p]->count());
      curved += weight;
      if (weight > most) {
        most = weight;
        heaviest = p;
      }
    }
    try {
      if (curved < kEnoughWeight) {
        if (n_seen_ + 1 >= kReclaim && rows_.wants_more()) reclaim_frequencies();
        spare_ = rows_.take(spare_);
        return;
      }
      b = 0;
      for (const auto& part : parts_) {
        if (mixture_.weight_of(b, part->count()) >= part->weight_to_grow()) grow(*part, part->max_frequencies());
        b += part->count();
      }
      Part& part = *parts_[heaviest];
      const std::size_t before = cost(part, part.max_frequencies()), frequencies = affordable(part);
      grow(part, frequencies);
      spare_ -= cost(part, frequencies) - before;
    } catch (const std::bad_alloc&) {
    }
  }

  // Takes back the bytes of frequencies that have not been needed.
  void reclaim_frequencies() {
    const std::size_t frequencies = frequency_bytes();
    for (const auto& part : parts_) {
      spare_ += part->bytes(part->max_frequencies()) - part->bytes(part->frequencies());
      part->stop_growing();
    }
    spare_ += frequencies - frequency_bytes();
  }

  // The bytes of a part with so many frequencies, which are included.
  std::size_t cost(const Part& part, std::size_t frequencies) const {
    return part.bytes(frequencies) + std::max(frequency_bytes(), frequencies * FourierFeatures::bytes_each(config_.d));
  }

  // The most frequencies of a part that the spare bytes pay for.
  std::size_t affordable(const Part& part) const {
    const std::size_t now = cost(part, part.max_frequencies());
    std::size_t frequencies = part.max_frequencies();
    while (frequencies < part.frequency_limit() && cost(part, frequencies + 1) - now <= spare_) ++frequencies;
    return frequencies;
  }

  void grow(Part& part, std::size_t frequencies) {
    if (frequencies <= part.frequencies()) return;
    if (frequencies > fourier_.count()) {  // working memory first: it may be larger than the frequencies need, but not smaller
      size_features(scratch().made<Working>(), frequencies);
      fourier_.resize(frequencies);
    }
    part.set_frequencies(frequencies);
  }

  bool drop_idle() {
    std::size_t b = 0, longest = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      idle_[p] = mixture_.weight_of(b, parts_[p]->count()) < kNegligible ? idle_[p] + 1 : 0;
      b += parts_[p]->count();
      if (idle_[p] > idle_[longest]) longest = p;
    }
    if (idle_[longest] < kPatience) return false;
    drop_part(longest);
    return true;
  }

  void drop_part(std::size_t p) {
    std::size_t b = 0;
    for (std::size_t q = 0; q < p; ++q) b += parts_[q]->count();
    mixture_.drop(b, parts_[p]->count());
    const std::size_t at = parts_[p]->at, width = parts_[p]->row_width(), frequencies = frequency_bytes();
    const auto place = static_cast<std::ptrdiff_t>(p);
    bytes_.used -= parts_[p]->object_bytes;
    spare_ += parts_[p]->bytes(parts_[p]->max_frequencies()) + kPartOverhead + 32 * outputs();
    parts_.erase(parts_.begin() + place);
    index_.erase(index_.begin() + place);
    idle_.erase(idle_.begin() + place);
    spare_ += frequencies - frequency_bytes();
    spare_ += rows_.drop_part(parts_, at, width);
    try {
      fourier_.resize(frequencies_in_use());
    } catch (const std::bad_alloc&) {  // then there are more frequencies than are used
    }
  }

  // ---- features of one example

  template <class Use>
  void with_row(const Instance& x, Use use) const {
    if (config_.single)
      use(x.rows->dense_f32 + x.at * config_.d);
    else
      use(x.rows->dense_f64 + x.at * config_.d);
  }

  void size_features(Working& own, std::size_t frequencies) const {
    resize_exactly(own.features, config_.sparse ? 0 : config_.d + 1 + 2 * frequencies);
    resize_exactly(own.phases, frequencies);
  }

  void find_features(const Instance& x, Working& own) const {
    double* z = own.columns.data();
    with_row(x, [&](const auto* row) { scaler_.features(row, z); });
    const double root = std::sqrt(static_cast<double>(config_.d));
    for (std::size_t j = 0; j < config_.d; ++j) own.features[j] = z[j] / root;
    own.features[config_.d] = 1.0;
    bool curved = false;
    for (std::size_t p = 0; p < parts_.size(); ++p) curved = curved || (parts_[p]->frequencies() && is_awake(p));
    if (curved) fourier_.features(z, own.phases.data(), own.features.data() + config_.d + 1);
  }

  // ---- answers

  // Of the mixture, as its margins are scaled: s^2 (sum_b w_b (V_b + f_b^2) - (sum_b w_b f_b)^2), one number per output.
  void add_variances(Scratch& s, std::vector<double>& out) {
    auto& own = s.made<Working>();
    std::vector<double> v(n_beliefs());
    std::size_t at = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      if (!is_awake(p)) continue;
      parts_[p]->variances(own.seen, v.data() + at);
      at += parts_[p]->count();
    }
    const double scale = calibration_.scale * calibration_.scale, mass = mixture_.weight_of(own.awake);
    for (std::size_t o = 0; o < outputs(); ++o) {
      double mean = 0, square = 0;
      for (std::size_t k = 0; k < own.awake.size(); ++k) {
        const double f = own.values[k * outputs() + o], w = mixture_.weights[own.awake[k]] / mass;
        mean += w * f;
        square += w * (v[k] + f * f);
      }
      out.push_back(scale * std::max(0.0, square - mean * mean));
    }
  }

  // The terms of the calibrated average of the beliefs awake, s sum_b w_b f_b + b: of the columns, sources × outputs × n, and of
  // the Fourier features of each part, parts × sources × outputs.
  void add_terms(const Seen& e, const Vec<std::size_t>& awake, std::size_t n, std::vector<double>& columns, std::vector<double>& fourier) const {
    const std::size_t first = columns.size();
    columns.resize(first + kSources * outputs() * n);
    const double scale = calibration_.scale / mixture_.weight_of(awake);
    std::size_t b = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const Part& part = *parts_[p];
      const std::size_t at_fourier = fourier.size();
      fourier.resize(at_fourier + kSources * outputs());
      if (!is_awake(p)) {
        b += part.count();
        continue;
      }
      Terms terms(part.count(), outputs(), n);
      part.terms(e, terms);
      for (std::size_t k = 0; k < part.count(); ++k, ++b)
        for (std::size_t so = 0; so < kSources * outputs(); ++so) {
          const double weight = scale * mixture_.weights[b];
          const std::size_t row = k * outputs() + so % outputs();
          simd().axpy(weight, terms.columns(so / outputs(), row), n, columns.data() + first + so * n);
          fourier[at_fourier + so] += weight * terms.fourier(so / outputs(), row);
        }
    }
    for (std::size_t o = 0; o < outputs(); ++o) columns[first + (kShared * outputs() + o + 1) * n - 1] += calibration_.offset[o];
  }

  // Weights of the linear features for the task, outputs × (d + 1): the terms where every feature is 1.
  void add_linear_weights(Scratch& s, std::vector<double>& out) const {
    if (config_.sparse) return;
    const std::size_t n = config_.d + 1;
    const std::vector<double> ones(n + 2 * fourier_.count(), 1.0);
    const auto& own = s.made<Working>();
    Seen e = own.seen;
    e.features = ones.data();
    std::vector<double> terms, fourier;
    add_terms(e, own.awake, n, terms, fourier);
    const std::size_t first = out.size();
    out.resize(first + outputs() * n);
    for (std::size_t k = 0; k < terms.size(); ++k) out[first + k % (outputs() * n)] += terms[k];
  }

  // Margins, and the terms of each example in turn. What these do not add up to is due to the mixing.
  State explain(const Query& query) const {
    State answer;
    auto& margins = answer.reals["margins"];
    auto& columns = answer.reals["columns"];
    auto& fourier = answer.reals["fourier"];
    score_each(query, [&](std::size_t i, const Instance& x, Scratch& s) {
      const auto n = config_.sparse ? static_cast<std::size_t>(x.rows->indptr[i + 1] - x.rows->indptr[i]) : config_.d;
      margins.insert(margins.end(), s.margins.begin(), s.margins.end());
      for (std::size_t o = 0; x.rows->offsets && o < outputs(); ++o)
        answer.reals["offsets"].push_back(calibration_.scale * x.rows->offsets[i * outputs() + o]);
      const auto& own = s.made<Working>();
      add_terms(own.seen, own.awake, n + 1, columns, fourier);
    });
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      answer.integers["part"].push_back(index_[p]);
      answer.integers["part_frequencies"].push_back(static_cast<std::int64_t>(parts_[p]->frequencies()));
    }
    return answer;
  }

  Scaler scaler_;
  FourierFeatures fourier_;
  TaskRows rows_;
  Mixture mixture_;
  Calibration calibration_;
  Parts parts_;
  Vec<std::int64_t> index_;  // of each part among those that the model began with
  Vec<std::int64_t> idle_;
  std::size_t spare_ = 0;  // bytes of parts that were dropped, not used by others yet
};

void Budgetron::save_rule(State& state) {
  state.integers["part_index"].assign(index_.begin(), index_.end());
  state.integers["part_idle"].assign(idle_.begin(), idle_.end());
  state.integers["spare_bytes"] = {static_cast<std::int64_t>(spare_)};
  state.reals["belief_weight"].assign(mixture_.weights.begin(), mixture_.weights.end());
  state.reals["calibration_scale"] = {calibration_.scale};
  state.reals["calibration_variance"] = {calibration_.variance};
  state.reals["calibration_offset"].assign(calibration_.offset.begin(), calibration_.offset.end());
  for (const auto& part : parts_) part->save(state);
  if (!config_.sparse) scaler_.save(state);
  rows_.save(state);
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
  const auto& offset = state.reals.at("calibration_offset");
  const std::int64_t spare = state.integers.at("spare_bytes").at(0);
  require(index.size() == parts_.size() && idle.size() == parts_.size() && weights.size() == n_beliefs() && offset.size() == outputs() && spare >= 0);
  require(std::find(idle.begin(), idle.end(), 0) != idle.end());  // some part has weight, so that some part is always awake
  std::copy(idle.begin(), idle.end(), idle_.begin());
  std::copy(weights.begin(), weights.end(), mixture_.weights.begin());
  std::copy(offset.begin(), offset.end(), calibration_.offset.begin());
  calibration_.scale = state.reals.at("calibration_scale").at(0);
  calibration_.variance = state.reals.at("calibration_variance").at(0);
  spare_ = static_cast<std::size_t>(spare);
  for (const auto& part : parts_) part->load(state);
  fourier_.resize(frequencies_in_use());
  if (!config_.sparse) scaler_.load(state);
  rows_.load(state, n_seen_);
  size_all(scratch());
}

const Registered registered("budgetron",
                            {"shared", "own", "clustered", "cluster_share", "filters", "fourier_filter", "fourier_cells", "plain_filter", "whole", "filter_frequencies", "frequencies",
                             "bandwidth", "latent", "rates", "owns", "signs", "own_cells", "cells", "max_task_rows", "max_frequencies", "max_filter_frequencies", "rows_may_grow"},
                            make_counted<Budgetron>);

}  // namespace

}  // namespace budgetron
