// A shared part of one belief with a whole covariance. For the kernel: weights U over the stored examples, and the
// covariance M of the same shape as their inverse Gram matrix:  f = U·k,  V = kᵀMk. For the linear part on few features
// the same with φ in place of k, of a fixed size.
//
//   learn:    t = M k,   U += t Gᵀ,   M −= c t tᵀ          (put off until the next pass over M)
//   store:    M += s e eᵀ/δ²  with e = (−α, 1)
//   let r go: U += U_r γ,   M_ab += γ_a M_rb + M_ar γ_b + γ_a γ_b M_rr
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "algebra/gram.hpp"
#include "simd/simd.hpp"
#include "memory.hpp"

namespace budgetron {

class Covariance {
 public:
  Covariance(Bytes& bytes, std::size_t capacity, std::size_t outputs) : outputs_(outputs), m_(bytes), u_(bytes), t_(bytes), work_(bytes) {
    reserve(capacity);
  }

  // All of a fixed size at once, at its prior.
  void begin(double variance) {
    n_ = stride_;
    for (std::size_t j = 0; j < n_; ++j) m_[triangle(j) + j] = variance;
  }

  std::size_t size() const { return n_; }
  double* u(std::size_t output) { return u_.data() + output * stride_; }
  const double* u(std::size_t output) const { return u_.data() + output * stride_; }

  // t = M k, returns kᵀ M k (at least 0).
  double spread(const double* k) {
    simd().symmetric_pass(m_.data(), n_, pending_ != 0.0, pending_, t_.data(), 0.0, nullptr, k, work_.data());
    pending_ = 0.0;
    t_.swap(work_);
    return std::max(0.0, simd().dot(t_.data(), k, n_));
  }

  // After spread().
  void learn(const double* g, double c) {
    for (std::size_t o = 0; o < outputs_; ++o) simd().axpy(g[o], t_.data(), n_, u(o));
    pending_ = -c;
  }

  // No variance below this. Only after learn().
  void keep_above(double floor) {
    settle();
    for (std::size_t j = 0; j < n_; ++j) m_[triangle(j) + j] = std::max(m_[triangle(j) + j], floor);
  }

  // ‖U_j‖² + M_jj, what would be lost with j in expectation.
  double stake(std::size_t j) const {
    double sum = m_[triangle(j) + j] + pending_ * t_[j] * t_[j];
    for (std::size_t o = 0; o < outputs_; ++o) sum += u(o)[j] * u(o)[j];
    return sum;
  }

  void append(const double* alpha, double scale) {  // scale is s/δ²
    settle();
    double* row = m_.data() + triangle(n_);
    for (std::size_t j = 0; j < n_; ++j) {
      row[j] = 0.0;
      t_[j] = -alpha[j];
    }
    row[n_] = 0.0;
    t_[n_] = 1.0;
    for (std::size_t o = 0; o < outputs_; ++o) u(o)[n_] = 0.0;
    ++n_;
    pending_ = scale;
    settle();
  }

  // The new example takes slot r: grown first, then r projected on all the others. gamma_r is what the new one takes over.
  void replace(std::size_t r, const double* alpha, double scale, const double* gamma) {
    settle();
    double* m = work_.data();
    column(r, m);
    for (std::size_t j = 0; j < n_; ++j) m[j] += scale * alpha[j] * alpha[r];  // M̃_·r of the B + 1 points
    const double m_rr = m[r];
    m[r] = -scale * alpha[r];  // now the newcomer's
    for (std::size_t j = 0; j < n_; ++j) t_[j] = alpha[j];
    t_[r] = -1.0;
    clear(r);
    for (std::size_t j = 0; j < n_; ++j) m[j] += 0.5 * m_rr * gamma[j];
    simd().symmetric_add(m_.data(), n_, scale, t_.data(), gamma, m);
    for (std::size_t o = 0; o < outputs_; ++o) hand_over(u(o), r, gamma);
  }

  // r goes and nothing comes; the last slot moves into r.
  void remove(std::size_t r, const double* gamma) {
    settle();
    double* m = work_.data();
    column(r, m);
    const double m_rr = m[r];
    clear(r);
    for (std::size_t j = 0; j < n_; ++j) m[j] += 0.5 * m_rr * gamma[j];
    m[r] = 0.0;
    simd().symmetric_add(m_.data(), n_, 0.0, gamma, gamma, m);
    const std::size_t last = n_ - 1;
    for (std::size_t o = 0; o < outputs_; ++o) {
      hand_over(u(o), r, gamma);
      u(o)[r] = u(o)[last];
      u(o)[last] = 0.0;
    }
    if (r != last) {
      for (std::size_t j = 0; j < r; ++j) m_[triangle(r) + j] = m_[triangle(last) + j];
      for (std::size_t i = r + 1; i < last; ++i) m_[triangle(i) + r] = m_[triangle(last) + i];
      m_[triangle(r) + r] = m_[triangle(last) + last];
    }
    n_ = last;
  }

  void save(std::vector<double>& u_out, std::vector<double>& m_out) {
    settle();
    for (std::size_t o = 0; o < outputs_; ++o) u_out.insert(u_out.end(), u(o), u(o) + n_);
    m_out.insert(m_out.end(), m_.begin(), m_.begin() + static_cast<std::ptrdiff_t>(triangle(n_)));
  }
  void load(const double* u_in, const double* m_in, std::size_t n) {
    reserve(n);
    n_ = n;
    for (std::size_t o = 0; o < outputs_; ++o) std::copy_n(u_in + o * n, n, u(o));
    std::copy_n(m_in, triangle(n), m_.begin());
  }

  // Allocates first: where it throws, nothing is changed.
  void reserve(std::size_t capacity) {
    if (capacity <= stride_) return;
    Vec<double> wider(*m_.get_allocator().bytes, outputs_ * capacity);
    m_.resize(triangle(capacity));
    t_.resize(capacity);
    work_.resize(capacity);
    for (std::size_t o = 0; o < outputs_ && stride_; ++o)
      std::copy(u(o), u(o) + stride_, wider.begin() + static_cast<std::ptrdiff_t>(o * capacity));
    u_.swap(wider);
    stride_ = capacity;
  }

  void settle() {  // the same arithmetic as in spread(), so that it does not matter when it happens
    if (pending_ == 0.0) return;
    simd().symmetric_pass(m_.data(), n_, 1, pending_, t_.data(), 0.0, nullptr, t_.data(), work_.data());
    pending_ = 0.0;
  }

 private:
  void column(std::size_t r, double* out) const {
    const double* row = m_.data() + triangle(r);
    for (std::size_t j = 0; j <= r; ++j) out[j] = row[j];
    for (std::size_t j = r + 1; j < n_; ++j) out[j] = m_[triangle(j) + r];
  }
  void clear(std::size_t r) {
    double* row = m_.data() + triangle(r);
    for (std::size_t j = 0; j <= r; ++j) row[j] = 0.0;
    for (std::size_t j = r + 1; j < n_; ++j) m_[triangle(j) + r] = 0.0;
  }
  void hand_over(double* u, std::size_t r, const double* gamma) const {
    const double lost = u[r];
    u[r] = 0.0;
    simd().axpy(lost, gamma, n_, u);
  }
  std::size_t n_ = 0, outputs_, stride_ = 0;
  Vec<double> m_, u_;
  double pending_ = 0.0;  // M += pending t tᵀ is still to be done
  Vec<double> t_, work_;
};

}  // namespace budgetron
