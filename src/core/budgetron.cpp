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
//   5  g = [y] − q,  h = ω q_y (1 − q_y),  v = V + s δ² + sρ o²;   nothing if ω max|g| v < τ;
//      G = ω g/(1 + hv),  c = h/(1 + hv);   diagonal blocks: W += G S φ,  S ← S/(1 + h S φ²);   kernel: U += Mk Gᵀ,  M −= c Mk (Mk)ᵀ
//
// Own parts in the kernel live on r anchors, the first stored, in the basis ψ in which their prior is white.
// N is kept relative to its prior; s is in units of K'(x, x) of the first example stored.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "covariance.hpp"
#include "linear_block.hpp"
#include "row_table.hpp"
#include "rules.hpp"
#include "span.hpp"

namespace budgetron {

namespace {

constexpr double kNegligible = 1e-3;        // τ
constexpr std::size_t kKeptEntries = 256;   // hashed features of a row that there is always room for

template <class T>
class Budgetron final : public Learner {
 public:
  explicit Budgetron(const Config& config)
      : Learner(config),
        mixture_(config.beliefs),
        moments_(bytes_, config.sparse ? 0 : config.d),
        table_(bytes_, config.sparse ? config.table_slots : 0, count_linear(), config.n_outputs),
        linear_(bytes_),
        linear_covariances_(bytes_),
        rows_(bytes_, 0, config.max_task_rows),
        span_(bytes_, has_kernel() ? capacity() : 0, unbounded(), config.eta < 1e-2),
        covariances_(bytes_),
        lambda_(bytes_),
        anchors_(bytes_) {
    lay_out();
    rows_.widen(row_width_);
    if (config.sparse) {
      for (std::size_t slot = 0; slot < config.table_slots; ++slot)
        for (std::size_t b = 0, l = 0; b < live().size(); ++b)
          if (live()[b].belief.linear > 0)
            table_.cell(static_cast<std::uint32_t>(slot), l++)[outputs()] = static_cast<T>(live()[b].belief.linear);
    } else if (config.whole) {
      for (std::size_t b = 0; b < live().size(); ++b)
        if (live()[b].belief.linear > 0) {
          linear_covariances_.emplace_back(bytes_, width(), outputs(), false);
          linear_covariances_.back().begin(live()[b].belief.linear);
        }
    } else if (config.shared) {
      linear_.assign(count_linear() * (outputs() + 1) * width(), 0.0);
      for (std::size_t b = 0, l = 0; b < live().size(); ++b)
        if (live()[b].belief.linear > 0) fill_variances(shared_linear(l++), live()[b].belief.linear);
    }
    for (std::size_t b = 0; b < live().size(); ++b)
      if (live()[b].belief.kernel > 0 && config.shared)
        covariances_.emplace_back(bytes_, capacity(), outputs(), unbounded());
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
      if (live()[b].belief.kernel <= 0 || !config_.shared) continue;
      for (std::size_t o = 0; o < outputs(); ++o)
        hot().axpy(live()[b].weight, covariances_[q].u(o), size(), out + o * size());
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

  void belief_weights(std::vector<std::int64_t>& index, std::vector<double>& weight) const override {
    for (const auto& one : live()) {
      index.push_back(static_cast<std::int64_t>(one.index));
      weight.push_back(one.weight);
    }
  }

 protected:
  void score(const Instance& x, Task task, Scratch& s) const override {
    features(x, task, s);
    anchor_basis(s);
    const double* row = own_row(task);
    s.values.resize(live().size() * outputs());
    for (std::size_t b = 0, l = 0, q = 0; b < live().size(); ++b) {
      const bool linear = live()[b].belief.linear > 0, kernel = live()[b].belief.kernel > 0;
      value(b, linear ? l : 0, kernel ? q : 0, row, s);
      l += linear;
      q += kernel;
    }
    mixture_.margins(s.values.data(), outputs(), s.margins.data());
  }

  // Of the mixture: Σ_b w_b (v_b + f_b²) − (Σ_b w_b f_b)², with v_b as in step 5.
  void variance(Task task, double self, Scratch& s, double* out) override {
    const double outside = std::max(0.0, self - hot().dot(s.psi.data(), s.psi.data(), config_.own_rank));
    const double residual = has_kernel() && config_.shared ? span_.project(s.row.data(), self, kernel_rows()) : 0.0;
    const double* row = own_row(task);
    std::vector<double> mean(outputs(), 0.0);
    std::fill(out, out + outputs(), 0.0);
    for (std::size_t b = 0, l = 0, q = 0; b < live().size(); ++b) {
      const Belief& belief = live()[b].belief;
      double v = belief.linear > 0 ? linear_spread(belief, l++, row, s) : 0.0;
      if (belief.kernel > 0) {
        if (config_.shared) v += covariances_[q].spread(s.row.data()) + kernel_scale(belief) * residual;
        if (config_.own) v += own_scale(belief) * (own_spread(q, row, s) + outside);
        ++q;
      }
      for (std::size_t o = 0; o < outputs(); ++o) {
        const double f = s.values[b * outputs() + o];
        mean[o] += live()[b].weight * f;
        out[o] += live()[b].weight * (v + f * f);
      }
    }
    for (std::size_t o = 0; o < outputs(); ++o) out[o] = std::max(0.0, out[o] - mean[o] * mean[o]);
  }

  std::uint8_t absorb(const Example& example, Scratch& s) override {
    Step step;
    std::uint8_t flags = mistaken(example, s, step) ? kMistake : 0;
    if (example.weight == 0) return flags;
    const double margin = own_margin(example, s);
    mixture_.learn(s.values.data(), outputs(), example.label, example.weight);
    drop_faint(s);

    double delta2 = -1.0;  // not yet computed
    if (wants(example, flags & kMistake, margin)) {
      delta2 = span_.project(s.row.data(), example.self, kernel_rows());
      if (delta2 > config_.eta * config_.eta * example.self && make_room(example, s, delta2)) {
        store(example, s, delta2);
        flags |= kStored;
      }
    }
    if (learn(example, s, delta2, flags & kStored)) flags |= kUpdated;
    if (config_.sparse) {
      table_.learn_typical(indices(example.x), data(example.x), nonzeros(example.x));
      if (s.entries.capacity() > kKeptEntries) Vec<Entry>(bytes_).swap(s.entries);  // a long row leaves nothing behind
    } else {
      moments_.learn(dense(example.x));
    }
    return flags;
  }

  void grow(std::size_t capacity) override {
    span_.grow(capacity);
  }

  void slot_removed(std::size_t slot, std::size_t last) override {
    for (auto& anchor : anchors_)
      if (anchor == last) anchor = static_cast<std::uint32_t>(slot);
  }

  void save_rule(State& state) override;
  void load_rule(const State& state) override;

 private:
  // ---- shape

  const std::vector<Mixture::Live>& live() const { return mixture_.live; }
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
    row_linear_ = config_.own && !config_.sparse ? count_linear() : 0;
    row_kernel_ = config_.own ? count_kernel() : 0;
    row_width_ = (outputs() + 1) * (row_linear_ * width() + row_kernel_ * config_.own_rank);
  }
  Diagonal block(double* at, std::size_t n) const { return {at, at + outputs() * n, n, outputs()}; }
  Diagonal shared_linear(std::size_t l) { return block(linear_.data() + l * (outputs() + 1) * width(), width()); }
  const double* shared_linear(std::size_t l) const { return linear_.data() + l * (outputs() + 1) * width(); }
  const double* shared_weights(std::size_t l, std::size_t output) const {
    return config_.whole ? linear_covariances_[l].u(output) : shared_linear(l) + output * width();
  }
  Diagonal own_linear(double* row, std::size_t l) const { return block(row + l * (outputs() + 1) * width(), width()); }
  Diagonal own_kernel(double* row, std::size_t q) const {
    return block(row + (outputs() + 1) * (row_linear_ * width() + q * config_.own_rank), config_.own_rank);
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
      s.entries.reserve(kKeptEntries);
      table_.entries(indices(x), data(x), nonzeros(x), task.key, s.entries);
    } else {
      s.features.resize(width());
      moments_.features(dense(x), s.features.data());
    }
  }

