// The weights of all tasks over the stored examples: (β_l)_j for task l and slot j, and their squared norms Σ_l β_lj².
//
// Stored is C with β = A⁻¹C: an update changes only the row of one task, for any number of tasks. For cliques (A⁻¹ = (d − o) I + o J
// inside a cluster) β_i needs row i and the cluster's common row s, the sum of the rows of its tasks; and
// Σ_l β_lj² = (d − o)² Σ_l C_lj² + (2(d − o) o + n o²) s_j² for n tasks.
//
// The norms are updated with C, because computing them from C would cost tasks × slots per eviction. In the code, `squares_` is
// Σ_l C_lj² for cliques, and Σ_l β_lj² = C_jᵀ A⁻² C_j for other graphs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "rules/learner.hpp"
#include "stores/row_table.hpp"

namespace budgetron {

class TaskCoefficients {
 public:
  TaskCoefficients(Bytes& bytes, const Config& config, std::size_t max_rows, std::size_t capacity)
      : bytes_(bytes),
        clique_(dynamic_cast<const Clique*>(config.similarity.get())),
        explicit_(dynamic_cast<const Explicit*>(config.similarity.get())),
        n_outputs_(config.n_outputs),
        n_tasks_(config.n_tasks),
        max_rows_(max_rows),
        table_(bytes, config.n_outputs * capacity, max_rows, config.hash_seed),
        squares_(bytes, capacity),
        cross_(bytes, explicit_ ? capacity : 0),
        stride_(capacity) {}

  std::size_t rows() const { return table_.size(); }
  bool limited() const { return max_rows_ != 0; }
  std::size_t stride() const { return stride_; }  // between the outputs of a row

  // Calls use(factor, row) for the rows of C that make up β of a task.
  template <class Use>
  void visit(Task task, Similarity::Workspace* workspace, Use use) const {
    if (clique_) {
      const double off = coupled() ? clique_->off : 0.0;
      const auto own = table_.find({task.id, false});
      if (own != RowTable::kNone && clique_->diagonal != off) use(clique_->diagonal - off, table_.values(own));
      if (off == 0.0) return;
      const auto common = table_.find({task.cluster, true});
      if (common != RowTable::kNone) use(off, table_.values(common));
      return;
    }
    const double* column = explicit_->column(task.id, workspace);
    for (std::size_t at = 0; at < table_.size(); ++at)
      if (table_.row(at).cluster == task.cluster) use(column[table_.row(at).name.id], table_.values(at));
  }

  // Adds the rows of all tasks to out (n_outputs × n).
  void add_all(std::size_t n, double* out) const {
    for (std::size_t at = 0; at < table_.size(); ++at) {
      if (table_.row(at).name.common) continue;
      for (std::size_t o = 0; o < n_outputs_; ++o) simd().axpy(1.0, values(at, o), n, out + o * n);
    }
  }

  // scores_j = Σ_l β_lj², summed over the outputs.
  void squared_norms(std::size_t n, double* scores) const {
    std::copy_n(squares_.begin(), n, scores);
    if (!coupled()) return;
    const double d = clique_->diagonal - clique_->off, o = clique_->off;
    for (std::size_t j = 0; j < n; ++j) scores[j] *= d * d;
    for (std::size_t at = 0; at < table_.size(); ++at) {
      if (!table_.row(at).name.common) continue;
      const double members = n_tasks_ ? static_cast<double>(n_tasks_) : static_cast<double>(table_.row(at).members);
      const double share = 2.0 * d * o + members * o * o;
      for (std::size_t out = 0; out < n_outputs_; ++out) {
        const double* s = values(at, out);
        for (std::size_t j = 0; j < n; ++j) scores[j] += share * s[j] * s[j];
      }
    }
  }

