// mtbprj-2, the projection that ignores tasks.   H is the Gram matrix of K' alone; task l has weights (β_l)_j.
//
//   f_l(x) = Σ_j (β_l)_j K'(x_j, x)
//   on a mistake:  α = H⁻¹k',  δ² = K'_tt − k'ᵀα
//     δ ≤ η:   (β_l)_j += α_j y_t (A⁻¹)_{l,i_t}  for all l
//     else:    S ← S ∪ {t},  (β_l)_t = y_t (A⁻¹)_{l,i_t}.  If now |S| = B + 1, with P = H⁻¹ of the B + 1 instances:
//              r = argmin over the old of ‖((β_1)_j … (β_k)_j)‖ / √P_jj,  γ_j = −P_jr / P_rr,
//              (β_l)_j += γ_j (β_l)_r for every l and j ≠ r (t too),  S ← S ∖ {r}
//
// Stored is C with β = A⁻¹C: an update changes only the row of i_t, for any number k of tasks. For cliques (A⁻¹ = (d − o) I + o J
// inside a cluster) f_i needs row i and the cluster's common sum s; and Σ_l β_lj² = (d − o)² Σ_l C_lj² + (2(d − o) o + n o²) s_j².
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "stores/row_table.hpp"
#include "rules/registry.hpp"
#include "algebra/span.hpp"

namespace budgetron {

namespace {

class SharedProjectron final : public Learner {
 public:
  explicit SharedProjectron(const Config& config)
      : Learner(config),
        eta_(config.parameters.real("eta", 0.0)),
        max_rows_(config.parameters.count("max_task_rows", 0)),
        clique_(dynamic_cast<const Clique*>(config.similarity.get())),
        explicit_(dynamic_cast<const Explicit*>(config.similarity.get())),
        span_(bytes_, capacity(), small_eta(), config.single && !config.sparse),
        table_(bytes_, config.n_outputs * capacity(), max_rows_, config.hash_seed),
        squares_(bytes_, capacity()),
        cross_(bytes_, explicit_ ? capacity() : 0),
        stride_(capacity()) {
    require_kernel();
    if (max_rows_ == 1) throw std::invalid_argument("_core.make: max_task_rows must be 0 for no cap, or at least 2");
  }

  void task_weights(Task task, double* out) const override {
    Bytes temporary;
    const auto workspace = config_.similarity->new_workspace(temporary);
    std::fill(out, out + config_.n_outputs * size(), 0.0);
    visit(task, workspace.get(), [&](double similarity, const double* row) {
      for (std::size_t o = 0; o < config_.n_outputs; ++o)
        simd().axpy(similarity, row + o * stride_, size(), out + o * size());
    });
  }

  // Σ_l C_lj over the task rows.
  void coefficients(double* out) const override {
    std::fill(out, out + config_.n_outputs * size(), 0.0);
    for (std::size_t at = 0; at < table_.size(); ++at) {
      if (table_.row(at).name.common) continue;
      for (std::size_t o = 0; o < config_.n_outputs; ++o)
        simd().axpy(1.0, table_.values(at) + o * stride_, size(), out + o * size());
    }
  }

  void end_reserve() noexcept override { table_.end_reserve(); }

  void forget(std::int64_t key) override {
    const auto at = table_.find({key, false});
    if (at != RowTable::kNone) {
      const std::int64_t cluster = table_.row(at).cluster;
      const auto common = table_.find({cluster, true});
      if (common != RowTable::kNone)
        simd().axpy(-1.0, table_.values(at), config_.n_outputs * stride_, table_.values(common));
      drop_task_row(at);
    }
    for (std::size_t slot = 0; slot < size();) {
      if (keys_[slot] == key) {
        span_.settle();
        evict(slot);
      } else {
        ++slot;
      }
    }
  }

 protected:
  void score(const Instance&, Task task, Scratch& s) const override {
    std::fill(s.margins.begin(), s.margins.end(), 0.0);
    visit(task, s.workspace.get(), [&](double similarity, const double* row) {
      for (std::size_t o = 0; o < config_.n_outputs; ++o)
        s.margins[o] += similarity * simd().dot(row + o * stride_, s.row.data(), size());
    });
  }