  void anchor_basis(Scratch& s) const {
    s.psi.resize(config_.own_rank);
    std::fill(s.psi.begin(), s.psi.end(), 0.0);
    for (std::size_t a = 0; a < anchors_.size(); ++a)
      for (std::size_t c = 0; c <= a; ++c) s.psi[a] += lambda_[triangle(a) + c] * s.row[anchors_[c]];
  }

  double kernel_scale(const Belief& belief) const { return belief.kernel / unit_; }
  double own_scale(const Belief& belief) const { return config_.own ? kernel_scale(belief) * belief.kernel_own : 0.0; }
  double root_own(const Belief& belief) const { return config_.shared ? std::sqrt(belief.linear_own) : 1.0; }

  // ---- step 1: f of belief b, into s.values; l and q count its linear and its kernel block

  void value(std::size_t b, std::size_t l, std::size_t q, const double* row, Scratch& s) const {
    const Belief& belief = live()[b].belief;
    double* f = s.values.data() + b * outputs();
    std::fill(f, f + outputs(), 0.0);
    if (belief.linear > 0 && config_.sparse) {
      const double root = root_own(belief);
      for (const Entry& e : s.entries)
        for (std::size_t o = 0; o < outputs(); ++o) {
          if (config_.shared) f[o] += static_cast<double>(table_.cell(e.shared, l)[o]) * e.shared_value;
          if (config_.own) f[o] += static_cast<double>(table_.cell(e.own, l)[o]) * e.own_value * root;
        }
    } else if (belief.linear > 0) {
      for (std::size_t o = 0; o < outputs(); ++o) {
        if (config_.shared) f[o] += value_of(shared_weights(l, o), s.features.data(), width());
        if (row) f[o] += value_of(own_linear(const_cast<double*>(row), l).w + o * width(), s.features.data(), width());
      }
    }
    if (belief.kernel > 0)
      for (std::size_t o = 0; o < outputs(); ++o) {
        if (config_.shared) f[o] += hot().dot(covariances_[q].u(o), s.row.data(), size());
        if (row) f[o] += value_of(own_kernel(const_cast<double*>(row), q).w + o * config_.own_rank, s.psi.data(), config_.own_rank);
      }
  }

