// The weights of all tasks over the stored examples: (β_l)_j for task l and slot j.
//
// The table stores C, where β = A⁻¹C and A is the interaction matrix of the tasks. So an update changes only the row of one task, whatever the number
// of tasks. In a clique, A⁻¹ = (d − o) I + o J inside a cluster, where d is its diagonal, o its other entries and J all ones. β_i is then computed
// from row i and the common row s of the cluster. As long as no row has been evicted at the limit of rows, s is the sum of the rows of the cluster's
// tasks. An update changes s too.
//
// An eviction changes every row. With more rows than slots, that would cost more than the rest of an update. In a clique, evictions are then
// logged and applied to all rows together (CoefficientRows). On other graphs, every margin reads every row, so a log would save nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "learner/learner.hpp"
#include "rules/shared_projectron/coefficient_rows.hpp"
#include "rules/shared_projectron/weight_norms.hpp"

namespace budgetron {

class TaskCoefficients {
 public:
  TaskCoefficients(Bytes& bytes, const Config& config, std::size_t max_rows, std::size_t capacity)
      : clique_(dynamic_cast<const Clique*>(config.similarity.get())),
        explicit_(dynamic_cast<const Explicit*>(config.similarity.get())),
        n_outputs_(config.n_outputs),
        max_rows_(max_rows),
        // The memory planner in Python uses the same condition, which limits the Gram matrix to an eighth of the bytes that the rows may take.
        may_use_gram_(config.capacity != 0 && (max_rows == 0 || max_rows / 4 >= config.capacity)),
        rows_(bytes, config.n_outputs, capacity, max_rows, config.hash_seed),
        table_(rows_.table()),
        norms_(bytes, config, table_, capacity) {
    if (!explicit_ || !may_use_gram_ || explicit_->tasks() < capacity) return;
    norms_.allocate_gram(capacity);
    norms_.use_gram();
  }

  std::size_t rows() const { return table_.size(); }
  bool limited() const { return max_rows_ != 0; }

  // Calls use(output, factor, row) for several rows, such that β of the task is the sum of factor · row. `space` has room for one row.
  template <class Use>
  void visit(Task task, std::size_t n, Similarity::Workspace* workspace, double* space, Use use) const {
    if (clique_) {
      const double off = coupled() ? clique_->off : 0.0;
      const auto own = table_.find({task.id, false});
      if (own != RowTable::kNone && clique_->diagonal != off) visit_row(own, clique_->diagonal - off, n, space, use);
      if (off == 0.0) return;
      const auto common = table_.find({task.cluster, true});
      if (common != RowTable::kNone) visit_row(common, off, n, space, use);
      return;
    }
    // The rows are added up first, several at a time, which is faster than one inner product per row.
    const double* column = explicit_->column(task.id, workspace);
    for (std::size_t o = 0; o < n_outputs_; ++o) {
      std::fill_n(space, n, 0.0);
      norms_.add_rows(column, o, 1.0, 0, n, space, task.cluster);
      use(o, 1.0, space);
    }
  }

  // Adds the rows of all tasks to out (n_outputs × n).
  void add_task_rows(std::size_t n, double* out) const {
    std::vector<double> space(n);
    for (std::uint32_t at = 0; at < table_.size(); ++at)
      if (!table_.row(at).name.common)
        rows_.read(at, n, space.data(), [&](std::size_t o, const double* row) { simd().axpy(1.0, row, n, out + o * n); });
  }

  // scores_j = Σ_l β_lj² up to a common factor, summed over the outputs.
  void squared_norms(std::size_t n, double* scores) const { norms_.read(n, scores); }

  // The number of tasks and clusters among these examples that have no row yet.
  std::size_t count_missing(std::size_t from, std::size_t to, const std::int64_t* task_ids, const std::int64_t* clusters) const {
    const auto count_absent = [&](const std::int64_t* ids, bool common) -> std::size_t {
      if (to - from == 1) return table_.find({ids[from], common}) == RowTable::kNone;
      Bytes temporary;
      Vec<std::int64_t> absent(temporary);
      for (std::size_t i = from; i < to; ++i) {
        if (i > from && ids[i] == ids[i - 1]) continue;  // often all examples are of one cluster
        if (table_.find({ids[i], common}) == RowTable::kNone) absent.push_back(ids[i]);
      }
      return count_distinct(absent);
    };
    return count_absent(task_ids, false) + (coupled() ? count_absent(clusters, true) : 0);
  }

  void reserve(std::size_t more) {
    table_.reserve(more);
    if (may_use_gram_ && clique_ && !norms_.gram_allocated() && table_.size() + more > rows_.stride()) allocate_batches();
  }
  void end_reserve() noexcept { table_.end_reserve(); }

  // Space for more slots. If it throws, the coefficients are unchanged.
  void grow(std::size_t capacity) {
    norms_.grow(capacity);
    rows_.grow(capacity);
    norms_.set_stride(capacity);
  }