  std::uint8_t absorb(const Example& example, Scratch& scratch) override {
    Step step;
    if (!mistaken(example, scratch, step)) return 0;
    const double eta2 = eta_ * eta_, kk = example.self;
    if (kk <= eta2) return kMistake;
    open_rows(example.task);
    const double* k = scratch.row.data();
    double delta2 = span_.project(k, kk, rows());
    if (delta2 <= eta2) {
      update(example.task, step, span_.alpha.data(), size());
      return kMistake | kUpdated;
    }
    if (!store_->fits_alone(example.x)) return kMistake;
    while (!store_->fits(example.x)) {
      const std::size_t r = cheapest([&](std::size_t j) { return span_.root_diagonal(j); });
      move_last(scratch.row, r, size() - 1);
      evict(r);
      delta2 = span_.project(k, kk, rows());
    }
    std::size_t slot;
    if (full()) {
      slot = cheapest([&](std::size_t j) { return span_.root_diagonal(j, delta2); });
      span_.replace(slot, k, kk, delta2);
      distribute(slot);
      replace(slot, example);
    } else {
      span_.append(k, kk, delta2);
      slot = append(example);
    }
    update_slot(example.task, step, slot);
    return kMistake | kUpdated | kStored;
  }

  void grow(std::size_t capacity) override {
    span_.reserve(capacity);
    if (squares_.size() < capacity) squares_.resize(capacity);
    if (explicit_ && cross_.size() < capacity) cross_.resize(capacity);
    table_.widen(config_.n_outputs * capacity);  // the last that can fail
    const std::size_t old = stride_;
    for (std::size_t at = 0; at < table_.size(); ++at)  // from the last output back, so that nothing is overwritten
      for (std::size_t o = config_.n_outputs; o-- > 1;) {
        double* row = table_.values(at);
        std::copy_backward(row + o * old, row + o * old + old, row + o * capacity + old);
        std::fill(row + o * old, row + std::min(o * capacity, o * old + old), 0.0);
      }
    stride_ = capacity;
  }

  // The tasks and clusters of these rows that have no row in the table yet.
  std::size_t missing_rows(std::size_t from, std::size_t to, const std::int64_t* keys, const std::int64_t* clusters) const {
    const auto missing = [&](const std::int64_t* ids, bool common) -> std::size_t {
      if (to - from == 1) return table_.find({ids[from], common}) == RowTable::kNone;
      Bytes temporary;
      Vec<std::int64_t> absent(temporary);
      for (std::size_t i = from; i < to; ++i) {
        if (i > from && ids[i] == ids[i - 1]) continue;  // often one cluster for all
        if (table_.find({ids[i], common}) == RowTable::kNone) absent.push_back(ids[i]);
      }
      return count_distinct(absent);
    };
    return missing(keys, false) + (coupled() ? missing(clusters, true) : 0);
  }

  bool rule_grows_little(std::size_t n, const std::int64_t* keys) const override {
    const std::size_t few = std::max<std::size_t>(64, table_.size());
    // Looking up every task may cost more than learning the block, so it is done only if the answer can matter.
    return max_rows_ || 2 * n <= few || missing_rows(0, n, keys, keys) <= few;
  }

  void reserve_rule(const Rows&, std::size_t from, std::size_t to, const std::int64_t* keys, const std::int64_t* clusters) override {
    table_.reserve(missing_rows(from, to, keys, clusters));
  }

  void slot_removed(std::size_t slot, std::size_t last) override {
    for (std::size_t at = 0; at < table_.size(); ++at)
      for (std::size_t o = 0; o < config_.n_outputs; ++o) {
        double* row = table_.values(at) + o * stride_;
        row[slot] = row[last];
        row[last] = 0.0;
      }
    squares_[slot] = squares_[last];
    squares_[last] = 0.0;
  }

  void rows_moved() override { span_.rebuild(size(), rows()); }
  void kernel_changed() override {
    rows_moved();
    // A matrix of dependent examples is so ill-conditioned that one eviction spoils its inverse: it is rebuilt after each.
    span_.evict_dependent(eta_ * eta_, [this](std::size_t r) {
      evict(r);
      rows_moved();
    });
  }