  // The number of tasks and clusters among these examples that have no row yet.
  std::size_t missing(std::size_t from, std::size_t to, const std::int64_t* task_ids, const std::int64_t* clusters) const {
    const auto among = [&](const std::int64_t* ids, bool common) -> std::size_t {
      if (to - from == 1) return table_.find({ids[from], common}) == RowTable::kNone;
      Bytes temporary;
      Vec<std::int64_t> absent(temporary);
      for (std::size_t i = from; i < to; ++i) {
        if (i > from && ids[i] == ids[i - 1]) continue;  // often all examples are of one cluster
        if (table_.find({ids[i], common}) == RowTable::kNone) absent.push_back(ids[i]);
      }
      std::sort(absent.begin(), absent.end());
      return static_cast<std::size_t>(std::unique(absent.begin(), absent.end()) - absent.begin());
    };
    return among(task_ids, false) + (coupled() ? among(clusters, true) : 0);
  }

  void reserve(std::size_t more) { table_.reserve(more); }
  void end_reserve() noexcept { table_.end_reserve(); }

  // Space for more slots. If it throws, the coefficients are unchanged.
  void grow(std::size_t capacity) {
    if (squares_.size() < capacity) squares_.resize(capacity);
    if (explicit_ && cross_.size() < capacity) cross_.resize(capacity);
    table_.widen(n_outputs_ * capacity);  // nothing below can fail
    const std::size_t old = stride_;
    for (std::size_t at = 0; at < table_.size(); ++at)  // from the last output back, so that nothing is overwritten
      for (std::size_t o = n_outputs_; o-- > 1;) {
        double* row = table_.values(at);
        std::copy_backward(row + o * old, row + o * old + old, row + o * capacity + old);
        std::fill(row + o * old, row + std::min(o * capacity, o * old + old), 0.0);
      }
    stride_ = capacity;
  }

  // Makes sure that the task has a row and its cluster a common row, and marks both as the most recently updated.
  void open(Task task, std::int64_t stamp, std::size_t n, Similarity::Workspace* workspace) {
    open_row({task.id, false}, task, stamp, n, workspace);
    if (coupled()) open_row({task.cluster, true}, task, stamp, n, workspace);
  }

  // C_{i_t} += step ⊗ v, and the same to the common row.
  void update(Task task, const Step& step, const double* v, std::size_t n, Similarity::Workspace* workspace) {
    add(table_.find({task.id, false}), step, v, n, true, task, workspace);
    if (coupled()) add(table_.find({task.cluster, true}), step, v, n, false, task, workspace);
  }

  // Removes the row of a task, and its part in the common row.
  void forget(std::int64_t task_id, std::size_t n, Similarity::Workspace* workspace) {
    const auto at = table_.find({task_id, false});
    if (at == RowTable::kNone) return;
    const auto common = table_.find({table_.row(at).cluster, true});
    if (common != RowTable::kNone) simd().axpy(-1.0, table_.values(at), n_outputs_ * stride_, table_.values(common));
    drop_task_row(at, n, workspace);
  }

  // In every row C_lj += γ_j C_lr; slot r gets γ_r C_lr, the share of the new example (0 if there is none).
  void distribute(std::size_t r, const double* gamma, std::size_t n, Similarity::Workspace* workspace) {
    if (explicit_) distribute_squares(r, gamma, n, workspace);
    if (clique_) std::fill_n(squares_.begin(), n, 0.0);
    for (std::size_t at = 0; at < table_.size(); ++at)
      for (std::size_t o = 0; o < n_outputs_; ++o) {
        double* row = values(at, o);
        const double lost = row[r];
        row[r] = 0.0;
        if (clique_ && !table_.row(at).name.common)
          simd().axpy_squares(lost, gamma, n, row, squares_.data());
        else
          simd().axpy(lost, gamma, n, row);
      }
  }

  void slot_removed(std::size_t slot, std::size_t last) {
    for (std::size_t at = 0; at < table_.size(); ++at)
      for (std::size_t o = 0; o < n_outputs_; ++o) {
        double* row = values(at, o);
        row[slot] = row[last];
        row[last] = 0.0;
      }
    squares_[slot] = squares_[last];
    squares_[last] = 0.0;
  }