  // V of the linear part of a belief.
  double linear_spread(const Belief& belief, std::size_t l, const double* row, const Scratch& s) {
    double v = 0;
    if (config_.sparse) {
      const double root = root_own(belief);
      for (const Entry& e : s.entries) {
        if (config_.shared) v += static_cast<double>(table_.cell(e.shared, l)[outputs()]) * e.shared_value * e.shared_value;
        if (config_.own) v += static_cast<double>(table_.cell(e.own, l)[outputs()]) * (e.own_value * root) * (e.own_value * root);
      }
      return v;
    }
    if (config_.whole) v += linear_covariances_[l].spread(s.features.data());
    else if (config_.shared) v += variance_of(static_cast<const Budgetron*>(this)->shared_linear(l) + outputs() * width(), s.features.data(), width());
    if (!config_.own) return v;
    if (row) return v + variance_of(own_linear(const_cast<double*>(row), l).s, s.features.data(), width());
    double square = 0;
    for (double z : s.features) square += z * z;
    return v + belief.linear * belief.linear_own * square;
  }

  double own_spread(std::size_t q, const double* row, const Scratch& s) const {  // Σ N ψ², relative to the prior
    double v = 0;
    const double* n = row ? own_kernel(const_cast<double*>(row), q).s : nullptr;
    for (std::size_t a = 0; a < config_.own_rank; ++a) v += (n ? n[a] : 1.0) * s.psi[a] * s.psi[a];
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
    std::vector<bool> keep(live().size(), true);
    std::size_t left = live().size();
    for (std::size_t b = 0; b < live().size(); ++b)
      if (live()[b].belief.kernel > 0 && live()[b].idle >= config_.patience && left > 1) {
        keep[b] = false;
        --left;
      }
    if (left == live().size()) return;
    drop(keep, s);
  }
  void drop(const std::vector<bool>& keep, Scratch& s);