  void save_rule(State& state) override {
    span_.save(state);
    auto& keys = state.integers["table_key"];
    auto& clusters = state.integers["table_cluster"];
    auto& stamps = state.integers["table_stamp"];
    auto& common = state.integers["table_common"];
    auto& values = state.reals["table"];
    for (std::size_t at = 0; at < table_.size(); ++at) {
      const auto& row = table_.row(at);
      keys.push_back(row.name.id);
      clusters.push_back(row.cluster);
      stamps.push_back(row.stamp);
      common.push_back(row.name.common);
      for (std::size_t o = 0; o < config_.n_outputs; ++o)
        values.insert(values.end(), table_.values(at) + o * stride_, table_.values(at) + o * stride_ + size());
    }
    state.reals["table_squares"].assign(squares_.begin(), squares_.begin() + static_cast<std::ptrdiff_t>(size()));
  }

  void load_rule(const State& state) override {
    span_.load(state, size(), rows());
    const auto& keys = state.integers.at("table_key");
    const auto& clusters = state.integers.at("table_cluster");
    const auto& stamps = state.integers.at("table_stamp");
    const auto& common = state.integers.at("table_common");
    const auto& values = state.reals.at("table");
    const std::size_t n = keys.size(), width = config_.n_outputs * size();
    if (clusters.size() != n || stamps.size() != n || common.size() != n || values.size() != n * width || (max_rows_ && n > max_rows_))
      throw std::invalid_argument("a saved model whose weight rows do not agree in number");
    for (std::size_t i = 0; i < n; ++i) {
      const RowTable::Name name{keys[i], common[i] != 0};
      if (table_.find(name) != RowTable::kNone) throw std::invalid_argument("a saved model with one weight row twice");
      if (explicit_ && (keys[i] < 0 || static_cast<std::size_t>(keys[i]) >= explicit_->tasks()))
        throw std::invalid_argument("a saved model with a weight row of a task that its graph does not have");
      table_.reserve(1);
      const auto at = table_.add(name, clusters[i]);
      for (std::size_t o = 0; o < config_.n_outputs; ++o)
        std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(i * width + o * size()), size(),
                    table_.values(at) + o * stride_);
    }
    std::vector<std::uint32_t> by_age(n);
    for (std::size_t i = 0; i < n; ++i) by_age[i] = static_cast<std::uint32_t>(i);
    std::sort(by_age.begin(), by_age.end(), [&](auto a, auto b) {
      return stamps[a] != stamps[b] ? stamps[a] < stamps[b] : common[a] < common[b];
    });
    for (const auto at : by_age) table_.touch(at, stamps[at]);
    for (std::size_t at = 0; at < table_.size(); ++at)
      if (table_.row(at).name.common) table_.row(at).members = rows_of_cluster(table_.row(at).cluster);
    const auto squares = state.reals.find("table_squares");
    if (squares != state.reals.end() && squares->second.size() == size())
      std::copy(squares->second.begin(), squares->second.end(), squares_.begin());
    else
      measure();
  }

 private:
  bool small_eta() const {
    const bool normalised = config_.kernel.kind == Kernel::Kind::gaussian || config_.kernel.normalize;
    return !normalised || eta_ < 1e-2;
  }

  Gram::RowOf rows() {
    return [this](std::size_t slot, double* row) { store_->kernel_row_of_slot(config_.kernel, slot, true, row); };
  }

  // The rows of C that make up β of a task, each with its factor.
  template <class Use>
  void visit(Task task, Similarity::Workspace* workspace, Use use) const {
    if (clique_) {
      const double off = coupled() ? clique_->off : 0.0;
      const auto own = table_.find({task.key, false});
      if (own != RowTable::kNone && clique_->diagonal != off) use(clique_->diagonal - off, table_.values(own));
      if (off == 0.0) return;
      const auto common = table_.find({task.cluster, true});
      if (common != RowTable::kNone) use(off, table_.values(common));
      return;
    }
    const double* column = explicit_->column(task.key, workspace);
    for (std::size_t at = 0; at < table_.size(); ++at)
      if (table_.row(at).cluster == task.cluster) use(column[table_.row(at).name.id], table_.values(at));
  }

  bool coupled() const { return clique_ && clique_->off != 0.0; }

  // The task's row and its cluster's common row are there and the most recently updated from here on.
  void open_rows(Task task) {
    row_for({task.key, false}, task);
    if (coupled()) row_for({task.cluster, true}, task);
  }

