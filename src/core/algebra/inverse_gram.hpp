// The Gram matrix H of the stored instances (gram.hpp), represented by its inverse P, a packed triangle.
//
// P has B²/2 numbers for B instances, so reading it from memory takes most of the time of an update. Therefore an update of P is postponed:
// the next projection, which reads all of P anyway, applies it in the same pass.
#pragma once

#include <algorithm>
#include <cstddef>

#include "algebra/gram.hpp"
#include "simd/simd.hpp"

namespace budgetron {

class InverseGram final : public Gram {
 public:
  InverseGram(Bytes& bytes, std::size_t capacity)
      : size_(bytes, sizeof(InverseGram)), p_(bytes), diagonal_(bytes), a_(bytes), h_(bytes), work_(bytes) {
    reserve(capacity);
  }

  std::size_t size() const override { return n_; }

  double project(const double* k, double kk, double* alpha) override {
    simd().symmetric_pass(p_.data(), n_, terms_, ca_, a_.data(), ch_, h_.data(), k, alpha);
    terms_ = 0;
    return kk - simd().dot(k, alpha, n_);
  }

  const double* diagonal() const override { return diagonal_.data(); }

  // Uses the arithmetic of project(), so that P does not depend on which of the two applies an update.
  void settle() override {
    if (!terms_) return;
    std::fill(work_.begin(), work_.end(), 0.0);
    simd().symmetric_pass(p_.data(), n_, terms_, ca_, a_.data(), ch_, h_.data(), work_.data(),
                         work_.data() + diagonal_.size());
    terms_ = 0;
  }

  void column(std::size_t r, double* h) override {
    const double* row = p_.data() + triangle(r);
    for (std::size_t j = 0; j <= r; ++j) h[j] = row[j];
    for (std::size_t j = r + 1; j < n_; ++j) h[j] = p_[triangle(j) + r];
  }

  // P gets a row and a column of zeros for the new instance; then e eᵀ/δ² with e = (−α, 1) is added, in the pass of the next project().
  void append(const double*, double, const double* alpha, double delta2) override {
    settle();
    double* row = p_.data() + triangle(n_);
    for (std::size_t j = 0; j < n_; ++j) {
      a_[j] = -alpha[j];
      row[j] = 0.0;
    }
    a_[n_] = 1.0;
    row[n_] = 0.0;
    diagonal_[n_] = 0.0;
    ++n_;
    set_pending(1, 1.0 / delta2, 0.0);
  }

  // Removes r and adds the new instance in its slot, both in the pass of the next project():
  //
  //   P − h hᵀ/h_r + a aᵀ/(δ² + α_r²/h_r),   a = α − h α_r/h_r, with a_r = −1        h = P_·r
  //
  // a has the coefficients of the new instance's projection onto the instances other than r, and −1 for the new instance itself. The inverse
  // for all B + 1 instances is never computed, because it can be ill-conditioned.
  void replace(std::size_t r, const double*, double, const double* alpha, double delta2, const double* h) override {
    settle();
    const double share = alpha[r] / h[r];
    for (std::size_t j = 0; j < n_; ++j) {
      a_[j] = alpha[j] - h[j] * share;
      h_[j] = h[j];
    }
    a_[r] = -1.0;
    set_pending(2, 1.0 / (delta2 + alpha[r] * share), -1.0 / h[r]);
  }

  void remove(std::size_t r) override {
    settle();
    column(r, h_.data());
    const double c = -1.0 / h_[r];
    for (std::size_t i = 0; i < n_; ++i) {
      double* row = p_.data() + triangle(i);
      for (std::size_t j = 0; j <= i; ++j) row[j] += c * h_[i] * h_[j];
    }
    const std::size_t last = n_ - 1;
    if (r != last) {
      for (std::size_t j = 0; j < r; ++j) p_[triangle(r) + j] = p_[triangle(last) + j];
      for (std::size_t i = r + 1; i < last; ++i) p_[triangle(i) + r] = p_[triangle(last) + i];
      p_[triangle(r) + r] = p_[triangle(last) + last];
    }
    n_ = last;
    for (std::size_t j = 0; j < n_; ++j) diagonal_[j] = p_[triangle(j) + j];
  }

  void reserve(std::size_t capacity) override {
    if (capacity <= diagonal_.size()) return;
    p_.resize(triangle(capacity));
    a_.resize(capacity);
    h_.resize(capacity);
    work_.resize(2 * capacity);
    diagonal_.resize(capacity);  // last, because its size is the capacity
  }
  void rebuild(std::size_t n, const RowOf& row_of, double least) override;

  void save(State& state) override {
    settle();
    state.reals["inverse"].assign(p_.begin(), p_.begin() + static_cast<std::ptrdiff_t>(triangle(n_)));
    state.reals["inverse_diagonal"].assign(diagonal_.begin(), diagonal_.begin() + static_cast<std::ptrdiff_t>(n_));
  }

  bool load(const State& state, std::size_t n) override {
    const auto p = state.reals.find("inverse"), d = state.reals.find("inverse_diagonal");
    if (p == state.reals.end() || d == state.reals.end()) return false;
    if (p->second.size() != triangle(n) || d->second.size() != n) return false;
    reserve(n);
    n_ = n;
    terms_ = 0;
    std::copy(p->second.begin(), p->second.end(), p_.begin());
    std::copy(d->second.begin(), d->second.end(), diagonal_.begin());
    return true;
  }

 private:
  // Sets the pending update, and applies it to the diagonal.
  void set_pending(int terms, double ca, double ch) {
    terms_ = terms;
    ca_ = ca;
    ch_ = ch;
    for (std::size_t j = 0; j < n_; ++j) {
      diagonal_[j] += ca * a_[j] * a_[j];
      if (terms == 2) diagonal_[j] += ch * h_[j] * h_[j];
    }
  }

  CountedSize size_;
  std::size_t n_ = 0;
  Vec<double> p_, diagonal_;
  int terms_ = 0;  // pending: nothing (0), P += ca a aᵀ (1), or P += ca a aᵀ + ch h hᵀ (2)
  double ca_ = 0, ch_ = 0;
  Vec<double> a_, h_;
  Vec<double> work_;  // working memory of settle() and rebuild()
};

}  // namespace budgetron
