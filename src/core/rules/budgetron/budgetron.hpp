// Budgetron: approximate Bayesian filtering under the multitask kernel, each part of it where it is cheapest.
//
// Prior: f_i = shared + own_i, own covariance ρ times the shared one; over instances s_ℓ ⟨φ, φ'⟩ + s K'.
// For each belief b (prior scales), with k the kernel row, ψ = Λ k_anchors, κ = K'(x, x), α = Pk, δ² = κ − kᵀα, o² = κ − ‖ψ‖²:
//
//   1  f = Σ weights·features,   V = Σ S φ² + kᵀMk + Σ N ψ²,   p_b = σ(f) or softmax
//   2  p̄ = Σ w_b p_b;  the margin is its logit (log p̄_c for classes)
//   3  w_b ← w_b p_b(y)^ω, normalised, a little shared out; a kernel belief that stays faint is dropped
//   4  store x if δ² > η²κ and (mistake, or room and margin < 1):  P += eeᵀ/δ²,  M += s eeᵀ/δ²,  e = (−α, 1);
//      over budget let go  r = argmin Σ_b w_b (‖U_j‖² + M_jj) / P_jj,  never an anchor, never the newest
//   5  g = [y] − q,  h = ω q_y (1 − q_y),  v = V + s δ² + sρ o²;   nothing if ω max|g| v < τ, or
//      the belief has a kernel part and is sure already, ω max|g| < 0.01;
//      G = ω g/(1 + hv),  c = h/(1 + hv);   diagonal blocks: W += G S φ,  S ← S/(1 + h S φ²);   kernel: U += Mk Gᵀ,  M −= c Mk (Mk)ᵀ
//
// Own parts in the kernel live on r anchors, the first stored, in the basis ψ in which their prior is white.
// N is kept relative to its prior; s is in units of K'(x, x) of the first example stored.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "rules/budgetron/covariance.hpp"
#include "rules/budgetron/hashed_table.hpp"
#include "rules/budgetron/linear_block.hpp"
#include "stores/row_table.hpp"
#include "rules/registry.hpp"
#include "algebra/span.hpp"

namespace budgetron {

constexpr double kNegligible = 1e-3;        // τ
constexpr double kHeaviest = 1e6;           // ω of a step: beyond it steps would overshoot until weights overflow
constexpr std::size_t kKeptEntries = 192;   // hashed features of a row that there is always room for

// What a Budgetron is made with, from Config::parameters.
struct BudgetronGiven {
  explicit BudgetronGiven(const Config& config)
      : eta(config.parameters.real("eta", 0.0)),
        max_task_rows(config.parameters.count("max_task_rows", 0)),
        shared(config.parameters.flag("shared", true)),
        own(config.parameters.flag("own", true)),
        whole(config.parameters.flag("whole", false)),
        own_rank(config.parameters.count("own_rank", 0)),
        table_slots(config.parameters.count("slots", 0)),
        sure(config.parameters.real("sure", 0.0)),
        patience(static_cast<std::int64_t>(config.parameters.word("patience", 10000))) {
    const auto require = [](bool holds, const char* what) {
      if (!holds) throw std::invalid_argument(what);
    };
    const auto numbers = config.parameters.array("beliefs");
    require(!numbers.empty() && numbers.size() % 5 == 0, "_core.make: beliefs must be five numbers each, of one belief at least");
    for (auto b = numbers.begin(); b != numbers.end(); b += 5) beliefs.push_back({b[0], b[1], b[2], b[3], b[4]});
    require(config.sparse == (table_slots > 0), "_core.make: slots must be above 0 for sparse rows, and 0 for dense ones");
    require(table_slots <= (std::size_t{1} << 31), "_core.make: slots must be at most 2**31");
    require(!whole || (shared && !config.sparse), "_core.make: whole needs a shared part and dense rows");
    require(max_task_rows != 1, "_core.make: max_task_rows must be 0 for no cap, or at least 2");
  }

  double eta;
  std::size_t max_task_rows;  // 0: no cap
  std::vector<Belief> beliefs;
  bool shared, own;         // pooled: no own parts; disconnected: no shared ones
  bool whole;               // the shared linear part on dense input has a whole covariance, not a diagonal
  std::size_t own_rank;     // anchors
  std::size_t table_slots;  // of the hashed table, sparse input
  double sure;              // a belief with a kernel part learns nothing from ω max|g| below this
  std::int64_t patience;    // steps that a kernel belief may stay faint
};

// Scaled features, the anchors' basis, f of each belief and the logs of its probabilities; hashed features, what the table
// says of them, and the step it is to take.
struct BudgetronScratch : RuleScratch {
  explicit BudgetronScratch(Bytes& bytes)
      : features(bytes), psi(bytes), values(bytes), logs(bytes), linear(bytes), step(bytes), entries(bytes), coming(bytes) {}
  Vec<double> features, psi, values, logs, linear, step;
  Vec<Entry> entries;
  // The hashed features of the row after this one, found early so that its cells are there in time.
  Vec<Entry> coming;
  std::size_t coming_at = SIZE_MAX;  // its place in the block; SIZE_MAX: none
};

template <class T>
class Budgetron final : public Learner {
  static BudgetronScratch& mine(Scratch& s) { return static_cast<BudgetronScratch&>(*s.own); }
  static const BudgetronScratch& mine(const Scratch& s) { return static_cast<const BudgetronScratch&>(*s.own); }

