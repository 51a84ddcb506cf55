// Who learns from whom: (A⁻¹)_ij between the task that is asked about and the tasks of the stored examples.
//
// Always read from the asked task's own column, so that the answer does not depend on what was cached.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "simd/simd.hpp"
#include "memory.hpp"
#include "algebra/sparse_inverse.hpp"

namespace budgetron {

struct Task {
  std::int64_t key;
  std::int64_t cluster;
};

class Similarity {
 public:
  virtual ~Similarity() = default;
  virtual double self(Task task) const = 0;
  // out_j = row_j (A⁻¹)_{task, task_j}, which may be in place; returns Σ_j weights_j out_j
  virtual double multiply(Task task, const std::int64_t* keys, const std::int64_t* clusters, std::size_t n,
                          const double* row, const double* weights, double* out) const = 0;
  void multiply(Task task, const std::int64_t* keys, const std::int64_t* clusters, std::size_t n, double* row) const {
    multiply(task, keys, clusters, n, row, row, row);
  }
  virtual void prepare(const std::int64_t*, std::size_t) const {}  // these tasks will be asked about
  virtual double largest_self() const = 0;  // c_G²
};

// Complete, disconnected and clustered graphs: three values, and no table whatever the number of tasks.
class Clique final : public Similarity {
 public:
  using Similarity::multiply;
  Clique(double diagonal_, double off_) : diagonal(diagonal_), off(off_) {}
  double self(Task) const override { return diagonal; }
  double multiply(Task task, const std::int64_t* keys, const std::int64_t* clusters, std::size_t n, const double* row,
                  const double* weights, double* out) const override {
    return simd().clique(keys, clusters, task.key, task.cluster, diagonal, off, n, row, weights, out);
  }
  double largest_self() const override { return diagonal; }
  const double diagonal, off;
};

// A graph on k named tasks: A⁻¹ as a dense table, or solved column by column from the sparse matrix A.
class Explicit final : public Similarity {
 public:
  using Similarity::multiply;
  using Column = std::shared_ptr<const std::vector<double>>;

  Explicit(std::vector<double> dense, std::size_t k, double c_g2) : k_(k), c_g2_(c_g2), dense_(std::move(dense)) {}

  struct Sparse : SparseMatrix {
    std::vector<std::int64_t> component;  // of each task
    bool singular = false;                // A is a Laplacian: its pseudoinverse is meant
  };
  Explicit(Sparse a, std::size_t k, double c_g2, std::size_t cache_bytes)
      : k_(k),
        c_g2_(c_g2),
        inverse_(std::make_unique<SparseInverse>(a, std::move(a.component), a.singular)),
        cached_(std::max<std::size_t>(1, cache_bytes / (8 * k + 64))) {}

  double self(Task task) const override { return entry(task.key, task.key); }

  double multiply(Task task, const std::int64_t* keys, const std::int64_t*, std::size_t n, const double* row,
                  const double* weights, double* out) const override {
    const Column held = dense_.empty() ? column(task.key) : nullptr;
    const double* similarities = held ? held->data() : dense_.data() + static_cast<std::size_t>(task.key) * k_;
    for (std::size_t j = 0; j < n; ++j) out[j] = row[j] * similarities[keys[j]];
    return simd().dot(weights, out, n);
  }

  double largest_self() const override { return c_g2_; }
  std::size_t tasks() const { return k_; }

  double entry(std::int64_t i, std::int64_t j) const {
    if (!dense_.empty()) return dense_[static_cast<std::size_t>(i) * k_ + static_cast<std::size_t>(j)];
    return (*column(i))[static_cast<std::size_t>(j)];
  }

  // A⁻¹ v over all k tasks.
  std::vector<double> apply(const std::vector<double>& v) const {
    if (inverse_) return inverse_->apply(v);
    std::vector<double> out(k_);
    for (std::size_t i = 0; i < k_; ++i) out[i] = simd().dot(dense_.data() + i * k_, v.data(), k_);
    return out;
  }

  std::size_t bytes() const {
    std::lock_guard<std::mutex> hold(mutex_);
    return dense_.size() * 8 + (inverse_ ? inverse_->bytes() : 0) + recent_.size() * (8 * k_ + 64);
  }

  // Solves for the columns that a block will ask for, as far as they can be kept: what needs much memory is done before
  // anything is learned.
  void prepare(const std::int64_t* keys, std::size_t n) const override {
    if (!inverse_) return;
    std::vector<std::int64_t> missing;
    {
      std::lock_guard<std::mutex> hold(mutex_);
      for (std::size_t i = 0; i < n; ++i)
        if ((i == 0 || keys[i] != keys[i - 1]) && where_.find(keys[i]) == where_.end()) missing.push_back(keys[i]);
    }
    std::sort(missing.begin(), missing.end());
    missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
    if (missing.size() > cached_) missing.resize(cached_);
    for (const std::int64_t i : missing) column(i);
  }

 private:
  Column column(std::int64_t i) const {
    {
      std::lock_guard<std::mutex> hold(mutex_);
      auto found = where_.find(i);
      if (found != where_.end()) {
        recent_.splice(recent_.begin(), recent_, found->second);
        return found->second->second;
      }
    }
    auto solved = std::make_shared<const std::vector<double>>(inverse_->column(i));
    keep(i, solved);
    return solved;
  }

  void keep(std::int64_t i, const Column& solved) const {
    std::lock_guard<std::mutex> hold(mutex_);
    if (where_.find(i) != where_.end()) return;
    while (recent_.size() >= cached_) {
      where_.erase(recent_.back().first);
      recent_.pop_back();
    }
    recent_.emplace_front(i, solved);
    where_[i] = recent_.begin();
  }

  std::size_t k_;
  double c_g2_;
  std::vector<double> dense_;
  std::unique_ptr<SparseInverse> inverse_;
  std::size_t cached_ = 0;
  mutable std::mutex mutex_;
  mutable std::list<std::pair<std::int64_t, Column>> recent_;
  mutable std::unordered_map<std::int64_t, std::list<std::pair<std::int64_t, Column>>::iterator> where_;
};

}  // namespace budgetron