  // ---- step 4

  bool wants(const Example& example, bool mistake, double margin) const {
    if (!has_kernel() || example.self <= 0) return false;
    if (!config_.shared && anchors_.size() >= config_.own_rank) return false;
    return mistake || (!full() && margin < 1.0);
  }

  Gram::RowOf kernel_rows() const {
    return [this](std::size_t slot, double* row) { store_->kernel_row_of_slot(config_.kernel, slot, row); };
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
        if (live()[b].belief.kernel > 0 && config_.shared)
          stake += live()[b].weight * (covariances_[q++].stake(j) + kernel_scale(live()[b].belief) * grown(j));
      const double root = root_diagonal(j);
      span_.scores[j] = stake / (root * root);
    }
    for (const auto anchor : anchors_) span_.scores[anchor] = HUGE_VAL;
    return lowest_arrival(span_.scores.data(), size());
  }

  void let_go(std::size_t r) {
    span_.let_go(r);
    for (auto& covariance : covariances_) covariance.remove(r, span_.gamma.data());
    span_.remove(r);
    anchors_.erase(std::remove(anchors_.begin(), anchors_.end(), static_cast<std::uint32_t>(r)), anchors_.end());
    remove(r);
  }

  void store(const Example& example, Scratch& s, double delta2) {
    if (size() == 0 && unit_ == 1.0) unit_ = example.self;
    const double* alpha = span_.alpha.data();
    std::size_t slot;
    if (full()) {
      slot = cheapest([&](std::size_t j) { return span_.root_diagonal(j, delta2); },
                      [&](std::size_t j) { return alpha[j] * alpha[j] / delta2; });
      span_.replace(slot, s.row.data(), example.self, delta2);
      for (std::size_t b = 0, q = 0; b < live().size(); ++b)
        if (live()[b].belief.kernel > 0 && config_.shared)
          covariances_[q++].replace(slot, alpha, kernel_scale(live()[b].belief) / delta2, span_.gamma.data());
      replace(slot, example);
    } else {
      span_.append(s.row.data(), example.self, delta2);
      for (std::size_t b = 0, q = 0; b < live().size(); ++b)
        if (live()[b].belief.kernel > 0 && config_.shared)
          covariances_[q++].append(alpha, kernel_scale(live()[b].belief) / delta2);
      const bool anchor = anchors_.size() < config_.own_rank && anchors_.size() == size();
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
    s.psi[a] = delta;
  }

  // After an anchor was forgotten: the lowest arrivals are the anchors, and every own kernel part begins again.
  void anchor_anew() {
    std::vector<std::uint32_t> order(size());
    for (std::size_t j = 0; j < size(); ++j) order[j] = static_cast<std::uint32_t>(j);
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return arrivals_[a] < arrivals_[b]; });
    order.resize(std::min(order.size(), config_.own_rank));
    anchors_.assign(order.begin(), order.end());
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
    std::vector<double> l(triangle(n)), row(size());
    for (std::size_t a = 0; a < n; ++a) {
      store_->kernel_row_of_slot(config_.kernel, anchors_[a], row.data());
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
    const double omega = example.weight;
    double outside = std::max(0.0, example.self - hot().dot(s.psi.data(), s.psi.data(), config_.own_rank));  // o²
    if (stored && !anchors_.empty() && s.psi[anchors_.size() - 1] > 0 && arrivals_[anchors_.back()] == n_seen_) outside = 0.0;
    double residual = stored ? 0.0 : delta2;  // δ², computed when first needed
    double* row = const_cast<double*>(own_row(example.task));
    bool any = false, own_any = false;
    std::vector<double> g(outputs()), logs(outputs() == 1 ? 2 : outputs());
    for (std::size_t b = 0, l = 0, q = 0; b < live().size(); ++b) {
      const Belief& belief = live()[b].belief;
      const bool linear = belief.linear > 0, kernel = belief.kernel > 0;
      const std::size_t at_l = l, at_q = q;
      l += linear;
      q += kernel;
      if (stored && kernel) value(b, at_l, at_q, row, s);
      const double* f = s.values.data() + b * outputs();
      log_probabilities(f, outputs(), logs.data());
      double largest = 0;
      for (std::size_t o = 0; o < outputs(); ++o) {
        const double p = std::exp(outputs() == 1 ? logs[1] : logs[o]);
        g[o] = (outputs() == 1 ? example.label == 1 : example.label == o) ? 1.0 - p : -p;
        largest = std::max(largest, std::abs(g[o]));
      }
      const double q_y = std::exp(logs[example.label]);

      double v = linear ? linear_spread(belief, at_l, row, s) : 0.0;
      if (kernel) {
        const double scale = kernel_scale(belief), own = own_scale(belief);
        // V and the residuals of the kernel block are at most the prior: often that is enough to see that nothing matters.
        const double most = v + ((config_.shared ? scale : 0.0) + own) * example.self;
        if (omega * largest * most < kNegligible) continue;
        if (config_.shared) {
          if (residual < 0) residual = span_.project(s.row.data(), example.self, kernel_rows());
          v += covariances_[at_q].spread(s.row.data()) + scale * residual;
        }
        if (config_.own) v += own * (own_spread(at_q, row, s) + outside);
      }
      if (omega * largest * v < kNegligible) continue;
      any = true;
      const double h = omega * q_y * (1.0 - q_y), over = 1.0 + h * v;
      for (double& one : g) one *= omega / over;
      const bool in_row = (linear && row_linear_) || (kernel && row_kernel_ && config_.own_rank);
      own_any |= in_row;
      if (in_row && !row) row = row_for(example.task);
      if (linear) learn_linear(belief, at_l, row, g.data(), h, h / over, s);
      if (kernel && config_.shared) covariances_[at_q].learn(g.data(), h / over);
      if (kernel && config_.own && row) {
        Diagonal own = own_kernel(row, at_q);
        learn_diagonal(own, s.psi.data(), g.data(), h, own_scale(belief), 0.0);
      }
    }
    if (own_any) row_for(example.task);  // the most recently updated from here on
    return any;
  }