 public:
  explicit Budgetron(const Config& config)
      : Learner(config),
        given_(config),
        mixture_(bytes_, given_.beliefs),
        moments_(bytes_, config.sparse ? 0 : config.d),
        table_(bytes_, config.sparse ? given_.table_slots : 0, count_linear(), config.n_outputs),
        roots_(bytes_),
        floors_(bytes_),
        linear_(bytes_),
        linear_covariances_(bytes_),
        rows_(bytes_, 0, given_.max_task_rows, config.hash_seed),
        span_(bytes_, has_kernel() ? capacity() : 0, given_.eta < 1e-2, config.single && !config.sparse),
        covariances_(bytes_),
        lambda_(bytes_),
        anchors_(bytes_),
        anchor_factor_(bytes_, triangle(given_.own_rank)),
        keep_(bytes_, 3 * given_.beliefs.size()) {
    lambda_.reserve(triangle(given_.own_rank));
    anchors_.reserve(given_.own_rank);
    lay_out();
    size_all(scratch());
    rows_.widen(row_width_);
    if (config.sparse) {
      for (std::size_t slot = 0; slot < given_.table_slots; ++slot)
        for (std::size_t b = 0, l = 0; b < live().size(); ++b)
          if (live()[b].belief.linear > 0)
            table_.variance(slot, l++) = static_cast<T>(live()[b].belief.linear);
    } else if (given_.whole) {
      linear_covariances_.reserve(count_linear());
      for (std::size_t b = 0; b < live().size(); ++b)
        if (live()[b].belief.linear > 0) {
          linear_covariances_.emplace_back(bytes_, width(), outputs());
          linear_covariances_.back().begin(live()[b].belief.linear);
        }
    } else if (given_.shared) {
      linear_.assign(count_linear() * (outputs() + 1) * width(), 0.0);
      for (std::size_t b = 0, l = 0; b < live().size(); ++b)
        if (live()[b].belief.linear > 0) fill_variances(shared_linear(l++), live()[b].belief.linear);
    }
    if (given_.shared) covariances_.reserve(count_kernel());
    for (std::size_t b = 0; b < live().size(); ++b)
      if (live()[b].belief.kernel > 0 && given_.shared)
        covariances_.emplace_back(bytes_, capacity(), outputs());
  }

  void end_reserve() noexcept override {
    rows_.end_reserve();
    for (auto* entries : {&mine(scratch()).entries, &mine(scratch()).coming})
      if (entries->capacity() > kKeptEntries) release(*entries);  // a long row leaves nothing behind
  }

  void forget(std::int64_t key) override {
    const auto row = rows_.find({key, false});
    if (row != RowTable::kNone) rows_.drop(row);
    bool anchor_gone = false;
    for (std::size_t slot = 0; slot < size();) {
      if (keys_[slot] != key) {
        ++slot;
        continue;
      }
      anchor_gone |= is_anchor(slot);
      span_.settle();
      let_go(slot);
    }
    if (anchor_gone) anchor_anew();
  }

  void coefficients(double* out) const override {
    std::fill(out, out + outputs() * size(), 0.0);
    for (std::size_t b = 0, q = 0; b < live().size(); ++b) {
      if (live()[b].belief.kernel <= 0 || !given_.shared) continue;
      for (std::size_t o = 0; o < outputs(); ++o)
        simd().axpy(live()[b].weight, covariances_[q].u(o), size(), out + o * size());
      ++q;
    }
  }

  void task_weights(Task task, double* out) const override {
    coefficients(out);
    const auto row = rows_.find({task.key, false});
    if (row == RowTable::kNone) return;
    for (std::size_t b = 0, q = 0; b < live().size(); ++b) {
      if (live()[b].belief.kernel <= 0) continue;
      const Diagonal own = own_kernel(const_cast<double*>(rows_.values(row)), q++);
      for (std::size_t o = 0; o < outputs(); ++o)
        for (std::size_t a = 0; a < anchors_.size(); ++a)
          for (std::size_t c = 0; c <= a; ++c)
            out[o * size() + anchors_[c]] += live()[b].weight * own.w[o * own.width + a] * lambda_[triangle(a) + c];
    }
  }

