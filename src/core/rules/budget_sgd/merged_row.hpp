// Computes the row z = h a + (1 − h) b from two rows, dense or sparse, in memory that is allocated beforehand. Used by merging.hpp.
//
// A sparse z has at most as many non-zeros as a and b together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "learner/learner.hpp"

namespace budgetron {

class MergedRow {
 public:
  MergedRow(Bytes& bytes, const Config& config)
      : d_(config.d), sparse_(config.sparse), single_(config.single), max_nonzeros_(config.pool ? std::min(config.pool, config.d) : config.d),
        a_(bytes), b_(bytes), z_(bytes), z32_(bytes), a_features_(bytes), b_features_(bytes), z_features_(bytes) {
    if (!sparse_) {
      a_.resize(d_);
      z_.resize(d_);
    } else if (config.pool) {
      reserve(max_nonzeros_);
    }
  }

  // Sparse rows: allocates space for rows of n non-zeros. If it throws, some arrays may be larger than needed.
  void reserve(std::size_t n) {
    n = std::min(n, max_nonzeros_);
    if (!sparse_ || n <= z_features_.size()) return;
    if (single_) resize_exactly(z32_, n);
    for (auto* values : {&a_, &b_}) resize_exactly(*values, n);
    if (!single_) resize_exactly(z_, n);
    for (auto* features : {&a_features_, &b_features_, &z_features_}) resize_exactly(*features, n);
  }

  // a is a slot or a new instance, b is a slot.
  template <class Row>
  void merge(const Store& store, const Row& a, std::size_t b, double h) {
    if (sparse_) return merge_sparse(read(store, a), store.read(b, b_features_.data(), b_.data()), h);
    store.read(a, a_.data());
    store.read(b, z_.data());
    for (std::size_t f = 0; f < d_; ++f) z_[f] = h * a_[f] + (1.0 - h) * z_[f];
  }

  bool sparse() const { return sparse_; }
  const double* dense() const { return z_.data(); }
  // The result as one CSR row. It stays valid until the next merge() or reserve().
  Rows rows() const {
    Rows r;
    r.count = 1;
    r.d = d_;
    r.indptr = indptr_;
    r.indices = z_features_.data();
    r.data_f32 = z32_.data();
    r.data_f64 = z_.data();
    return r;
  }

 private:
  std::size_t read(const Store& store, std::size_t slot) { return store.read(slot, a_features_.data(), a_.data()); }
  std::size_t read(const Store&, const Instance& x) {
    const auto begin = static_cast<std::size_t>(x.rows->indptr[x.at]), end = static_cast<std::size_t>(x.rows->indptr[x.at + 1]);
    std::size_t n = 0;
    for (std::size_t e = begin; e < end; ++e) {
      const double value = single_ ? static_cast<double>(x.rows->data_f32[e]) : x.rows->data_f64[e];
      if (value == 0) continue;
      a_features_[n] = x.rows->indices[e];
      a_[n++] = value;
    }
    return n;
  }

  void merge_sparse(std::size_t n_a, std::size_t n_b, double h) {
    std::size_t i = 0, j = 0, n = 0;
    while (i < n_a || j < n_b) {
      const bool of_a = j == n_b || (i < n_a && a_features_[i] <= b_features_[j]);
      const bool of_b = i == n_a || (j < n_b && b_features_[j] <= a_features_[i]);
      z_features_[n] = of_a ? a_features_[i] : b_features_[j];
      const double z = (of_a ? h * a_[i] : 0.0) + (of_b ? (1.0 - h) * b_[j] : 0.0);
      i += of_a;
      j += of_b;
      if (single_) z32_[n] = static_cast<float>(z);
      else z_[n] = z;
      if (single_ ? z32_[n] != 0 : z != 0) ++n;
    }
    indptr_[1] = static_cast<std::int64_t>(n);
  }

  const std::size_t d_;
  const bool sparse_, single_;
  const std::size_t max_nonzeros_;  // the largest number of non-zeros of a row
  Vec<double> a_, b_, z_;
  Vec<float> z32_;
  Vec<std::int32_t> a_features_, b_features_, z_features_;
  std::int64_t indptr_[2] = {0, 0};
};

}  // namespace budgetron