  void save(State& state, std::size_t n) const {
    auto& task_ids = state.integers["table_key"];
    auto& clusters = state.integers["table_cluster"];
    auto& stamps = state.integers["table_stamp"];
    auto& common = state.integers["table_common"];
    auto& table = state.reals["table"];
    for (std::size_t at = 0; at < table_.size(); ++at) {
      const auto& row = table_.row(at);
      task_ids.push_back(row.name.id);
      clusters.push_back(row.cluster);
      stamps.push_back(row.stamp);
      common.push_back(row.name.common);
      for (std::size_t o = 0; o < n_outputs_; ++o) table.insert(table.end(), values(at, o), values(at, o) + n);
    }
    state.reals["table_squares"].assign(squares_.begin(), squares_.begin() + static_cast<std::ptrdiff_t>(n));
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
      throw std::invalid_argument("a saved model whose weight rows do not agree in number");
    for (std::size_t i = 0; i < rows; ++i) {
      const RowTable::Name name{task_ids[i], common[i] != 0};
      if (table_.find(name) != RowTable::kNone) throw std::invalid_argument("a saved model with one weight row twice");
      if (explicit_ && (task_ids[i] < 0 || static_cast<std::size_t>(task_ids[i]) >= explicit_->tasks()))
        throw std::invalid_argument("a saved model with a weight row of a task that its graph does not have");
      table_.reserve(1);
      const auto at = table_.add(name, clusters[i]);
      for (std::size_t o = 0; o < n_outputs_; ++o)
        std::copy_n(table.begin() + static_cast<std::ptrdiff_t>(i * width + o * n), n, values(at, o));
    }
    std::vector<std::uint32_t> by_age(rows);
    for (std::size_t i = 0; i < rows; ++i) by_age[i] = static_cast<std::uint32_t>(i);
    std::sort(by_age.begin(), by_age.end(), [&](auto a, auto b) {
      return stamps[a] != stamps[b] ? stamps[a] < stamps[b] : common[a] < common[b];
    });
    for (const auto at : by_age) table_.touch(at, stamps[at]);
    for (std::size_t at = 0; at < table_.size(); ++at)
      if (table_.row(at).name.common) table_.row(at).members = rows_of_cluster(table_.row(at).cluster);
    const auto squares = state.reals.find("table_squares");
    if (squares != state.reals.end() && squares->second.size() == n)
      std::copy(squares->second.begin(), squares->second.end(), squares_.begin());
    else
      compute_squares(n, workspace);
  }

 private:
  double* values(std::size_t at, std::size_t output) { return table_.values(at) + output * stride_; }
  const double* values(std::size_t at, std::size_t output) const { return table_.values(at) + output * stride_; }

  bool coupled() const { return clique_ && clique_->off != 0.0; }

  void add(std::size_t at, const Step& step, const double* v, std::size_t n, bool own, Task task, Similarity::Workspace* workspace) {
    const auto one = [&](std::size_t o, double sign) {
      double* c = values(at, o);
      if (own) update_squares(c, sign, v, n, o, task, workspace);
      simd().axpy(sign, v, n, c);
    };
    one(step.plus, step.sign);
    if (step.minus < n_outputs_) one(step.minus, -step.sign);
  }

  // Updates squares_ for c += sign · v, where c is the row of `task` for one output. Call it before the row changes.
  void update_squares(const double* c, double sign, const double* v, std::size_t n, std::size_t output, Task task,
                      Similarity::Workspace* workspace) {
    if (clique_) {
      for (std::size_t j = 0; j < n; ++j) squares_[j] += v[j] * (v[j] + 2.0 * sign * c[j]);
      return;
    }
    double* twice = explicit_->vector(workspace);  // the task's column of A⁻²
    std::fill_n(twice, explicit_->tasks(), 0.0);
    twice[task.id] = 1.0;
    explicit_->apply_twice(twice, workspace);
    for (std::size_t at = 0; at < table_.size(); ++at) {
      const double share = twice[static_cast<std::size_t>(table_.row(at).name.id)];
      const double* other = values(at, output);
      for (std::size_t j = 0; j < n; ++j) squares_[j] += 2.0 * sign * share * v[j] * other[j];
    }
    const double self = twice[static_cast<std::size_t>(task.id)];
    for (std::size_t j = 0; j < n; ++j) squares_[j] += self * v[j] * v[j];
  }

