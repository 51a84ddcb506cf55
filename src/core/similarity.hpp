// Task similarities: the entries (A⁻¹)_ij of the inverse of the interaction matrix A, between the task i of an example and the tasks j of the
// stored examples.
//
// Columns of A⁻¹ are computed one at a time, so (A⁻¹)_ij and (A⁻¹)_ji may differ in the last digits. Entries are always read from column i,
// so that results do not depend on which columns are in the cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simd/simd.hpp"
#include "memory.hpp"
#include "algebra/sparse_inverse.hpp"

namespace budgetron {

struct Task {
  std::int64_t id;  // an index into the graph's tasks if the graph names them, otherwise the 64-bit task id (budgetron/graphs/task_ids.py)
  std::int64_t cluster;
};

class Similarity {
 public:
  // Working memory of one caller. It is allocated in advance, so that the functions below cannot fail for lack of memory.
  struct Workspace {
    virtual ~Workspace() = default;
  };

  virtual ~Similarity() = default;
  virtual std::unique_ptr<Workspace> new_workspace(Bytes&) const { return nullptr; }
  virtual double self(Task task, Workspace* workspace) const = 0;  // (A⁻¹)_ii
  // Sets out_j = row_j (A⁻¹)_{task, task_j} and returns Σ_j weights_j out_j. `out` may be `row`.
  virtual double multiply(Task task, const std::int64_t* task_ids, const std::int64_t* clusters, std::size_t n,
                          const double* row, const double* weights, double* out, Workspace* workspace) const = 0;
  void multiply(Task task, const std::int64_t* task_ids, const std::int64_t* clusters, std::size_t n, double* row, Workspace* workspace) const {
    multiply(task, task_ids, clusters, n, row, row, row, workspace);
  }
  // max_i (A⁻¹)_ii, or an upper bound of it for some large graphs: the square of `c_g` in docs/graphs.md.
  virtual double largest_self() const = 0;
};

// Complete, disconnected and clustered graphs. A⁻¹ has at most three different values: one on the diagonal, one within a cluster
// (`off`), and 0 between clusters. So no table is needed, whatever the number of tasks.
class Clique final : public Similarity {
 public:
  using Similarity::multiply;
  Clique(double diagonal_, double off_) : diagonal(diagonal_), off(off_) {}
  double self(Task, Workspace*) const override { return diagonal; }
  double multiply(Task task, const std::int64_t* task_ids, const std::int64_t* clusters, std::size_t n, const double* row,
                  const double* weights, double* out, Workspace*) const override {
    return simd().clique(task_ids, clusters, task.id, task.cluster, diagonal, off, n, row, weights, out);
  }
  double largest_self() const override { return diagonal; }
  const double diagonal, off;
};

// A graph on k tasks as a sparse factor R, where R Rᵀ ≈ A⁻¹ up to a constant factor (budgetron/graphs/factor.py). Rules that
// declare `follows_factor` in Python, such as Budgetron, use this form; all others use Explicit. R is stored by rows: row i begins at starts[i],
// and its columns (`tasks`) are in ascending order.
class Factored final : public Similarity {
 public:
  using Similarity::multiply;
  Factored(std::vector<std::int64_t> starts_, std::vector<std::int32_t> tasks_, std::vector<double> values_)
      : starts(std::move(starts_)), tasks(std::move(tasks_)), values(std::move(values_)) {
    for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
      longest_ = std::max(longest_, static_cast<std::size_t>(starts[i + 1] - starts[i]));
      largest_ = std::max(largest_, product(i, i));
    }
  }
  std::size_t n_tasks() const { return starts.size() - 1; }
  std::size_t longest_row() const { return longest_; }
  double self(Task task, Workspace*) const override { return product(static_cast<std::size_t>(task.id), static_cast<std::size_t>(task.id)); }
  double multiply(Task task, const std::int64_t* task_ids, const std::int64_t*, std::size_t n, const double* row, const double* weights,
                  double* out, Workspace*) const override {
    double sum = 0;
    for (std::size_t j = 0; j < n; ++j) {
      out[j] = row[j] * product(static_cast<std::size_t>(task.id), static_cast<std::size_t>(task_ids[j]));
      sum += weights[j] * out[j];
    }
    return sum;
  }
  double largest_self() const override { return largest_; }

  const std::vector<std::int64_t> starts;
  const std::vector<std::int32_t> tasks;
  const std::vector<double> values;

 private:
  // The inner product of rows i and j of R, which approximates (A⁻¹)_ij up to the constant factor.
  double product(std::size_t i, std::size_t j) const {
    double sum = 0;
    auto b = static_cast<std::size_t>(starts[j]);
    const auto end = static_cast<std::size_t>(starts[j + 1]);
    for (auto a = static_cast<std::size_t>(starts[i]); a < static_cast<std::size_t>(starts[i + 1]); ++a) {
      while (b < end && tasks[b] < tasks[a]) ++b;
      if (b < end && tasks[b] == tasks[a]) sum += values[a] * values[b];
    }
    return sum;
  }

  std::size_t longest_ = 0;
  double largest_ = 0;
};

// A graph on k named tasks. A⁻¹ is a dense table, or its columns are computed on demand from the sparse matrix A.
class Explicit final : public Similarity {
 public:
  using Similarity::multiply;
  using Column = std::shared_ptr<const std::vector<double>>;

  Explicit(std::vector<double> dense, std::size_t k, double c_g2) : k_(k), c_g2_(c_g2), dense_(std::move(dense)) {}

