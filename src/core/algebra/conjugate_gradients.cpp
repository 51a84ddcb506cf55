#include "algebra/conjugate_gradients.hpp"

#include <algorithm>
#include <cmath>

#include "simd/simd.hpp"

namespace budgetron {

namespace {

// The residual at which a solution is accepted, relative to the right-hand side. The error can be larger by the condition number
// of S, so the tolerance is about as small as rounding allows.
constexpr double kTolerance = 1e-14;
constexpr int kRestarts = 4;

double norm(const Vec<double>& v) { return std::sqrt(simd().dot(v.data(), v.data(), v.size())); }

}  // namespace

ConjugateGradients::ConjugateGradients(const SparseMatrix& g) : root_(g.indptr.size() - 1) {
  const auto first = [&](std::size_t i) { return static_cast<std::size_t>(g.indptr[i]); };
  for (std::size_t i = 0; i < root_.size(); ++i)
    for (std::size_t e = first(i); e < first(i + 1); ++e)
      if (static_cast<std::size_t>(g.indices[e]) == i && g.data[e] > 0) root_[i] = 1.0 / std::sqrt(g.data[e]);
  begin_.reserve(root_.size() + 1);
  to_.reserve(g.indices.size());
  value_.reserve(g.indices.size());
  begin_.push_back(0);
  for (std::size_t i = 0; i < root_.size(); ++i) {
    for (std::size_t e = first(i); e < first(i + 1); ++e) {
      const auto j = static_cast<std::size_t>(g.indices[e]);
      if (j == i) continue;
      to_.push_back(g.indices[e]);
      value_.push_back(g.data[e] * root_[i] * root_[j]);
    }
    begin_.push_back(static_cast<std::int64_t>(to_.size()));
  }
  to_.shrink_to_fit();
  value_.shrink_to_fit();
}

std::size_t ConjugateGradients::bytes() const { return 8 * (root_.size() + begin_.size() + value_.size()) + 4 * to_.size(); }

void ConjugateGradients::solve(double* y, Work& work) const {
  const std::size_t n = root_.size();
  auto &b = work.b, &x = work.x, &r = work.r, &image_of_x = work.q;
  for (std::size_t i = 0; i < n; ++i) {
    b[i] = r[i] = y[i] * root_[i];
    x[i] = 0.0;
  }
  const double goal = kTolerance * norm(b);
  // The iteration updates its residual and never computes it, so rounding errors accumulate in it. After each run the true residual
  // is computed, and the iteration starts again from it while that halves the residual at least.
  double left = norm(r);
  for (int restart = 0; restart < kRestarts && left > goal; ++restart) {
    descend(0.5 * goal, work);
    image(x, image_of_x);
    for (std::size_t i = 0; i < n; ++i) r[i] = b[i] - image_of_x[i];
    const double before = left;
    left = norm(r);
    if (!(left < 0.5 * before)) break;
  }
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * root_[i];
}

double ConjugateGradients::image(const Vec<double>& p, Vec<double>& q) const {
  double product = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    double sum = p[i];
    for (auto e = static_cast<std::size_t>(begin_[i]); e < static_cast<std::size_t>(begin_[i + 1]); ++e)
      sum += value_[e] * p[static_cast<std::size_t>(to_[e])];
    q[i] = sum;
    product += p[i] * sum;
  }
  return product;
}

// Adds to work.x the solution of S d = r with r = work.r, from d = 0 until ‖r‖ is at most `goal`. Overwrites r, p and q.
void ConjugateGradients::descend(double goal, Work& work) const {
  auto &r = work.r, &p = work.p, &q = work.q;
  const std::size_t n = r.size();
  std::copy(r.begin(), r.end(), p.begin());
  double square = simd().dot(r.data(), r.data(), n);
  // In exact arithmetic n steps suffice; with rounding, badly conditioned systems take a few times as many.
  for (std::size_t step = 0; step < 10 * n + 100 && square > goal * goal; ++step) {
    const double curvature = image(p, q);
    if (!(curvature > 0)) break;  // impossible for a positive definite S: what is left is rounding error
    const double length = square / curvature, before = square;
    simd().axpy(length, p.data(), n, work.x.data());
    simd().axpy(-length, q.data(), n, r.data());
    square = simd().dot(r.data(), r.data(), n);
    const double keep = square / before;
    for (std::size_t i = 0; i < n; ++i) p[i] = r[i] + keep * p[i];
  }
}

}  // namespace budgetron