  State query(const Query& query) override {
    State answer;
    if (query.name == "beliefs") {
      for (const auto& one : live()) {
        answer.integers["index"].push_back(static_cast<std::int64_t>(one.index));
        answer.reals["weight"].push_back(one.weight);
      }
    } else if (query.name == "variances") {
      auto& out = answer.reals["variance"];
      out.resize(query.rows ? query.rows->count * outputs() : 0);
      score_each(query, [&](std::size_t i, const Instance& x, Scratch& s) {
        variance({query.keys[i], query.clusters[i]}, config_.kernel.self(x.sq), s, out.data() + i * outputs());
      });
    } else {
      return Learner::query(query);
    }
    return answer;
  }

 protected:
  void score(const Instance& x, Task task, Scratch& s) const override {
    features(x, task, s);
    anchor_basis(s);
    const double* row = own_row(task);
    mine(s).values.resize(live().size() * outputs());
    for (std::size_t b = 0, l = 0, q = 0; b < live().size(); ++b) {
      const bool linear = live()[b].belief.linear > 0, kernel = live()[b].belief.kernel > 0;
      value(b, linear ? l : 0, kernel ? q : 0, row, s);
      l += linear;
      q += kernel;
    }
    mixture_.logs(mine(s).values.data(), outputs(), mine(s).logs);
    mixture_.margins(mine(s).values.data(), mine(s).logs.data(), outputs(), s.margins.data());
  }

  // Of the mixture: Σ_b w_b (v_b + f_b²) − (Σ_b w_b f_b)², with v_b as in step 5.
  void variance(Task task, double self, Scratch& s, double* out) {
    const double outside = std::max(0.0, self - simd().dot(mine(s).psi.data(), mine(s).psi.data(), given_.own_rank));
    const double residual = has_kernel() && given_.shared ? span_.project(s.row.data(), self, kernel_rows()) : 0.0;
    const double* row = own_row(task);
    std::fill(out, out + outputs(), 0.0);
    std::fill(s.margins.begin(), s.margins.end(), 0.0);
    for (std::size_t b = 0, l = 0, q = 0; b < live().size(); ++b) {
      const Belief& belief = live()[b].belief;
      double v = belief.linear > 0 ? linear_spread(belief, l++, row, s) : 0.0;
      if (belief.kernel > 0) {
        if (given_.shared) v += covariances_[q].spread(s.row.data()) + kernel_scale(belief) * residual;
        if (given_.own) v += own_scale(belief) * (own_spread(q, row, s) + outside);
        ++q;
      }
      for (std::size_t o = 0; o < outputs(); ++o) {
        const double f = mine(s).values[b * outputs() + o];
        s.margins[o] += live()[b].weight * f;  // the mean
        out[o] += live()[b].weight * (v + f * f);
      }
    }
    for (std::size_t o = 0; o < outputs(); ++o) out[o] = std::max(0.0, out[o] - s.margins[o] * s.margins[o]);
  }

  std::uint8_t absorb(const Example& example, Scratch& s) override {
    Step step;
    std::uint8_t flags = mistaken(example, s, step) ? kMistake : 0;
    if (example.weight == 0) return flags;
    const double margin = own_margin(example, s);
    mixture_.learn(mine(s).logs.data(), outputs(), example.label, example.weight);
    drop_faint(s);

    double delta2 = -1.0;  // not yet computed
    if (wants(example, flags & kMistake, margin)) {
      delta2 = span_.project(s.row.data(), example.self, kernel_rows());
      if (delta2 > given_.eta * given_.eta * example.self && make_room(example, s, delta2)) {
        store(example, s, delta2);
        flags |= kStored;
      }
    }
    if (learn(example, s, delta2, flags & kStored)) flags |= kUpdated;
    if (config_.sparse) {
      if (count_linear()) table_.learn_typical(data(example.x), nonzeros(example.x), mine(s).entries);
    } else {
      moments_.learn(dense(example.x));
    }
    return flags;
  }

  void grow(std::size_t capacity) override {
    span_.reserve(capacity);
    for (auto& covariance : covariances_) covariance.reserve(capacity);
  }

  bool stores() const override { return has_kernel(); }

