// Weights with a full covariance matrix P, stored as its lower triangle:  f = theta·phi,  V = phi' P phi.
//
//   learn:  t = P phi,   theta += alpha t,   P -= c t t'     (done in the next pass over P, so that P is read once per example)
#pragma once

#include <algorithm>
#include <cstddef>

#include "algebra/gram.hpp"
#include "memory.hpp"
#include "simd/simd.hpp"

namespace budgetron {

class Covariance {
 public:
  Covariance(Bytes& bytes, std::size_t outputs) : outputs_(outputs), p_(bytes), theta_(bytes), t_(bytes), work_(bytes) {}

  std::size_t size() const { return n_; }
  double* theta(std::size_t output) { return theta_.data() + output * n_; }
  const double* theta(std::size_t output) const { return theta_.data() + output * n_; }
  double* triangle_data() { return p_.data(); }

  // Adds features with this prior variance. If it throws, nothing has changed.
  void extend(std::size_t more, double prior) {
    settle();
    const std::size_t n = n_ + more;
    Bytes& bytes = *p_.get_allocator().bytes;
    Vec<double> p(bytes, triangle(n)), theta(bytes, outputs_ * n), t(bytes, n), work(bytes, n);
    std::copy(p_.begin(), p_.end(), p.begin());
    for (std::size_t j = n_; j < n; ++j) p[triangle(j) + j] = prior;
    for (std::size_t o = 0; o < outputs_; ++o) std::copy_n(theta_.data() + o * n_, n_, theta.data() + o * n);
    p_.swap(p);
    theta_.swap(theta);
    t_.swap(t);
    work_.swap(work);
    n_ = n;
  }

  // t = P phi; returns phi' P phi.
  double spread(const double* phi) {
    simd().symmetric_pass(p_.data(), n_, pending_ != 0.0, pending_, t_.data(), 0.0, nullptr, phi, work_.data());
    pending_ = 0.0;
    t_.swap(work_);
    return std::max(0.0, simd().dot(t_.data(), phi, n_));
  }

  // The mean variance of the weights after the first `skipped` ones.
  double mean_variance(std::size_t skipped) {
    settle();
    double sum = 0;
    for (std::size_t j = skipped; j < n_; ++j) sum += p_[triangle(j) + j];
    return sum / static_cast<double>(n_ - skipped);
  }

  // After spread().
  void learn(const double* alpha, double c) {
    for (std::size_t o = 0; o < outputs_; ++o) simd().axpy(alpha[o], t_.data(), n_, theta(o));
    pending_ = -c;
  }

  // Raises variances that have fallen below `least` a little. Only after learn().
  void hold_floor(double least) {
    settle();
    for (std::size_t j = 0; j < n_; ++j) {
      double& variance = p_[triangle(j) + j];
      if (variance < least) variance += 0.01 * least;
    }
  }

  // Applies the pending update. The arithmetic is that of spread(), so that P does not depend on which of them applies it.
  void settle() {
    if (pending_ == 0.0) return;
    simd().symmetric_pass(p_.data(), n_, 1, pending_, t_.data(), 0.0, nullptr, t_.data(), work_.data());
    pending_ = 0.0;
  }

 private:
  std::size_t n_ = 0, outputs_;
  double pending_ = 0.0;  // P += pending t t' is still to be done
  Vec<double> p_, theta_, t_, work_;
};

}  // namespace budgetron