  // Updates C_jᵀA⁻²C_j for C_j += γ_j C_r. Call it before the rows change.
  void distribute_squares(std::size_t r, const double* gamma, std::size_t n, Similarity::Workspace* workspace) {
    std::fill_n(cross_.begin(), n, 0.0);  // C_jᵀA⁻²C_r
    double* twice = explicit_->vector(workspace);
    for (std::size_t o = 0; o < n_outputs_; ++o) {
      std::fill_n(twice, explicit_->tasks(), 0.0);
      for (std::size_t at = 0; at < table_.size(); ++at) twice[table_.row(at).name.id] = values(at, o)[r];
      explicit_->apply_twice(twice, workspace);
      for (std::size_t at = 0; at < table_.size(); ++at)
        simd().axpy(twice[static_cast<std::size_t>(table_.row(at).name.id)], values(at, o), n, cross_.data());
    }
    const double square = cross_[r];
    for (std::size_t j = 0; j < n; ++j) squares_[j] += gamma[j] * (2.0 * cross_[j] + gamma[j] * square);
    squares_[r] = gamma[r] * gamma[r] * square;
  }

  // Computes squares_ for a saved model without them, as if its rows were added one after the other.
  void compute_squares(std::size_t n, Similarity::Workspace* workspace) {
    Vec<Vec<double>> saved(bytes_);
    for (std::size_t at = 0; at < table_.size(); ++at) {
      saved.emplace_back(bytes_);
      saved.back().assign(table_.values(at), table_.values(at) + n_outputs_ * stride_);
      std::fill(table_.values(at), table_.values(at) + n_outputs_ * stride_, 0.0);
    }
    for (std::size_t at = 0; at < table_.size(); ++at)
      for (std::size_t o = 0; o < n_outputs_; ++o) {
        const auto& row = table_.row(at);
        const double* source = saved[at].data() + o * stride_;
        if (!row.name.common) update_squares(values(at, o), 1.0, source, n, o, {row.name.id, row.cluster}, workspace);
        std::copy_n(source, n, values(at, o));
      }
  }

  void open_row(RowTable::Name name, Task task, std::int64_t stamp, std::size_t n, Similarity::Workspace* workspace) {
    auto at = table_.find(name);
    if (at == RowTable::kNone) {
      if (table_.at_limit()) drop_oldest(task, n, workspace);
      at = table_.add(name, task.cluster);
      if (coupled()) {
        const auto common = table_.find({task.cluster, true});
        if (name.common)
          table_.row(at).members = rows_of_cluster(task.cluster);
        else if (common != RowTable::kNone)
          ++table_.row(common).members;
      }
    }
    table_.touch(at, stamp);
  }

  std::int64_t rows_of_cluster(std::int64_t cluster) const {
    std::int64_t rows = 0;
    for (std::size_t at = 0; at < table_.size(); ++at) rows += !table_.row(at).name.common && table_.row(at).cluster == cluster;
    return rows;
  }

  // Drops the least recently updated row that is not the current example's. A task's part in the common row stays.
  void drop_oldest(Task task, std::size_t n, Similarity::Workspace* workspace) {
    auto at = table_.oldest();
    while (at != RowTable::kNone &&
           (table_.row(at).name == RowTable::Name{task.id, false} || table_.row(at).name == RowTable::Name{task.cluster, true}))
      at = table_.newer(at);
    if (at == RowTable::kNone) return;
    if (table_.row(at).name.common)
      table_.drop(at);
    else
      drop_task_row(at, n, workspace);
  }

  void drop_task_row(std::uint32_t at, std::size_t n, Similarity::Workspace* workspace) {
    const Task task{table_.row(at).name.id, table_.row(at).cluster};
    for (std::size_t o = 0; o < n_outputs_; ++o) update_squares(values(at, o), -1.0, values(at, o), n, o, task, workspace);
    const auto common = table_.find({task.cluster, true});
    if (common != RowTable::kNone) --table_.row(common).members;
    table_.drop(at);
  }

  Bytes& bytes_;
  const Clique* clique_;  // one of the two is set
  const Explicit* explicit_;
  const std::size_t n_outputs_, n_tasks_;
  const std::size_t max_rows_;  // 0: no limit
  RowTable table_;
  Vec<double> squares_;
  Vec<double> cross_;  // for distribute_squares()
  std::size_t stride_;
};

}  // namespace budgetron