  // Makes sure that the task has a row and its cluster a common row, and marks both as the most recently updated.
  void ensure_rows(Task task, std::int64_t stamp, std::size_t n, Similarity::Workspace* workspace) {
    ensure_row({task.id, false}, task, stamp, n, workspace);
    if (coupled()) ensure_row({task.cluster, true}, task, stamp, n, workspace);
    apply_counted_members(n);
    if (!batched() && norms_.gram_allocated() && clique_ && table_.size() > rows_.stride()) norms_.rebuild(true, n, workspace);
  }
  // Applies pending changes of the norms. Call it if no update follows ensure_rows().
  void settle(std::size_t n) { norms_.settle(n); }

  // C_{i_t} += step ⊗ v, and the same to the common row.
  void update(Task task, const Step& step, Direction v, std::size_t n, Similarity::Workspace* workspace) {
    const auto own = table_.find({task.id, false}), common = coupled() ? table_.find({task.cluster, true}) : RowTable::kNone;
    for (const auto at : {own, common})
      if (at != RowTable::kNone) rows_.bring_up_to_date(at, n);
    norms_.step(own, common, step, v, n, workspace);
    for (const auto at : {own, common}) {
      if (at == RowTable::kNone) continue;
      add(rows_.values(at, step.plus), step.sign, v, n);
      if (step.minus < n_outputs_) add(rows_.values(at, step.minus), -step.sign, v, n);
    }
  }

  // Removes the row of a task, and subtracts it from the common row of its cluster.
  void forget(std::int64_t task_id, std::size_t n, Similarity::Workspace* workspace) {
    const auto at = table_.find({task_id, false});
    if (at == RowTable::kNone) return;
    const auto common = table_.find({table_.row(at).cluster, true});
    if (common != RowTable::kNone) {
      rows_.bring_up_to_date(at, n);
      rows_.bring_up_to_date(common, n);
      norms_.add_common(common, -1.0, n);
      simd().axpy(-1.0, table_.values(at), n_outputs_ * rows_.stride(), table_.values(common));
      norms_.add_common(common, 1.0, n);
    }
    drop_task_row(at, n, workspace);
    apply_counted_members(n);
    norms_.settle(n);
  }

  // In every row C_lj += γ_j C_lr; slot r gets γ_r C_lr, the share of the new example (0 if there is none).
  void distribute(std::size_t r, const double* gamma, std::size_t n, Similarity::Workspace* workspace) {
    norms_.evict(r, gamma, n, workspace);
    if (batched()) return rows_.evict(r, gamma, n);
    double* squares = norms_.squares_to_recompute();
    constexpr std::size_t kBlock = 256;
    double* block[kBlock];
    double coefficients[kBlock];
    std::size_t count = 0;
    for (std::size_t at = 0; at < table_.size(); ++at)
      for (std::size_t o = 0; o < n_outputs_; ++o) {
        double* row = rows_.values(at, o);
        if (!squares || table_.row(at).name.common) {
          CoefficientRows::evict(r, gamma, n, row);
          continue;
        }
        block[count] = row;
        coefficients[count++] = row[r];
        row[r] = 0.0;
        if (count < kBlock) continue;
        simd().axpy_squares(coefficients, gamma, n, block, count, squares);
        count = 0;
      }
    if (count) simd().axpy_squares(coefficients, gamma, n, block, count, squares);
  }

  void slot_removed(std::size_t slot, std::size_t last) {
    rows_.slot_removed(slot, last);
    norms_.slot_removed(slot, last);
  }

  void save(State& state, std::size_t n) const {
    rows_.save(state, n, batched());
    norms_.save(state, n);
  }

  void load(const State& state, std::size_t n, Similarity::Workspace* workspace) {
    const auto& task_ids = state.integers.at("table_key");
    const auto& clusters = state.integers.at("table_cluster");
    const auto& stamps = state.integers.at("table_stamp");
    const auto& common = state.integers.at("table_common");
    const auto& table = state.reals.at("table");
    const std::size_t rows = task_ids.size(), width = n_outputs_ * n;
    if (clusters.size() != rows || stamps.size() != rows || common.size() != rows || table.size() != rows * width ||
        (max_rows_ && rows > max_rows_))
      throw std::invalid_argument("saved model: wrong number of weight rows");
    // Earlier versions saved no log: they applied it to all rows before saving, and saved only the number of evictions, `table_evictions`.
    const bool has_log = CoefficientRows::has_log(state);
    const bool in_batches = clique_ && may_use_gram_ && (has_log || state.integers.count("table_evictions") != 0);
    if (in_batches) allocate_batches();
    for (std::size_t i = 0; i < rows; ++i) {
      const RowTable::Name name{task_ids[i], common[i] != 0};
      if (table_.find(name) != RowTable::kNone) throw std::invalid_argument("saved model: a weight row occurs twice");
      if (explicit_ && (task_ids[i] < 0 || static_cast<std::size_t>(task_ids[i]) >= explicit_->tasks()))
        throw std::invalid_argument("saved model: a weight row belongs to a task that is not in the graph");
      table_.reserve(1);
      const auto at = table_.add(name, clusters[i]);
      for (std::size_t o = 0; o < n_outputs_; ++o)
        std::copy_n(table.begin() + static_cast<std::ptrdiff_t>(i * width + o * n), n, rows_.values(at, o));
    }
    std::vector<std::uint32_t> by_age(rows);
    for (std::size_t i = 0; i < rows; ++i) by_age[i] = static_cast<std::uint32_t>(i);
    std::sort(by_age.begin(), by_age.end(), [&](auto a, auto b) {
      return stamps[a] != stamps[b] ? stamps[a] < stamps[b] : common[a] < common[b];
    });
    for (const auto at : by_age) table_.touch(at, stamps[at]);
    for (std::size_t at = 0; at < table_.size(); ++at)
      if (table_.row(at).name.common) table_.row(at).members = rows_of_cluster(table_.row(at).cluster);
    if (has_log) {
      rows_.allocate_log();
      rows_.load_log(state, n);
    }
    if (!in_batches) {  // the model was resized, for example
      rows_.apply_log(n);
      rows_.release_log();
    }
    const bool as_gram = in_batches || norms_.uses_gram();
    if (norms_.load(state, as_gram, n)) return;
    rows_.apply_log(n);
    norms_.rebuild(as_gram, n, workspace);
  }