  // C_{i_t} += step ⊗ v, and the same to the common row.
  void update(Task task, const Step& step, const double* v, std::size_t n) {
    add(table_.values(table_.find({task.key, false})), step, v, n, true, task);
    if (coupled()) add(table_.values(table_.find({task.cluster, true})), step, v, n, false, task);
  }
  void update_slot(Task task, const Step& step, std::size_t slot) {
    std::fill(span_.alpha.begin(), span_.alpha.begin() + static_cast<std::ptrdiff_t>(size()), 0.0);
    span_.alpha[slot] = 1.0;
    update(task, step, span_.alpha.data(), size());
  }

  void add(double* row, const Step& step, const double* v, std::size_t n, bool own, Task task) {
    const auto one = [&](std::size_t o, double sign) {
      double* c = row + o * stride_;
      if (own) count(c, sign, v, n, o, task);
      simd().axpy(sign, v, n, c);
    };
    one(step.plus, step.sign);
    if (step.minus < config_.n_outputs) one(step.minus, -step.sign);
  }

  // Keeps squares_j: for cliques Σ_l C_lj², for other graphs Σ_l β_lj² = C_jᵀ A⁻² C_j. c is a row before it moves by sign·v.
  void count(const double* c, double sign, const double* v, std::size_t n, std::size_t output, Task task) {
    if (clique_) {
      for (std::size_t j = 0; j < n; ++j) squares_[j] += v[j] * (v[j] + 2.0 * sign * c[j]);
      return;
    }
    double* twice = explicit_->vector(workspace());  // the task's column of A⁻²
    std::fill_n(twice, explicit_->tasks(), 0.0);
    twice[task.key] = 1.0;
    explicit_->apply_twice(twice, workspace());
    for (std::size_t at = 0; at < table_.size(); ++at) {
      const double share = twice[static_cast<std::size_t>(table_.row(at).name.id)];
      const double* other = table_.values(at) + output * stride_;
      for (std::size_t j = 0; j < n; ++j) squares_[j] += 2.0 * sign * share * v[j] * other[j];
    }
    const double self = twice[static_cast<std::size_t>(task.key)];
    for (std::size_t j = 0; j < n; ++j) squares_[j] += self * v[j] * v[j];
  }

  std::uint32_t row_for(RowTable::Name name, Task task) {
    auto at = table_.find(name);
    if (at == RowTable::kNone) {
      if (table_.at_limit()) fold_one(task);
      at = table_.add(name, task.cluster);
      if (coupled()) {
        const auto common = table_.find({task.cluster, true});
        if (name.common)
          table_.row(at).members = rows_of_cluster(task.cluster);
        else if (common != RowTable::kNone)
          ++table_.row(common).members;
      }
    }
    table_.touch(at, n_seen_);
    return at;
  }

  std::int64_t rows_of_cluster(std::int64_t cluster) const {
    std::int64_t rows = 0;
    for (std::size_t at = 0; at < table_.size(); ++at)
      rows += !table_.row(at).name.common && table_.row(at).cluster == cluster;
    return rows;
  }

  // Drops the least recently updated row that is not the current example's. A task's part in the common row stays.
  void fold_one(Task task) {
    auto at = table_.oldest();
    while (at != RowTable::kNone &&
           (table_.row(at).name == RowTable::Name{task.key, false} || table_.row(at).name == RowTable::Name{task.cluster, true}))
      at = table_.newer(at);
    if (at == RowTable::kNone) return;
    if (table_.row(at).name.common)
      table_.drop(at);
    else
      drop_task_row(at);
  }

  void drop_task_row(std::uint32_t at) {
    const Task task{table_.row(at).name.id, table_.row(at).cluster};
    for (std::size_t o = 0; o < config_.n_outputs; ++o) {
      const double* row = table_.values(at) + o * stride_;
      count(row, -1.0, row, size(), o, task);
    }
    const auto common = table_.find({task.cluster, true});
    if (common != RowTable::kNone) --table_.row(common).members;
    table_.drop(at);
  }