  // Tasks of these rows that have no row of their own yet.
  std::size_t missing_rows(std::size_t from, std::size_t to, const std::int64_t* keys) const {
    if (row_width_ == 0) return 0;
    if (to - from == 1) return rows_.find({keys[from], false}) == RowTable::kNone;
    Bytes passing;
    Vec<std::int64_t> absent(passing);
    for (std::size_t i = from; i < to; ++i)
      if (rows_.find({keys[i], false}) == RowTable::kNone) absent.push_back(keys[i]);
    return count_distinct(absent);
  }
  bool rule_grows_little(std::size_t n, const std::int64_t* keys) const override {
    return given_.max_task_rows || missing_rows(0, n, keys) <= std::max<std::size_t>(64, rows_.size());
  }
  void reserve_rule(const Rows& rows, std::size_t from, std::size_t to, const std::int64_t* keys, const std::int64_t*) override {
    rows_.reserve(missing_rows(from, to, keys));
    if (!config_.sparse || !count_linear()) return;
    mine(scratch()).coming_at = SIZE_MAX;  // what was found early belongs to another block
    std::size_t longest = 0;
    for (std::size_t i = from; i < to; ++i) longest = std::max(longest, nonzeros({&rows, i, 0.0}));
    for (auto* entries : {&mine(scratch()).entries, &mine(scratch()).coming}) entries->reserve(longest + 1);
  }
  void size_scratch(Scratch& s) const override {
    s.made<BudgetronScratch>();
    const std::size_t n = roots_.size(), beliefs = live().size();
    mine(s).psi.resize(given_.own_rank);
    mine(s).values.reserve(beliefs * outputs());
    mine(s).logs.reserve(beliefs * (outputs() == 1 ? 2 : outputs()));
    mine(s).step.reserve((n + 1) * outputs() + n);
    if (n && config_.sparse) {
      mine(s).linear.reserve(2 * n * (outputs() + 1));
      mine(s).entries.reserve(kKeptEntries);
      mine(s).coming.reserve(kKeptEntries);
    } else if (n) {
      mine(s).features.resize(width());
    }
  }

  void slot_removed(std::size_t slot, std::size_t last) override {
    for (auto& anchor : anchors_)
      if (anchor == last) anchor = static_cast<std::uint32_t>(slot);
  }

  // Weights and covariances on the stored examples mean nothing under another kernel: the kernel part begins again.
  void kernel_changed() override {
    while (size()) {
      span_.settle();
      let_go(size() - 1);
    }
    anchor_anew();
  }

  void rows_moved() override {
    if (!has_kernel()) return;
    span_.rebuild(size(), kernel_rows());
    rebuild_lambda();
  }

  void save_rule(State& state) override;
  void load_rule(const State& state) override;
  template <class To, class Use>
  void for_each_number(To& sizes, To& cells, Use use);

 private:
  // ---- shape

  const Vec<Mixture::Live>& live() const { return mixture_.live; }
  std::size_t outputs() const { return config_.n_outputs; }
  std::size_t width() const { return config_.d + 1; }
  std::size_t count_linear() const {
    return static_cast<std::size_t>(std::count_if(live().begin(), live().end(), [](auto& b) { return b.belief.linear > 0; }));
  }
  std::size_t count_kernel() const {
    return static_cast<std::size_t>(std::count_if(live().begin(), live().end(), [](auto& b) { return b.belief.kernel > 0; }));
  }
  bool has_kernel() const { return count_kernel() > 0; }

  // A task's row: its own linear blocks (dense input), then its own kernel blocks.
  void lay_out() {
    roots_.clear();
    floors_.clear();
    for (const auto& one : live())
      if (one.belief.linear > 0) {
        roots_.push_back(root_own(one.belief));
        floors_.push_back(one.belief.floor * one.belief.linear);
      }
    row_linear_ = given_.own && !config_.sparse ? count_linear() : 0;
    row_kernel_ = given_.own ? count_kernel() : 0;
    row_width_ = (outputs() + 1) * (row_linear_ * width() + row_kernel_ * given_.own_rank);
  }
  Diagonal block(double* at, std::size_t n) const { return {at, at + outputs() * n, n, outputs()}; }
  Diagonal shared_linear(std::size_t l) { return block(linear_.data() + l * (outputs() + 1) * width(), width()); }
  const double* shared_linear(std::size_t l) const { return linear_.data() + l * (outputs() + 1) * width(); }
  const double* shared_weights(std::size_t l, std::size_t output) const {
    return given_.whole ? linear_covariances_[l].u(output) : shared_linear(l) + output * width();
  }
  Diagonal own_linear(double* row, std::size_t l) const { return block(row + l * (outputs() + 1) * width(), width()); }
  Diagonal own_kernel(double* row, std::size_t q) const {
    return block(row + (outputs() + 1) * (row_linear_ * width() + q * given_.own_rank), given_.own_rank);
  }
  static void fill_variances(const Diagonal& d, double value) { std::fill(d.s, d.s + d.width, value); }

