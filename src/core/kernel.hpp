// Kernels K'(x, x') of feature vectors, computed from inner products and squared norms. The multitask kernel K (learner.hpp) multiplies K' by
// the similarity of the tasks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "simd/simd.hpp"

namespace budgetron {

// Linear and polynomial: (⟨x, x'⟩ + bias)^degree; linear has the degree 1. Gaussian: exp(−gamma ‖x − x'‖²). If `normalize`, K'(x, x') is divided
// by √(K'(x, x) K'(x', x')).
struct Kernel {
  enum class Kind { none, linear, polynomial, gaussian };
  Kind kind = Kind::none;
  double gamma = 1.0;
  double bias = 0.0;
  int degree = 1;
  bool normalize = false;

  // K'(x, x) before normalisation.
  double raw_self(double sq) const {
    if (kind == Kind::gaussian) return 1.0;
    double power = 1.0;
    for (int e = 0; e < degree; ++e) power *= sq + bias;
    return power;
  }

  // K'(x, x) as the learner uses it. If normalised, it is 1, or 0 if raw_self() is 0.
  double self(double sq) const {
    const double raw = raw_self(sq);
    return normalize ? (raw > 0 ? 1.0 : 0.0) : raw;
  }

  // The factor of x in its kernel row: 1/√K'(x, x) if normalised, or 0 if K'(x, x) is 0.
  double scale(double sq) const {
    if (!normalize) return 1.0;
    const double raw = raw_self(sq);
    return raw > 0 ? 1.0 / std::sqrt(raw) : 0.0;
  }

  // Whether normalisation changes kernel values. A Gaussian kernel has K'(x, x) = 1 anyway.
  bool scaled() const { return normalize && kind != Kind::gaussian; }

  // Writes the kernel values of one instance with n stored rows to `out`. `dot` has the inner products of the instance with the rows. `sq` is the
  // squared norm of the instance, `sq_stored` has the squared norms of the rows, and `scale_stored` their scale().
  void row(const float* dot, const float* sq_stored, const double* scale_stored, double sq, std::size_t n,
           double* out) const {
    if (kind == Kind::gaussian)
      simd().gaussian_f32(dot, sq_stored, sq, std::min(gamma, 3e38), n, out);  // a larger γ is infinite in float, and ∞ · 0 is NaN
    else
      simd().polynomial_f32(dot, bias, degree, scaled() ? scale_stored : nullptr, scale(sq), n, out);
  }
  void row(const double* dot, const double* sq_stored, const double* scale_stored, double sq, std::size_t n,
           double* out) const {
    if (kind == Kind::gaussian)
      simd().gaussian_f64(dot, sq_stored, sq, gamma, n, out);
    else
      simd().polynomial_f64(dot, bias, degree, scaled() ? scale_stored : nullptr, scale(sq), n, out);
  }
};

}  // namespace budgetron