  template <class RootDiagonal>
  std::size_t cheapest(RootDiagonal root_diagonal) {
    auto& scores = span_.scores;
    for (std::size_t j = 0; j < size(); ++j) scores[j] = squares_[j];
    if (coupled()) {
      const double d = clique_->diagonal - clique_->off, o = clique_->off;
      for (std::size_t j = 0; j < size(); ++j) scores[j] *= d * d;
      for (std::size_t at = 0; at < table_.size(); ++at) {
        if (!table_.row(at).name.common) continue;
        const double n = config_.n_tasks ? static_cast<double>(config_.n_tasks) : static_cast<double>(table_.row(at).members);
        const double share = 2.0 * d * o + n * o * o;
        for (std::size_t out = 0; out < config_.n_outputs; ++out) {
          const double* s = table_.values(at) + out * stride_;
          for (std::size_t j = 0; j < size(); ++j) scores[j] += share * s[j] * s[j];
        }
      }
    }
    // The squares are kept from step to step: what is left of one that cancelled is rounding.
    const double nothing = 1e-14 * *std::max_element(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(size()));
    for (std::size_t j = 0; j < size(); ++j)
      scores[j] = scores[j] > nothing ? std::sqrt(scores[j]) / root_diagonal(j) : 0.0;
    return lowest_arrival(scores.data(), size());
  }

  void evict(std::size_t r) {
    span_.set_eviction(r);
    distribute(r);
    span_.remove(r);
    remove(r);
  }

  // In every row C_lj += γ_j C_lr; slot r gets γ_r C_lr, the share of the new example (0 if there is none).
  void distribute(std::size_t r) {
    if (explicit_) follow(r);
    if (clique_) std::fill(squares_.begin(), squares_.begin() + static_cast<std::ptrdiff_t>(size()), 0.0);
    for (std::size_t at = 0; at < table_.size(); ++at)
      for (std::size_t o = 0; o < config_.n_outputs; ++o) {
        double* row = table_.values(at) + o * stride_;
        const double lost = row[r];
        row[r] = 0.0;
        if (clique_ && !table_.row(at).name.common)
          simd().axpy_squares(lost, span_.gamma.data(), size(), row, squares_.data());
        else
          simd().axpy(lost, span_.gamma.data(), size(), row);
      }
  }

  // C_jᵀA⁻²C_j under C_j += γ_j C_r, before the rows change.
  void follow(std::size_t r) {
    Vec<double>& cross = cross_;
    std::fill_n(cross.begin(), size(), 0.0);
    double* twice = explicit_->vector(workspace());
    for (std::size_t o = 0; o < config_.n_outputs; ++o) {
      std::fill_n(twice, explicit_->tasks(), 0.0);
      for (std::size_t at = 0; at < table_.size(); ++at) twice[table_.row(at).name.id] = table_.values(at)[o * stride_ + r];
      explicit_->apply_twice(twice, workspace());
      for (std::size_t at = 0; at < table_.size(); ++at)
        simd().axpy(twice[static_cast<std::size_t>(table_.row(at).name.id)], table_.values(at) + o * stride_, size(), cross.data());
    }
    const double gone = cross[r];
    for (std::size_t j = 0; j < size(); ++j) squares_[j] += span_.gamma[j] * (2.0 * cross[j] + span_.gamma[j] * gone);
    squares_[r] = span_.gamma[r] * span_.gamma[r] * gone;
  }

  // Computes the squares for a saved model without them, as if its rows were added one after the other.
  void measure() {
    Vec<Vec<double>> rows(bytes_);
    for (std::size_t at = 0; at < table_.size(); ++at) {
      rows.emplace_back(bytes_);
      rows.back().assign(table_.values(at), table_.values(at) + config_.n_outputs * stride_);
      std::fill(table_.values(at), table_.values(at) + config_.n_outputs * stride_, 0.0);
    }
    for (std::size_t at = 0; at < table_.size(); ++at)
      for (std::size_t o = 0; o < config_.n_outputs; ++o) {
        double* row = table_.values(at) + o * stride_;
        const double* saved = rows[at].data() + o * stride_;
        if (!table_.row(at).name.common) count(row, 1.0, saved, size(), o, {table_.row(at).name.id, table_.row(at).cluster});
        std::copy_n(saved, size(), row);
      }
  }

  const double eta_;
  const std::size_t max_rows_;  // 0: no cap
  const Clique* clique_;
  const Explicit* explicit_;
  Span span_;
  RowTable table_;
  Vec<double> squares_;
  Vec<double> cross_;  // for follow()
  std::size_t stride_;
};

const Registered registered("shared_projectron", {"eta", "max_task_rows"}, make_counted<SharedProjectron>);

}  // namespace

}  // namespace budgetron