  const double* own_row(Task task) const {
    const auto at = rows_.find({task.key, false});
    return at == RowTable::kNone ? nullptr : rows_.values(at);
  }
  double* row_for(Task task) {  // made at its prior if it is not there yet
    auto at = rows_.find({task.key, false});
    if (at == RowTable::kNone) {
      if (rows_.at_limit()) rows_.drop(rows_.oldest());
      at = rows_.add({task.key, false}, task.cluster);
      double* row = rows_.values(at);
      for (std::size_t b = 0, l = 0, q = 0; b < live().size(); ++b) {
        const Belief& belief = live()[b].belief;
        if (belief.linear > 0 && l < row_linear_) fill_variances(own_linear(row, l++), belief.linear * belief.linear_own);
        if (belief.kernel > 0 && q < row_kernel_) fill_variances(own_kernel(row, q++), 1.0);
      }
    }
    rows_.touch(at, n_seen_);
    return rows_.values(at);
  }

  // ---- features

  static const T* dense(const Instance& x) {
    if constexpr (std::is_same_v<T, float>)
      return x.rows->dense_f32 + x.at * x.rows->d;
    else
      return x.rows->dense_f64 + x.at * x.rows->d;
  }
  static const T* data(const Instance& x) {
    if constexpr (std::is_same_v<T, float>)
      return x.rows->data_f32 + x.rows->indptr[x.at];
    else
      return x.rows->data_f64 + x.rows->indptr[x.at];
  }
  static const std::int32_t* indices(const Instance& x) { return x.rows->indices + x.rows->indptr[x.at]; }
  static std::size_t nonzeros(const Instance& x) {
    return static_cast<std::size_t>(x.rows->indptr[x.at + 1] - x.rows->indptr[x.at]);
  }

  void features(const Instance& x, Task task, Scratch& s) const {
    if (!count_linear()) return;
    if (config_.sparse) {
      find_entries(x, task, s);
      table_.scale(data(x), mine(s).entries);
      read_table(s);
    } else {
      mine(s).features.resize(width());
      moments_.features(dense(x), mine(s).features.data());
    }
  }

  // Into mine(s).entries, and those of the next row into mine(s).coming.
  void find_entries(const Instance& x, Task task, Scratch& s) const {
    if (mine(s).coming_at == x.at)
      mine(s).entries.swap(mine(s).coming);
    else
      table_.find(indices(x), data(x), nonzeros(x), task.key, mine(s).entries);
    mine(s).coming_at = SIZE_MAX;
    const Instance next{x.rows, x.at + 1, 0.0};
    if (next.at >= x.rows->count || nonzeros(next) >= mine(s).coming.capacity()) return;
    table_.find(indices(next), data(next), nonzeros(next), s.keys[next.at], mine(s).coming);
    mine(s).coming_at = next.at;
  }

  // Into mine(s).linear: f of the linear part for each output and belief, then V for each belief.
  void read_table(Scratch& s) const {
    const std::size_t n = roots_.size(), all = n * (outputs() + 1);
    mine(s).linear.assign(2 * all, 0.0);
    double *shared = mine(s).linear.data(), *own = shared + all;
    table_.read(mine(s).entries, given_.shared ? shared : nullptr, given_.own ? own : nullptr);
    for (std::size_t k = 0; k < all; ++k) {
      const double root = roots_[k % n];
      shared[k] += k < n * outputs() ? root * own[k] : root * root * own[k];
    }
  }

  void anchor_basis(Scratch& s) const {
    mine(s).psi.resize(given_.own_rank);
    std::fill(mine(s).psi.begin(), mine(s).psi.end(), 0.0);
    for (std::size_t a = 0; a < anchors_.size(); ++a)
      for (std::size_t c = 0; c <= a; ++c) mine(s).psi[a] += lambda_[triangle(a) + c] * s.row[anchors_[c]];
  }

  double kernel_scale(const Belief& belief) const { return belief.kernel / unit_; }
  double own_scale(const Belief& belief) const { return given_.own ? kernel_scale(belief) * belief.kernel_own : 0.0; }
  double root_own(const Belief& belief) const { return given_.shared ? std::sqrt(belief.linear_own) : 1.0; }

  // ---- step 1: f of belief b, into mine(s).values; l and q count its linear and its kernel block

  void value(std::size_t b, std::size_t l, std::size_t q, const double* row, Scratch& s) const {
    const Belief& belief = live()[b].belief;
    double* f = mine(s).values.data() + b * outputs();
    std::fill(f, f + outputs(), 0.0);
    if (belief.linear > 0 && config_.sparse) {
      for (std::size_t o = 0; o < outputs(); ++o) f[o] = mine(s).linear[o * roots_.size() + l];
    } else if (belief.linear > 0) {
      for (std::size_t o = 0; o < outputs(); ++o) {
        if (given_.shared) f[o] += value_of(shared_weights(l, o), mine(s).features.data(), width());
        if (row) f[o] += value_of(own_linear(const_cast<double*>(row), l).w + o * width(), mine(s).features.data(), width());
      }
    }
    if (belief.kernel > 0)
      for (std::size_t o = 0; o < outputs(); ++o) {
        if (given_.shared) f[o] += simd().dot(covariances_[q].u(o), s.row.data(), size());
        if (row) f[o] += value_of(own_kernel(const_cast<double*>(row), q).w + o * given_.own_rank, mine(s).psi.data(), given_.own_rank);
      }
  }

