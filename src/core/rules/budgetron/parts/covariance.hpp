// The covariance matrix P of weights, and t = P phi for the features phi of an example.
//
//   multiply:  t = P phi;  V = phi' P phi is the variance of a margin
//   subtract:  P -= c t t', for the t of the last call of multiply()
//
// P -= c t t' is postponed to the next pass over P, so that P is read once per example.
//
// There are two classes, whose members differ only in the arguments of multiply(). `Covariance` stores the lower triangle of P in float64.
// `SingleCovariance` is for Fourier features, whose covariance takes most of the bytes and of the time of a model: it stores P and computes in
// float32. Rounding is harmless there, because examples with a small step are skipped (kNegligibleStep in filter.hpp) long before the entries of
// c t t' would be lost in rounding. Its rows are padded to whole registers (simd.hpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "algebra/gram.hpp"
#include "memory.hpp"
#include "simd/simd.hpp"

namespace budgetron {

class Covariance {
 public:
  explicit Covariance(Bytes& bytes) : p_(bytes), t_(bytes), work_(bytes) {}

  // Bytes of the covariance of n features.
  static std::size_t bytes(std::size_t n) { return sizeof(double) * (triangle(n) + 2 * n); }

  std::size_t size() const { return t_.size(); }
  double variance(std::size_t j) const { return p_[triangle(j) + j]; }
  void set_variance(std::size_t j, double value) { p_[triangle(j) + j] = value; }

  // Adds features with this prior variance. If it throws, nothing has changed.
  void extend(std::size_t more, double prior) {
    settle();
    const std::size_t before = size(), n = before + more;
    Bytes& bytes = *p_.get_allocator().bytes;
    Vec<double> p(bytes, triangle(n)), t(bytes, n), work(bytes, n);
    std::copy(p_.begin(), p_.end(), p.begin());
    p_.swap(p);  // nothing fails from here on
    t_.swap(t);
    work_.swap(work);
    for (std::size_t j = before; j < n; ++j) set_variance(j, prior);
  }

  // Computes t = P phi and returns phi' P phi.
  double multiply(const double* phi) {
    pass(phi);
    t_.swap(work_);
    return std::max(0.0, simd().dot(t_.data(), phi, size()));
  }
  // to += a t
  void add_product(double a, double* to) const { simd().axpy(a, t_.data(), size(), to); }
  void subtract(double c) { pending_ = -c; }

  // Applies the postponed update. Uses the arithmetic of multiply(), so that P does not depend on which of the two applies it.
  void settle() {
    if (pending_ != 0.0) pass(t_.data());
  }

  // The lower triangle, row by row. Call settle() before.
  void save(std::vector<double>& to) const { to.assign(p_.begin(), p_.end()); }
  void load(const std::vector<double>& from) { std::copy(from.begin(), from.end(), p_.begin()); }

 private:
  // Applies the postponed update, then work = P x.
  void pass(const double* x) {
    simd().symmetric_pass(p_.data(), size(), pending_ != 0.0, pending_, t_.data(), 0.0, nullptr, x, work_.data());
    pending_ = 0.0;
  }

  double pending_ = 0.0;  // the factor of the postponed update P += pending t t'; 0 if there is none
  Vec<double> p_, t_, work_;
};

class SingleCovariance {
 public:
  explicit SingleCovariance(Bytes& bytes) : p_(bytes), phi_(bytes), t_(bytes), work_(bytes) {}

  static std::size_t bytes(std::size_t n) { return sizeof(float) * (row(n) + 3 * padded(n)); }

  std::size_t size() const { return n_; }
  double variance(std::size_t j) const { return static_cast<double>(p_[row(j) + j]); }
  void set_variance(std::size_t j, double value) { p_[row(j) + j] = static_cast<float>(value); }

  void extend(std::size_t more, double prior) {
    settle();
    const std::size_t before = n_, n = before + more;
    Bytes& bytes = *p_.get_allocator().bytes;
    Vec<float> p(bytes, row(n)), phi(bytes, padded(n)), t(bytes, padded(n)), work(bytes, padded(n));
    std::copy(p_.begin(), p_.end(), p.begin());  // covariances of new features with other features are 0, and so is the padding of rows
    p_.swap(p);                                  // nothing fails from here on
    phi_.swap(phi);
    t_.swap(t);
    work_.swap(work);
    n_ = n;
    for (std::size_t j = before; j < n; ++j) set_variance(j, prior);
  }

  // phi consists of `columns` linear features and of Fourier features.
  double multiply(const double* linear, std::size_t columns, const float* fourier) {
    std::transform(linear, linear + columns, phi_.begin(), [](double x) { return static_cast<float>(x); });
    std::copy_n(fourier, n_ - columns, phi_.data() + columns);
    pass(phi_.data());
    t_.swap(work_);
    return std::max(0.0, simd().dot_f32(t_.data(), linear, columns) + simd().dot_floats(t_.data() + columns, fourier, n_ - columns));
  }
  void add_product(double a, double* to) const {
    for (std::size_t j = 0; j < n_; ++j) to[j] += a * static_cast<double>(t_[j]);
  }
  // c is not negative. Replaces t by sqrt(c) t: then the products for (i, j) and (j, i) are equal to the last bit, and P stays symmetric.
  void subtract(double c) {
    const auto root = static_cast<float>(std::sqrt(c));
    for (float& value : t_) value *= root;
    pending_ = true;
  }

  void settle() {
    if (pending_) pass(t_.data());
  }

  void save(std::vector<double>& to) const {
    to.clear();
    to.reserve(triangle(n_));
    for (std::size_t i = 0; i < n_; ++i) to.insert(to.end(), p_.begin() + static_cast<std::ptrdiff_t>(row(i)), p_.begin() + static_cast<std::ptrdiff_t>(row(i) + i + 1));
  }
  void load(const std::vector<double>& from) {
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t j = 0; j <= i; ++j) p_[row(i) + j] = static_cast<float>(from[triangle(i) + j]);
    mirror();
  }

 private:
  static std::size_t padded(std::size_t n) { return whole_registers(n, kFloatsPerRegister); }
  static std::size_t row(std::size_t i) { return aligned_row(i, kFloatsPerRegister); }

  // Writes the entries to the right of the diagonal, as far as rows have room for them.
  void mirror() {
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t j = i + 1; j < std::min(n_, padded(i + 1)); ++j) p_[row(i) + j] = p_[row(j) + i];
  }
  void pass(const float* x) {
    simd().symmetric_pass_f32(p_.data(), n_, pending_ ? t_.data() : nullptr, x, work_.data());
    pending_ = false;
  }

  std::size_t n_ = 0;
  bool pending_ = false;  // whether P -= t t' is postponed
  Vec<float> p_, phi_, t_, work_;
};

}  // namespace budgetron