  void learn_linear(const Belief& belief, std::size_t l, double* row, const double* g, double h, double c, const Scratch& s) {
    const double floor = belief.floor * belief.linear;
    if (!config_.sparse) {
      if (config_.whole) {
        linear_covariances_[l].learn(g, c);
        if (floor > 0) linear_covariances_[l].keep_above(floor);
      } else if (config_.shared) {
        learn_diagonal(shared_linear(l), s.features.data(), g, h, 1.0, floor);
      }
      if (config_.own) learn_diagonal(own_linear(row, l), s.features.data(), g, h, 1.0, floor * belief.linear_own);
      return;
    }
    const double root = root_own(belief);
    const auto move = [&](std::uint32_t slot, double phi) {
      T* cell = table_.cell(slot, l);
      const double spread = static_cast<double>(cell[outputs()]), t = spread * phi;
      for (std::size_t o = 0; o < outputs(); ++o) cell[o] = static_cast<T>(static_cast<double>(cell[o]) + g[o] * t);
      cell[outputs()] = static_cast<T>(std::max(spread / (1.0 + h * t * phi), floor));
    };
    for (const Entry& e : s.entries) {
      if (config_.shared) move(e.shared, e.shared_value);
      if (config_.own) move(e.own, e.own_value * root);
    }
  }