  // V of the linear part of a belief.
  double linear_spread(const Belief& belief, std::size_t l, const double* row, const Scratch& s) {
    double v = 0;
    if (config_.sparse) return mine(s).linear[outputs() * roots_.size() + l];
    if (given_.whole)
      v += linear_covariances_[l].spread(mine(s).features.data());
    else if (given_.shared)
      v += variance_of(static_cast<const Budgetron*>(this)->shared_linear(l) + outputs() * width(), mine(s).features.data(), width());
    if (!given_.own) return v;
    if (row) return v + variance_of(own_linear(const_cast<double*>(row), l).s, mine(s).features.data(), width());
    double square = 0;
    for (double z : mine(s).features) square += z * z;
    return v + belief.linear * belief.linear_own * square;
  }

  double own_spread(std::size_t q, const double* row, const Scratch& s) const {  // Σ N ψ², relative to the prior
    double v = 0;
    const double* n = row ? own_kernel(const_cast<double*>(row), q).s : nullptr;
    for (std::size_t a = 0; a < given_.own_rank; ++a) v += (n ? n[a] : 1.0) * mine(s).psi[a] * mine(s).psi[a];
    return v;
  }

  // ---- step 2 and 3

  double own_margin(const Example& example, const Scratch& s) const {
    if (outputs() == 1) return example.label ? s.margins[0] : -s.margins[0];
    double rival = -HUGE_VAL;
    for (std::size_t c = 0; c < outputs(); ++c)
      if (c != example.label) rival = std::max(rival, s.margins[c]);
    return s.margins[example.label] - rival;
  }

  void drop_faint(Scratch& s) {
    const auto faint = [&](const Mixture::Live& one) { return one.belief.kernel > 0 && one.idle >= given_.patience; };
    if (std::none_of(live().begin(), live().end(), faint)) return;
    std::size_t left = live().size();
    for (std::size_t b = 0; b < live().size(); ++b) {
      keep_[b] = !faint(live()[b]) || left == 1;
      left -= !keep_[b];
    }
    if (left < live().size()) drop(s);
  }
  void drop(Scratch& s) noexcept;

  // ---- step 4

  bool wants(const Example& example, bool mistake, double margin) const {
    if (!has_kernel() || example.self <= 0) return false;
    if (!given_.shared && anchors_.size() >= given_.own_rank) return false;
    return mistake || (!full() && margin < 1.0);
  }

  Gram::RowOf kernel_rows() {
    return [this](std::size_t slot, double* row) { store_->kernel_row_of_slot(config_.kernel, slot, true, row); };
  }

  bool is_anchor(std::size_t slot) const { return std::find(anchors_.begin(), anchors_.end(), slot) != anchors_.end(); }

  // A byte budget may ask a long sparse row to take the place of several. False if the anchors leave no room for it.
  bool make_room(const Example& example, Scratch& s, double& delta2) {
    if ((full() && anchors_.size() >= size()) || !store_->fits_beside(example.x, anchors_)) return false;
    while (!store_->fits(example.x)) {
      const std::size_t r = cheapest([&](std::size_t j) { return span_.root_diagonal(j); }, [](std::size_t) { return 0.0; });
      move_last(s.row, r, size() - 1);
      let_go(r);
      delta2 = span_.project(s.row.data(), example.self, kernel_rows());
    }
    return true;
  }

  // The member whose expected damage is least. `grown` is what storing adds to M_jj / s.
  template <class RootDiagonal, class Grown>
  std::size_t cheapest(RootDiagonal root_diagonal, Grown grown) {
    for (std::size_t j = 0; j < size(); ++j) {
      double stake = 0;
      for (std::size_t b = 0, q = 0; b < live().size(); ++b)
        if (live()[b].belief.kernel > 0 && given_.shared)
          stake += live()[b].weight * (covariances_[q++].stake(j) + kernel_scale(live()[b].belief) * grown(j));
      const double root = root_diagonal(j);
      span_.scores[j] = stake / (root * root);
    }
    for (const auto anchor : anchors_) span_.scores[anchor] = HUGE_VAL;
    return lowest_arrival(span_.scores.data(), size());
  }

  void let_go(std::size_t r) {
    span_.set_eviction(r);
    for (auto& covariance : covariances_) covariance.remove(r, span_.gamma.data());
    span_.remove(r);
    anchors_.erase(std::remove(anchors_.begin(), anchors_.end(), static_cast<std::uint32_t>(r)), anchors_.end());
    remove(r);
  }