  struct Sparse : SparseMatrix {
    std::vector<std::int64_t> component;  // the connected component of each task
    bool singular = false;                // whether A is a Laplacian, which has no inverse; its pseudoinverse is used instead of A⁻¹
  };
  Explicit(Sparse a, std::size_t k, double c_g2, std::size_t cache_bytes)
      : k_(k),
        c_g2_(c_g2),
        inverse_(std::make_unique<SparseInverse>(a, std::move(a.component), a.singular)),
        max_cached_(std::max<std::size_t>(1, cache_bytes / column_bytes())) {}

  struct ColumnWorkspace final : Workspace {
    ColumnWorkspace(Bytes& bytes, std::size_t k, const SparseInverse* inverse)
        : size_(bytes, sizeof(ColumnWorkspace)), vector(bytes, 2 * k), solved(bytes) {
      if (!inverse) return;
      solved.resize(k);
      work.emplace(bytes, *inverse);
    }
    CountedSize size_;
    Vec<double> vector;  // 2k numbers: the first k are vector(); apply() computes its result in the last k if A⁻¹ is a dense table
    Column held;         // the cached column that was read last; this reference keeps it alive if the cache evicts it
    Vec<double> solved;  // the last column computed here, of task `solved_for`; used again if the cache does not hold it
    std::int64_t solved_for = -1;
    std::optional<SparseInverse::Work> work;
  };
  std::unique_ptr<Workspace> new_workspace(Bytes& bytes) const override {
    return std::make_unique<ColumnWorkspace>(bytes, k_, inverse_.get());
  }

  double self(Task task, Workspace* workspace) const override { return column(task.id, workspace)[task.id]; }

  double multiply(Task task, const std::int64_t* task_ids, const std::int64_t*, std::size_t n, const double* row,
                  const double* weights, double* out, Workspace* workspace) const override {
    const double* similarities = column(task.id, workspace);
    for (std::size_t j = 0; j < n; ++j) out[j] = row[j] * similarities[task_ids[j]];
    return simd().dot(weights, out, n);
  }

  double largest_self() const override { return c_g2_; }
  std::size_t tasks() const { return k_; }

  // Column i of A⁻¹. It stays valid until the next call of column(), self() or multiply() with the same workspace.
  const double* column(std::int64_t i, Workspace* workspace) const {
    if (!inverse_) return dense_.data() + static_cast<std::size_t>(i) * k_;
    auto& work = static_cast<ColumnWorkspace&>(*workspace);
    {
      std::lock_guard<std::mutex> hold(mutex_);
      const auto entry = index_.find(i);
      if (entry != index_.end()) {
        recent_.splice(recent_.begin(), recent_, entry->second);
        work.held = entry->second->second;
        return work.held->data();
      }
    }
    if (work.solved_for != i) {
      inverse_->column(i, work.solved.data(), *work.work);
      work.solved_for = i;
    }
    cache(i, work.solved.data());
    return work.solved.data();
  }

  // Replaces v, which has one number per task, by A⁻¹ v. v may be vector().
  void apply(double* v, Workspace* workspace) const {
    auto& work = static_cast<ColumnWorkspace&>(*workspace);
    if (inverse_) {
      inverse_->apply(v, v, *work.work);
      return;
    }
    double* applied = work.vector.data() + k_;
    simd().symmetric_multiply(dense_.data(), k_, v, applied);
    std::copy_n(applied, k_, v);
  }
  // Working memory for k numbers, for example the argument of apply().
  double* vector(Workspace* workspace) const { return static_cast<ColumnWorkspace&>(*workspace).vector.data(); }

  std::size_t bytes() const {
    std::lock_guard<std::mutex> hold(mutex_);
    return dense_.size() * 8 + (inverse_ ? inverse_->bytes() : 0) + recent_.size() * column_bytes();
  }
  // The bytes that new_workspace() allocates.
  std::size_t workspace_bytes() const {
    return sizeof(ColumnWorkspace) + 16 * k_ + (inverse_ ? 8 * k_ + inverse_->work_bytes() : 0);
  }

 private:
  // Bytes of one column in the cache, including its nodes in the list and in the map.
  std::size_t column_bytes() const { return 8 * k_ + kNodeBytes; }
  static constexpr std::size_t kNodeBytes = 160;  // an upper bound for two nodes, a bucket and the shared_ptr's counters

  // The cache only saves time: if memory runs out, the column is not stored.
  void cache(std::int64_t i, const double* solved) const noexcept {
    std::lock_guard<std::mutex> hold(mutex_);
    if (index_.find(i) != index_.end()) return;
    while (recent_.size() >= max_cached_) {
      index_.erase(recent_.back().first);
      recent_.pop_back();
    }
    try {
      recent_.emplace_front(i, std::make_shared<const std::vector<double>>(solved, solved + k_));
    } catch (const std::bad_alloc&) {
      return;
    }
    try {
      index_[i] = recent_.begin();
    } catch (const std::bad_alloc&) {
      recent_.pop_front();
    }
  }

  std::size_t k_;
  double c_g2_;
  std::vector<double> dense_;
  std::unique_ptr<SparseInverse> inverse_;
  std::size_t max_cached_ = 0;  // how many columns the cache may hold; the least recently used is evicted
  mutable std::mutex mutex_;
  mutable std::list<std::pair<std::int64_t, Column>> recent_;
  mutable std::unordered_map<std::int64_t, std::list<std::pair<std::int64_t, Column>>::iterator> index_;
};

}  // namespace budgetron