  Mixture mixture_;
  Moments moments_;
  HashedTable<T> table_;
  Vec<double> linear_;                  // shared, diagonal
  Vec<Covariance> linear_covariances_;  // or whole
  std::size_t row_linear_ = 0, row_kernel_ = 0, row_width_ = 0;
  RowTable rows_;
  Span span_;
  Vec<Covariance> covariances_;
  Vec<double> lambda_;          // Λ, packed: the inverse Cholesky factor of the anchors' Gram matrix
  Vec<std::uint32_t> anchors_;  // their slots
  double unit_ = 1.0;  // K'(x, x) of the first example ever stored
};

inline void keep_marked(Vec<Covariance>& all, const std::vector<bool>& keep) {
  Vec<Covariance> kept(*all.get_allocator().bytes);
  for (std::size_t i = 0; i < keep.size(); ++i)
    if (keep[i]) kept.push_back(std::move(all[i]));
  all.swap(kept);
}

// Takes away the blocks of the beliefs that are not kept, in every place, and gives their memory back.
template <class T>
void Budgetron<T>::drop(const std::vector<bool>& keep, Scratch& s) {
  std::vector<bool> keep_linear, keep_kernel;
  for (std::size_t b = 0; b < live().size(); ++b) {
    if (live()[b].belief.linear > 0) keep_linear.push_back(keep[b]);
    if (live()[b].belief.kernel > 0) keep_kernel.push_back(keep[b]);
  }
  if (config_.sparse) {
    table_.narrow(bytes_, keep_linear);
  } else if (config_.whole) {
    keep_marked(linear_covariances_, keep_linear);
  } else if (config_.shared) {
    Vec<double> kept(bytes_);
    const std::size_t n = (outputs() + 1) * width();
    for (std::size_t l = 0; l < keep_linear.size(); ++l)
      if (keep_linear[l]) kept.insert(kept.end(), linear_.begin() + static_cast<std::ptrdiff_t>(l * n), linear_.begin() + static_cast<std::ptrdiff_t>((l + 1) * n));
    kept.shrink_to_fit();
    linear_.swap(kept);
  }
  if (row_width_) {
    const std::size_t linear_block = (outputs() + 1) * width(), kernel_block = (outputs() + 1) * config_.own_rank;
    rows_.reshape([&](const double* row, Vec<double>& out) {
      for (std::size_t l = 0; l < row_linear_; ++l, row += linear_block)
        if (keep_linear[l]) out.insert(out.end(), row, row + linear_block);
      for (std::size_t q = 0; q < row_kernel_; ++q, row += kernel_block)
        if (keep_kernel[q]) out.insert(out.end(), row, row + kernel_block);
    });
  }
  if (config_.shared) keep_marked(covariances_, keep_kernel);
  std::vector<Mixture::Live> kept;
  std::vector<double> values;
  double total = 0;
  for (std::size_t b = 0; b < live().size(); ++b)
    if (keep[b]) {
      kept.push_back(live()[b]);
      total += live()[b].weight;
      values.insert(values.end(), s.values.begin() + static_cast<std::ptrdiff_t>(b * outputs()),
                    s.values.begin() + static_cast<std::ptrdiff_t>((b + 1) * outputs()));
    }
  for (auto& one : kept) one.weight /= total;
  mixture_.live = kept;
  std::copy(values.begin(), values.end(), s.values.begin());
  lay_out();
  rows_.widen(row_width_);
  if (has_kernel()) return;
  release_store();
  span_ = Span(bytes_, 0, false, config_.eta < 1e-2);
  lambda_.clear();
  lambda_.shrink_to_fit();
  anchors_.clear();
  std::fill(s.psi.begin(), s.psi.end(), 0.0);
}

