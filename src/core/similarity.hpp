// Who learns from whom: (A⁻¹)_ij between the task that is asked about and the tasks of the stored examples.
//
// Always read from the asked task's own column, so that the answer does not depend on what was cached.
#pragma once

#include <cmath>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "hot.hpp"
#include "memory.hpp"

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
    return hot().clique(keys, clusters, task.key, task.cluster, diagonal, off, n, row, weights, out);
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

  struct Sparse {
    std::vector<std::int64_t> indptr;
    std::vector<std::int32_t> indices;
    std::vector<double> data;
    std::vector<std::int64_t> component;  // of each task
    bool singular = false;                // A is a Laplacian: its pseudoinverse is meant
  };
  Explicit(Sparse a, std::size_t k, double c_g2, std::size_t cache_bytes)
      : k_(k), c_g2_(c_g2), a_(std::move(a)), cached_(std::max<std::size_t>(1, cache_bytes / (8 * k + 64))) {}

  double self(Task task) const override { return entry(task.key, task.key); }

  double multiply(Task task, const std::int64_t* keys, const std::int64_t*, std::size_t n, const double* row,
                  const double* weights, double* out) const override {
    const Column held = dense_.empty() ? column(task.key) : nullptr;
    const double* similarities = held ? held->data() : dense_.data() + static_cast<std::size_t>(task.key) * k_;
    for (std::size_t j = 0; j < n; ++j) out[j] = row[j] * similarities[keys[j]];
    return hot().dot(weights, out, n);
  }

  double largest_self() const override { return c_g2_; }
  std::size_t tasks() const { return k_; }

  double entry(std::int64_t i, std::int64_t j) const {
    if (!dense_.empty()) return dense_[static_cast<std::size_t>(i) * k_ + static_cast<std::size_t>(j)];
    return (*column(i))[static_cast<std::size_t>(j)];
  }

  // A⁻¹ v over all k tasks.
  std::vector<double> apply(const std::vector<double>& v) const {
    if (dense_.empty()) return solve(v);
    std::vector<double> out(k_);
    for (std::size_t i = 0; i < k_; ++i) out[i] = hot().dot(dense_.data() + i * k_, v.data(), k_);
    return out;
  }

  std::size_t bytes() const {
    std::lock_guard<std::mutex> hold(mutex_);
    return dense_.size() * 8 + a_.indptr.size() * 8 + a_.indices.size() * 4 + a_.data.size() * 8 +
           a_.component.size() * 8 + recent_.size() * (8 * k_ + 64);
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
    std::vector<double> unit(k_);
    unit[static_cast<std::size_t>(i)] = 1.0;
    auto solved = std::make_shared<const std::vector<double>>(solve(unit));
    std::lock_guard<std::mutex> hold(mutex_);
    if (where_.find(i) == where_.end()) {
      while (recent_.size() >= cached_) {
        where_.erase(recent_.back().first);
        recent_.pop_back();
      }
      recent_.emplace_front(i, solved);
      where_[i] = recent_.begin();
    }
    return solved;
  }

  void center(std::vector<double>& v) const {  // onto the range of a Laplacian: mean 0 on every component
    std::vector<double> sum(k_), count(k_);
    for (std::size_t i = 0; i < k_; ++i) {
      sum[static_cast<std::size_t>(a_.component[i])] += v[i];
      count[static_cast<std::size_t>(a_.component[i])] += 1;
    }
    for (std::size_t i = 0; i < k_; ++i) {
      const auto c = static_cast<std::size_t>(a_.component[i]);
      v[i] -= sum[c] / count[c];
    }
  }

  // Conjugate gradients, preconditioned by the diagonal. A = I + L is well conditioned (at most 1 + 2 max degree).
  std::vector<double> solve(std::vector<double> b) const {
    if (a_.singular) center(b);
    std::vector<double> x(k_), z(k_), p(k_), q(k_), inverse(k_);
    for (std::size_t i = 0; i < k_; ++i) {
      double d = 0;
      for (auto e = a_.indptr[i]; e < a_.indptr[i + 1]; ++e)
        if (static_cast<std::size_t>(a_.indices[static_cast<std::size_t>(e)]) == i) d = a_.data[static_cast<std::size_t>(e)];
      inverse[i] = d > 0 ? 1.0 / d : 1.0;
    }
    std::vector<double>& r = b;
    double norm = std::sqrt(hot().dot(r.data(), r.data(), k_));
    const double enough = 1e-14 * norm;
    for (std::size_t i = 0; i < k_; ++i) p[i] = z[i] = inverse[i] * r[i];
    double rz = hot().dot(r.data(), z.data(), k_);
    for (std::size_t step = 0; step < 10 * k_ + 100 && norm > enough && rz > 0; ++step) {
      for (std::size_t i = 0; i < k_; ++i) {
        double s = 0;
        for (auto e = a_.indptr[i]; e < a_.indptr[i + 1]; ++e)
          s += a_.data[static_cast<std::size_t>(e)] * p[static_cast<std::size_t>(a_.indices[static_cast<std::size_t>(e)])];
        q[i] = s;
      }
      const double pq = hot().dot(p.data(), q.data(), k_);
      if (!(pq > 0)) break;
      const double a = rz / pq;
      hot().axpy(a, p.data(), k_, x.data());
      hot().axpy(-a, q.data(), k_, r.data());
      const double now = std::sqrt(hot().dot(r.data(), r.data(), k_));
      norm = now;
      for (std::size_t i = 0; i < k_; ++i) z[i] = inverse[i] * r[i];
      const double next = hot().dot(r.data(), z.data(), k_);
      const double keep = next / rz;
      rz = next;
      for (std::size_t i = 0; i < k_; ++i) p[i] = z[i] + keep * p[i];
    }
    if (a_.singular) center(x);
    return x;
  }

  std::size_t k_;
  double c_g2_;
  std::vector<double> dense_;
  Sparse a_;
  std::size_t cached_ = 0;
  mutable std::mutex mutex_;
  mutable std::list<std::pair<std::int64_t, Column>> recent_;
  mutable std::unordered_map<std::int64_t, std::list<std::pair<std::int64_t, Column>>::iterator> where_;
};

}  // namespace budgetron
