// G = βᵀβ, the B × B Gram matrix of the tasks' weights. β_lj is the weight of the stored example j for task l. The diagonal of G holds the
// squared norms Σ_l β_lj². An update takes B²/2 operations, whatever the number of tasks; computing the norms from the weights would take
// tasks × B per eviction.
//
//   β_lj += γ_j β_lr for j ≠ r, β_lr ← γ_r β_lr:   u = G_·r,  G_r· = G_·r = 0,  G += γ mᵀ + m γᵀ,  m = u (0 at r) + ½ G_rr γ
//   β_l += step_l v for every l:                   G += v mᵀ + m vᵀ,  m = Σ_l step_l β_l + ½ Σ_l step_l² v
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "memory.hpp"
#include "simd/simd.hpp"

namespace budgetron {

class WeightGram {
 public:
  explicit WeightGram(Bytes& bytes) : g_(bytes), a_(bytes), v_(bytes), m_(bytes) {}

  // If it throws, the matrix is unchanged.
  void allocate(std::size_t capacity) {
    for (auto* values : {&a_, &v_, &m_}) resize_exactly(*values, whole_registers(capacity));
    resize_exactly(g_, aligned_row(capacity));
  }
  bool allocated() const { return !g_.empty(); }
  double* vector() { return m_.data(); }  // the caller writes m here before add_step()

  // out_j = G_jj, or 0 if rounding has made it negative.
  void diagonal(std::size_t n, double* out) const {
    for (std::size_t j = 0; j < n; ++j) out[j] = std::max(0.0, g_[aligned_row(j) + j] + c_ * a_[j] * a_[j]);
  }

  // G += c a aᵀ. This is postponed to the next change of G, which passes over G anyway; settle() does it at once.
  void add(double c, const double* a, std::size_t n) {
    settle(n);
    c_ = c;
    std::fill(std::copy_n(a, n, a_.begin()), a_.end(), 0.0);  // zeros up to the capacity, because a slot may be added before the pass
  }
  void settle(std::size_t n) {
    if (c_ == 0.0) return;
    for (std::size_t j = 0; j < n; ++j) simd().axpy(c_ * a_[j], a_.data(), j + 1, g_.data() + aligned_row(j));
    c_ = 0.0;
  }

  // Updates G for the eviction of example r: its weights become 0, and γ_j times their former values is added to the weights of every
  // example j.
  void evict(std::size_t r, const double* gamma, std::size_t n) {
    double* row = g_.data() + aligned_row(r);
    for (std::size_t j = 0; j <= r; ++j) m_[j] = take(row[j]);
    for (std::size_t j = r + 1; j < n; ++j) m_[j] = take(g_[aligned_row(j) + r]);
    if (c_ != 0.0) {
      const double ar = c_ * a_[r];
      for (std::size_t j = 0; j < n; ++j) m_[j] += ar * a_[j];
      a_[r] = 0.0;
    }
    const double half = 0.5 * m_[r];
    m_[r] = 0.0;
    for (std::size_t j = 0; j < n; ++j) m_[j] += half * gamma[j];
    symmetric_add(gamma, n);
  }

  // Updates G for a change of the weights by multiples of v. The caller has written m, of the weights before the change, to vector().
  void add_step(const double* v, std::size_t n) { symmetric_add(v, n); }
  // The same for v_slot = 1 and 0 elsewhere.
  void add_step(std::size_t slot, std::size_t n) {
    settle(n);
    double* row = g_.data() + aligned_row(slot);
    for (std::size_t j = 0; j < slot; ++j) row[j] += m_[j];
    row[slot] += 2.0 * m_[slot];
    for (std::size_t j = slot + 1; j < n; ++j) g_[aligned_row(j) + slot] += m_[j];
  }

  // The last slot takes the index of a removed slot, whose entries are 0.
  void slot_removed(std::size_t slot, std::size_t last) {
    settle(last + 1);
    double* from = g_.data() + aligned_row(last);
    if (slot != last) {
      double* row = g_.data() + aligned_row(slot);
      std::copy_n(from, slot, row);
      row[slot] = from[last];
      for (std::size_t j = slot + 1; j < last; ++j) g_[aligned_row(j) + slot] = from[j];
    }
    std::fill_n(from, last + 1, 0.0);
  }

  // A saved matrix has no padding.
  std::vector<double> saved(std::size_t n) const {
    std::vector<double> packed;
    packed.reserve(triangle(n));
    for (std::size_t i = 0; i < n; ++i) packed.insert(packed.end(), g_.data() + aligned_row(i), g_.data() + aligned_row(i) + i + 1);
    return packed;
  }
  void load(const std::vector<double>& saved, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) std::copy_n(saved.data() + triangle(i), i + 1, g_.data() + aligned_row(i));
  }
  static std::size_t triangle(std::size_t i) { return i * (i + 1) / 2; }

 private:
  static double take(double& entry) {
    const double value = entry;
    entry = 0.0;
    return value;
  }
  void symmetric_add(const double* v, std::size_t n) {
    std::copy_n(v, n, v_.begin());
    simd().symmetric_add(g_.data(), n, c_, a_.data(), v_.data(), m_.data());
    c_ = 0.0;
  }

  Vec<double> g_;  // lower triangle; row i begins at aligned_row(i)
  double c_ = 0.0;
  Vec<double> a_;  // pending: G += c a aᵀ
  Vec<double> v_;  // a copy of v, padded for symmetric_add()
  Vec<double> m_;  // working memory, see vector()
};

}  // namespace budgetron