  void store(const Example& example, Scratch& s, double delta2) {
    if (!unit_set_) unit_ = example.self;
    unit_set_ = true;
    const double* alpha = span_.alpha.data();
    std::size_t slot;
    if (full()) {
      slot = cheapest([&](std::size_t j) { return span_.root_diagonal(j, delta2); },
                      [&](std::size_t j) { return alpha[j] * alpha[j] / delta2; });
      span_.replace(slot, s.row.data(), example.self, delta2);
      for (std::size_t b = 0, q = 0; b < live().size(); ++b)
        if (live()[b].belief.kernel > 0 && given_.shared)
          covariances_[q++].replace(slot, alpha, kernel_scale(live()[b].belief) / delta2, span_.gamma.data());
      replace(slot, example);
    } else {
      span_.append(s.row.data(), example.self, delta2);
      for (std::size_t b = 0, q = 0; b < live().size(); ++b)
        if (live()[b].belief.kernel > 0 && given_.shared)
          covariances_[q++].append(alpha, kernel_scale(live()[b].belief) / delta2);
      const bool anchor = anchors_.size() < given_.own_rank && anchors_.size() == size();
      slot = append(example);
      if (anchor) add_anchor(slot, alpha, delta2, s);
    }
    s.row[slot] = example.self;
  }

  void add_anchor(std::size_t slot, const double* alpha, double delta2, Scratch& s) {
    const double delta = std::sqrt(delta2);
    const std::size_t a = anchors_.size();
    for (std::size_t c = 0; c < a; ++c) lambda_.push_back(-alpha[anchors_[c]] / delta);
    lambda_.push_back(1.0 / delta);
    anchors_.push_back(static_cast<std::uint32_t>(slot));
    mine(s).psi[a] = delta;
  }

  // After an anchor was forgotten: the lowest arrivals are the anchors, and every own kernel part begins again.
  void anchor_anew() {
    anchors_.clear();
    while (anchors_.size() < std::min(size(), given_.own_rank)) {
      std::size_t next = size();
      for (std::size_t j = 0; j < size(); ++j)
        if ((anchors_.empty() || arrivals_[j] > arrivals_[anchors_.back()]) && (next == size() || arrivals_[j] < arrivals_[next])) next = j;
      if (next == size()) break;  // a saved model may give two examples one arrival
      anchors_.push_back(static_cast<std::uint32_t>(next));
    }
    rebuild_lambda();
    for (std::size_t at = 0; at < rows_.size(); ++at)
      for (std::size_t q = 0; q < row_kernel_; ++q) {
        const Diagonal own = own_kernel(rows_.values(at), q);
        std::fill(own.w, own.w + own.outputs * own.width, 0.0);
        fill_variances(own, 1.0);
      }
  }

  void rebuild_lambda() {
    const std::size_t n = anchors_.size();
    lambda_.assign(triangle(n), 0.0);
    auto &l = anchor_factor_, &row = span_.scores;
    for (std::size_t a = 0; a < n; ++a) {
      store_->kernel_row_of_slot(config_.kernel, anchors_[a], true, row.data());
      for (std::size_t c = 0; c <= a; ++c) {
        double rest = row[anchors_[c]];
        for (std::size_t e = 0; e < c; ++e) rest -= l[triangle(a) + e] * l[triangle(c) + e];
        l[triangle(a) + c] = c < a ? rest / l[triangle(c) + c] : std::sqrt(std::max(rest, 1e-15));
      }
      for (std::size_t c = 0; c <= a; ++c) {  // Λ = L⁻¹, row by row
        double sum = c == a ? 1.0 : 0.0;
        for (std::size_t e = c; e < a; ++e) sum -= l[triangle(a) + e] * lambda_[triangle(e) + c];
        lambda_[triangle(a) + c] = sum / l[triangle(a) + a];
      }
    }
  }

  // ---- step 5