template <class T>
void Budgetron<T>::save_rule(State& state) {
  for (const auto& one : live()) {
    state.integers["belief_index"].push_back(static_cast<std::int64_t>(one.index));
    state.integers["belief_idle"].push_back(one.idle);
    state.reals["belief_weight"].push_back(one.weight);
  }
  state.reals["unit"] = {unit_};
  if (config_.sparse) {
    state.reals["slot_scale"].assign(table_.typical.begin(), table_.typical.end());
    state.reals["table"].assign(table_.cells.begin(), table_.cells.end());
  } else {
    state.reals["moments_count"] = {moments_.count_};
    state.reals["moments_mean"].assign(moments_.mean_.begin(), moments_.mean_.end());
    state.reals["moments_m2"].assign(moments_.m2_.begin(), moments_.m2_.end());
    state.reals["linear"].assign(linear_.begin(), linear_.end());
    if (config_.whole)
      for (auto& one : linear_covariances_) one.save(state.reals["linear"], state.reals["linear_covariance"]);
  }
  auto& keys = state.integers["table_key"];
  auto& stamps = state.integers["table_stamp"];
  auto& clusters = state.integers["table_cluster"];
  auto& linear = state.reals["own_linear"];
  auto& kernel = state.reals["own_kernel"];
  const std::size_t split = (outputs() + 1) * row_linear_ * width();
  for (std::size_t at = 0; at < rows_.size(); ++at) {
    keys.push_back(rows_.row(at).name.id);
    stamps.push_back(rows_.row(at).stamp);
    clusters.push_back(rows_.row(at).cluster);
    linear.insert(linear.end(), rows_.values(at), rows_.values(at) + split);
    kernel.insert(kernel.end(), rows_.values(at) + split, rows_.values(at) + row_width_);
  }
  auto& u = state.reals["u"];
  auto& m = state.reals["m"];
  for (auto& covariance : covariances_) covariance.save(u, m);
  state.integers["anchors"].assign(anchors_.begin(), anchors_.end());
  state.reals["lambda"].assign(lambda_.begin(), lambda_.end());
  if (has_kernel()) span_.save(state);
}