 private:
  bool coupled() const { return clique_ && clique_->off != 0.0; }
  bool batched() const { return clique_ && norms_.uses_gram(); }

  void allocate_batches() {
    rows_.allocate_log();
    norms_.allocate_gram(rows_.stride());
  }

  static void add(double* c, double sign, Direction v, std::size_t n) {
    if (v.values)
      simd().axpy(sign, v.values, n, c);
    else
      c[v.slot] = flushed(c[v.slot] + sign);
  }

  template <class Use>
  void visit_row(std::uint32_t at, double factor, std::size_t n, double* space, Use use) const {
    rows_.read(at, n, space, [&](std::size_t o, const double* row) { use(o, factor, row); });
  }

  void ensure_row(RowTable::Name name, Task task, std::int64_t stamp, std::size_t n, Similarity::Workspace* workspace) {
    auto at = table_.find(name);
    if (at == RowTable::kNone) {
      if (table_.at_limit()) drop_oldest(task, n, workspace);
      at = table_.add(name, task.cluster);
      if (coupled()) {
        if (name.common)
          table_.row(at).members = rows_of_cluster(task.cluster);
        else
          count_member(task.cluster, 1, n);
      }
    }
    table_.touch(at, stamp);
  }

  std::int64_t rows_of_cluster(std::int64_t cluster) const {
    std::int64_t rows = 0;
    for (std::size_t at = 0; at < table_.size(); ++at) rows += !table_.row(at).name.common && table_.row(at).cluster == cluster;
    return rows;
  }

  // The factor of a common row in the norms depends on the number of its members. At the limit of rows, a new task often replaces another
  // task of the same cluster, and the two changes cancel. So changes are counted here, and apply_counted_members() applies their sum.
  void count_member(std::int64_t cluster, std::int64_t more, std::size_t n) {
    const auto common = table_.find({cluster, true});
    if (common == RowTable::kNone) return;
    if (cluster != counted_cluster_) apply_counted_members(n);
    table_.row(common).members += more;
    counted_cluster_ = cluster;
    counted_ += more;
  }
  void apply_counted_members(std::size_t n) {
    const auto common = counted_ ? table_.find({counted_cluster_, true}) : RowTable::kNone;
    if (common != RowTable::kNone) {
      rows_.bring_up_to_date(common, n);
      norms_.add_members(common, counted_, n);
    }
    counted_ = 0;
  }

  // Evicts the least recently updated row that the current example does not need. If it is the row of a task, the common row still includes it.
  void drop_oldest(Task task, std::size_t n, Similarity::Workspace* workspace) {
    auto at = table_.oldest();
    while (at != RowTable::kNone &&
           (table_.row(at).name == RowTable::Name{task.id, false} || table_.row(at).name == RowTable::Name{task.cluster, true}))
      at = table_.newer(at);
    if (at == RowTable::kNone) return;
    if (!table_.row(at).name.common) return drop_task_row(at, n, workspace);
    apply_counted_members(n);
    rows_.bring_up_to_date(at, n);
    norms_.remove(at, n, workspace);
    rows_.drop(at);
  }

  void drop_task_row(std::uint32_t at, std::size_t n, Similarity::Workspace* workspace) {
    rows_.bring_up_to_date(at, n);
    norms_.remove(at, n, workspace);
    const std::int64_t cluster = table_.row(at).cluster;
    rows_.drop(at);
    count_member(cluster, -1, n);
  }

  const Clique* clique_;  // one of the two is set
  const Explicit* explicit_;
  const std::size_t n_outputs_;
  const std::size_t max_rows_;  // 0: no limit
  const bool may_use_gram_;     // whether norms_ may use a Gram matrix, once there are more rows than slots
  CoefficientRows rows_;
  RowTable& table_;  // of rows_
  WeightNorms norms_;
  std::int64_t counted_cluster_ = 0, counted_ = 0;  // see count_member()
};

}  // namespace budgetron
