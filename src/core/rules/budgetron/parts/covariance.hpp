// Weights theta with a full covariance matrix P, stored as its lower triangle. For features phi:  f = theta·phi,  V = phi' P phi.
//
//   learn:  t = P phi,   theta += alpha t,   P -= c t t'
//
// P -= c t t' is postponed to the next pass over P, so that P is read once per example. A large P is stored in float32, which takes half of the
// bytes and about the same time; all arithmetic is in float64. Rounding is harmless, because examples with a small V are skipped
// (kNegligibleStep) long before the entries of c t t' would be lost in rounding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "algebra/gram.hpp"
#include "memory.hpp"
#include "simd/simd.hpp"

namespace budgetron {

class Covariance {
 public:
  Covariance(Bytes& bytes, std::size_t outputs, bool single) : single_(single), outputs_(outputs), p64_(bytes), p32_(bytes), theta_(bytes), t_(bytes), work_(bytes) {}

  std::size_t size() const { return n_; }
  double* theta(std::size_t output) { return theta_.data() + output * n_; }
  const double* theta(std::size_t output) const { return theta_.data() + output * n_; }

  // Bytes of n features.
  static std::size_t bytes(std::size_t n, std::size_t outputs, bool single) {
    return (single ? sizeof(float) : sizeof(double)) * triangle(n) + sizeof(double) * n * (outputs + 2);
  }

  // Calls `use` with the packed triangle, an array of float or of double.
  template <class Use>
  auto with_triangle(Use use) {
    return single_ ? use(p32_) : use(p64_);
  }

  // Adds features with this prior variance. If it throws, nothing has changed.
  void extend(std::size_t more, double prior) {
    settle();
    const std::size_t n = n_ + more;
    Bytes& bytes = *theta_.get_allocator().bytes;
    Vec<double> theta(bytes, outputs_ * n), t(bytes, n), work(bytes, n);
    with_triangle([&](auto& p) {
      std::decay_t<decltype(p)> longer(bytes, triangle(n));
      std::copy(p.begin(), p.end(), longer.begin());
      for (std::size_t j = n_; j < n; ++j) assign(longer[triangle(j) + j], prior);
      p.swap(longer);  // nothing fails from here on
    });
    for (std::size_t o = 0; o < outputs_; ++o) std::copy_n(theta_.data() + o * n_, n_, theta.data() + o * n);
    theta_.swap(theta);
    t_.swap(t);
    work_.swap(work);
    n_ = n;
  }

  // Computes t = P phi and returns phi' P phi.
  double variance(const double* phi) {
    pass(phi);
    t_.swap(work_);
    return std::max(0.0, simd().dot(t_.data(), phi, n_));
  }

  // The mean variance of the weights after the first `skipped` ones.
  double mean_variance(std::size_t skipped) {
    settle();
    double sum = 0;
    with_triangle([&](const auto& p) {
      for (std::size_t j = skipped; j < n_; ++j) sum += static_cast<double>(p[triangle(j) + j]);
    });
    return sum / static_cast<double>(n_ - skipped);
  }

  // Call it after variance() of the same example, which has computed t.
  void learn(const double* alpha, double c) {
    for (std::size_t o = 0; o < outputs_; ++o) simd().axpy(alpha[o], t_.data(), n_, theta(o));
    pending_ = -c;
  }

  // Adds 1 % of `least` to every variance below `least`. Call it after learn(), which needs the t that was computed from the old P. Adding to
  // the diagonal keeps P positive definite.
  void raise_to_floor(double least) {
    settle();
    with_triangle([&](auto& p) {
      for (std::size_t j = 0; j < n_; ++j) {
        auto& variance = p[triangle(j) + j];
        if (static_cast<double>(variance) < least) assign(variance, static_cast<double>(variance) + 0.01 * least);
      }
    });
  }

  // Applies the pending update. Uses the arithmetic of variance(), so that P does not depend on which of the two applies it.
  void settle() {
    if (pending_ != 0.0) pass(t_.data());
  }

 private:
  template <class Number>
  static void assign(Number& to, double value) {
    to = static_cast<Number>(value);
  }

  // Applies the pending update, then work = P x.
  void pass(const double* x) {
    const int terms = pending_ != 0.0;
    if (single_)
      simd().symmetric_pass_f32(p32_.data(), n_, terms, pending_, t_.data(), x, work_.data());
    else
      simd().symmetric_pass(p64_.data(), n_, terms, pending_, t_.data(), 0.0, nullptr, x, work_.data());
    pending_ = 0.0;
  }

  bool single_;
  std::size_t n_ = 0, outputs_;
  double pending_ = 0.0;  // the factor of the pending update P += pending t t'; 0 if there is none
  Vec<double> p64_;
  Vec<float> p32_;
  Vec<double> theta_, t_, work_;
};

}  // namespace budgetron
