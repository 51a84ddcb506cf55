#include "algebra/conjugate_gradients.hpp"

#include <algorithm>
#include <cmath>

#include "simd/simd.hpp"

namespace budgetron {

namespace {

// The iteration ends when the norm of the residual is at most this fraction of the norm of the right-hand side. The relative error of the
// solution can be larger by a factor of up to the condition number of S, so the tolerance is about as small as rounding allows.
constexpr double kTolerance = 1e-14;
constexpr int kRestarts = 4;

double norm(const Vec<double>& v) { return std::sqrt(simd().dot(v.data(), v.data(), v.size())); }

}  // namespace

ConjugateGradients::ConjugateGradients(const SparseMatrix& g) : scale_(g.indptr.size() - 1) {
  const auto first = [&](std::size_t i) { return static_cast<std::size_t>(g.indptr[i]); };
  for (std::size_t i = 0; i < scale_.size(); ++i)
    for (std::size_t e = first(i); e < first(i + 1); ++e)
      if (static_cast<std::size_t>(g.indices[e]) == i && g.data[e] > 0) scale_[i] = 1.0 / std::sqrt(g.data[e]);
  begin_.reserve(scale_.size() + 1);
  column_.reserve(g.indices.size());
  value_.reserve(g.indices.size());
  begin_.push_back(0);
  for (std::size_t i = 0; i < scale_.size(); ++i) {
    for (std::size_t e = first(i); e < first(i + 1); ++e) {
      const auto j = static_cast<std::size_t>(g.indices[e]);
      if (j == i) continue;
      column_.push_back(g.indices[e]);
      value_.push_back(g.data[e] * scale_[i] * scale_[j]);
    }
    begin_.push_back(static_cast<std::int64_t>(column_.size()));
  }
  column_.shrink_to_fit();
  value_.shrink_to_fit();
}

std::size_t ConjugateGradients::bytes() const { return 8 * (scale_.size() + begin_.size() + value_.size()) + 4 * column_.size(); }

void ConjugateGradients::solve(double* y, Work& work) const {
  const std::size_t n = scale_.size();
  auto &b = work.b, &x = work.x, &r = work.r, &product = work.q;
  for (std::size_t i = 0; i < n; ++i) {
    b[i] = r[i] = y[i] * scale_[i];
    x[i] = 0.0;
  }
  const double goal = kTolerance * norm(b);
  // The iteration updates its residual r without ever computing b − S x, so r accumulates rounding errors. After the iteration, the true
  // residual is computed. If it is too large, the iteration is restarted from it, as long as each iteration at least halves the true residual.
  double residual = norm(r);
  for (int restart = 0; restart < kRestarts && residual > goal; ++restart) {
    iterate(0.5 * goal, work);
    multiply(x, product);
    for (std::size_t i = 0; i < n; ++i) r[i] = b[i] - product[i];
    const double before = residual;
    residual = norm(r);
    if (!(residual < 0.5 * before)) break;
  }
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * scale_[i];
}

double ConjugateGradients::multiply(const Vec<double>& p, Vec<double>& q) const {
  double p_dot_q = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    double sum = p[i];
    for (auto e = static_cast<std::size_t>(begin_[i]); e < static_cast<std::size_t>(begin_[i + 1]); ++e)
      sum += value_[e] * p[static_cast<std::size_t>(column_[e])];
    q[i] = sum;
    p_dot_q += p[i] * sum;
  }
  return p_dot_q;
}

// Adds to work.x the solution of S d = r with r = work.r, from d = 0 until ‖r‖ is at most `goal`. Overwrites r, p and q.
void ConjugateGradients::iterate(double goal, Work& work) const {
  auto &r = work.r, &p = work.p, &q = work.q;
  const std::size_t n = r.size();
  std::copy(r.begin(), r.end(), p.begin());
  double square = simd().dot(r.data(), r.data(), n);
  // In exact arithmetic n steps suffice; with rounding, badly conditioned systems take a few times n.
  for (std::size_t step = 0; step < 10 * n + 100 && square > goal * goal; ++step) {
    const double curvature = multiply(p, q);
    if (!(curvature > 0)) break;  // impossible for a positive definite S, so the residual is only rounding error
    const double length = square / curvature, before = square;
    simd().axpy(length, p.data(), n, work.x.data());
    simd().axpy(-length, q.data(), n, r.data());
    square = simd().dot(r.data(), r.data(), n);
    const double beta = square / before;  // makes the new direction conjugate to all earlier ones
    for (std::size_t i = 0; i < n; ++i) p[i] = r[i] + beta * p[i];
  }
}

}  // namespace budgetron