  bool learn(const Example& example, Scratch& s, double delta2, bool stored) {
    const double omega = std::min(example.weight, kHeaviest);
    double outside = std::max(0.0, example.self - simd().dot(mine(s).psi.data(), mine(s).psi.data(), given_.own_rank));  // o²
    if (stored && !anchors_.empty() && mine(s).psi[anchors_.size() - 1] > 0 && arrivals_[anchors_.back()] == n_seen_) outside = 0.0;
    double residual = stored ? 0.0 : delta2;  // δ², computed when first needed
    double* row = const_cast<double*>(own_row(example.task));
    bool any = false, own_any = false;
    const std::size_t classes = outputs() == 1 ? 2 : outputs(), n_linear = roots_.size();
    // The step of the table: G, then h; and G of the belief at hand.
    mine(s).step.assign((n_linear + 1) * outputs() + n_linear, 0.0);
    double *step_h = mine(s).step.data() + n_linear * outputs(), *g = step_h + n_linear;
    std::fill(step_h, g, -1.0);
    bool table_moves = false;
    for (std::size_t b = 0, l = 0, q = 0; b < live().size(); ++b) {
      const Belief& belief = live()[b].belief;
      const bool linear = belief.linear > 0, kernel = belief.kernel > 0;
      const std::size_t at_l = l, at_q = q;
      l += linear;
      q += kernel;
      double* logs = mine(s).logs.data() + b * classes;
      if (stored && kernel) {
        value(b, at_l, at_q, row, s);
        log_probabilities(mine(s).values.data() + b * outputs(), outputs(), logs);
      }
      double largest = 0;
      for (std::size_t o = 0; o < outputs(); ++o) {
        const double p = std::exp(outputs() == 1 ? logs[1] : logs[o]);
        g[o] = (outputs() == 1 ? example.label == 1 : example.label == o) ? 1.0 - p : -p;
        largest = std::max(largest, std::abs(g[o]));
      }
      if (kernel && omega * largest < given_.sure) continue;  // no pass over the covariance for next to nothing
      const double q_y = std::exp(logs[example.label]);

      double v = linear ? linear_spread(belief, at_l, row, s) : 0.0;
      if (kernel) {
        const double scale = kernel_scale(belief), own = own_scale(belief);
        // V and the residuals of the kernel block are at most the prior: often that is enough to see that nothing matters.
        const double most = v + ((given_.shared ? scale : 0.0) + own) * example.self;
        if (omega * largest * most < kNegligible) continue;
        if (given_.shared) {
          if (residual < 0) residual = span_.project(s.row.data(), example.self, kernel_rows());
          v += covariances_[at_q].spread(s.row.data()) + scale * residual;
        }
        if (given_.own) v += own * (own_spread(at_q, row, s) + outside);
      }
      if (omega * largest * v < kNegligible) continue;
      any = true;
      const double h = omega * q_y * (1.0 - q_y), over = 1.0 + h * v;
      for (std::size_t o = 0; o < outputs(); ++o) g[o] *= omega / over;
      const bool in_row = (linear && row_linear_) || (kernel && row_kernel_ && given_.own_rank);
      own_any |= in_row;
      if (in_row && !row) row = row_for(example.task);
      if (linear && config_.sparse) {
        for (std::size_t o = 0; o < outputs(); ++o) mine(s).step[o * n_linear + at_l] = g[o];
        step_h[at_l] = h;
        table_moves = true;
      } else if (linear) {
        learn_linear(belief, at_l, row, g, h, h / over, s);
      }
      if (kernel && given_.shared) covariances_[at_q].learn(g, h / over);
      if (kernel && given_.own && row) {
        Diagonal own = own_kernel(row, at_q);
        learn_diagonal(own, mine(s).psi.data(), g, h, own_scale(belief), 0.0);
      }
    }
    if (table_moves)
      table_.learn(mine(s).entries, {mine(s).step.data(), step_h, floors_.data(), roots_.data(), given_.shared, given_.own});
    if (own_any) row_for(example.task);  // the most recently updated from here on
    return any;
  }

  void learn_linear(const Belief& belief, std::size_t l, double* row, const double* g, double h, double c, const Scratch& s) {
    const double floor = belief.floor * belief.linear;
    if (given_.whole) {
      linear_covariances_[l].learn(g, c);
      if (floor > 0) linear_covariances_[l].keep_above(floor);
    } else if (given_.shared) {
      learn_diagonal(shared_linear(l), mine(s).features.data(), g, h, 1.0, floor);
    }
    if (given_.own) learn_diagonal(own_linear(row, l), mine(s).features.data(), g, h, 1.0, floor * belief.linear_own);
  }

  const BudgetronGiven given_;
  Mixture mixture_;
  Moments moments_;
  HashedTable<T> table_;
  Vec<double> roots_, floors_;  // of the linear beliefs, for the table
  Vec<double> linear_;                  // shared, diagonal
  Vec<Covariance> linear_covariances_;  // or whole
  std::size_t row_linear_ = 0, row_kernel_ = 0, row_width_ = 0;
  RowTable rows_;
  Span span_;
  Vec<Covariance> covariances_;
  Vec<double> lambda_;          // Λ, packed: the inverse Cholesky factor of the anchors' Gram matrix
  Vec<std::uint32_t> anchors_;  // their slots
  Vec<double> anchor_factor_;   // for rebuild_lambda(): L
  Vec<std::uint8_t> keep_;      // for drop(): which live beliefs stay; of them the linear ones; the kernel ones
  double unit_ = 1.0;  // K'(x, x) of the first example ever stored
  bool unit_set_ = false;
};

}  // namespace budgetron