template <class T>
void Budgetron<T>::load_rule(const State& state) {
  const auto agree = [](bool holds) {
    if (!holds) throw std::invalid_argument("a saved Budgetron whose parts do not agree in size");
  };
  const auto fill = [&](Vec<double>& to, const char* name) {
    const auto& from = state.reals.at(name);
    agree(from.size() == to.size());
    std::copy(from.begin(), from.end(), to.begin());
  };
  const auto& index = state.integers.at("belief_index");
  const auto& idle = state.integers.at("belief_idle");
  const auto& weight = state.reals.at("belief_weight");
  agree(!index.empty() && idle.size() == index.size() && weight.size() == index.size());
  std::vector<bool> keep(config_.beliefs.size(), false);
  for (std::size_t i = 0; i < index.size(); ++i) {
    agree(index[i] >= 0 && static_cast<std::size_t>(index[i]) < keep.size() && (i == 0 || index[i] > index[i - 1]));
    keep[static_cast<std::size_t>(index[i])] = true;
  }
  // Which beliefs are left decides the shapes; stored examples came in before this, at the skeleton's hand.
  const std::size_t stored = size();
  if (index.size() < keep.size()) {
    Bytes passing;
    Scratch s(passing);
    s.values.resize(live().size() * outputs());
    drop(keep, s);
    agree(has_kernel() || stored == 0);
  }
  for (std::size_t b = 0; b < live().size(); ++b) {
    mixture_.live[b].weight = weight[b];
    mixture_.live[b].idle = idle[b];
  }
  unit_ = state.reals.at("unit").at(0);
  agree(unit_ > 0);
  if (config_.sparse) {
    const auto& typical = state.reals.at("slot_scale");
    const auto& cells = state.reals.at("table");
    agree(typical.size() == table_.typical.size() && cells.size() == table_.cells.size());
    for (std::size_t i = 0; i < typical.size(); ++i) table_.typical[i] = static_cast<T>(typical[i]);
    for (std::size_t i = 0; i < cells.size(); ++i) table_.cells[i] = static_cast<T>(cells[i]);
  } else {
    moments_.count_ = state.reals.at("moments_count").at(0);
    fill(moments_.mean_, "moments_mean");
    fill(moments_.m2_, "moments_m2");
    if (config_.whole) {
      const auto& weights = state.reals.at("linear");
      const auto& packed = state.reals.at("linear_covariance");
      const std::size_t n = linear_covariances_.size(), each = outputs() * width();
      agree(weights.size() == n * each && packed.size() == n * triangle(width()));
      for (std::size_t l = 0; l < n; ++l)
        linear_covariances_[l].load(weights.data() + l * each, packed.data() + l * triangle(width()), width());
    } else {
      fill(linear_, "linear");
    }
  }
  const auto& keys = state.integers.at("table_key");
  const auto& stamps = state.integers.at("table_stamp");
  const auto& linear = state.reals.at("own_linear");
  const auto& kernel = state.reals.at("own_kernel");
  const auto clusters = state.integers.find("table_cluster");
  const std::size_t split = (outputs() + 1) * row_linear_ * width(), rest = row_width_ - split;
  agree(stamps.size() == keys.size() && linear.size() == keys.size() * split && kernel.size() == keys.size() * rest &&
        (!config_.max_task_rows || keys.size() <= config_.max_task_rows));
  std::vector<std::uint32_t> by_age(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    agree(rows_.find({keys[i], false}) == RowTable::kNone);
    const bool known = clusters != state.integers.end() && clusters->second.size() == keys.size();
    const auto at = rows_.add({keys[i], false}, known ? clusters->second[i] : 0);
    std::copy_n(linear.begin() + static_cast<std::ptrdiff_t>(i * split), split, rows_.values(at));
    std::copy_n(kernel.begin() + static_cast<std::ptrdiff_t>(i * rest), rest, rows_.values(at) + split);
    by_age[i] = at;
  }
  std::sort(by_age.begin(), by_age.end(), [&](auto a, auto b) { return stamps[a] < stamps[b]; });
  for (const auto at : by_age) rows_.touch(at, stamps[at]);
  if (!has_kernel()) return;
  span_.load(state, size(), kernel_rows());
  const auto& u = state.reals.at("u");
  const auto& m = state.reals.at("m");
  agree(u.size() == covariances_.size() * outputs() * size() && m.size() == covariances_.size() * triangle(size()));
  for (std::size_t q = 0; q < covariances_.size(); ++q)
    covariances_[q].load(u.data() + q * outputs() * size(), m.data() + q * triangle(size()), size());
  const auto& anchors = state.integers.at("anchors");
  agree(anchors.size() <= config_.own_rank);
  for (auto slot : anchors) {
    agree(slot >= 0 && static_cast<std::size_t>(slot) < size() && !is_anchor(static_cast<std::size_t>(slot)));
    anchors_.push_back(static_cast<std::uint32_t>(slot));
  }
  const auto lambda = state.reals.find("lambda");
  if (lambda != state.reals.end() && lambda->second.size() == triangle(anchors.size()))
    lambda_.assign(lambda->second.begin(), lambda->second.end());
  else
    rebuild_lambda();
}

}  // namespace

std::unique_ptr<Learner> make_budgetron(const Config& config) {
  if (config.single) return std::make_unique<Budgetron<float>>(config);
  return std::make_unique<Budgetron<double>>(config);
}

}  // namespace budgetron
