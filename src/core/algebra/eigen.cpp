// Householder's reduction to a tridiagonal matrix, then QL steps with shifts: the procedures tred2 and tql2 of EISPACK (Wilkinson and Reinsch,
// Handbook for Automatic Computation II, 1971, contributions II/2 and II/3).
#include "algebra/eigen.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace budgetron {

namespace {

// Reduces v to a tridiagonal matrix: d becomes its diagonal, e[1] … e[n − 1] its subdiagonal, and v the orthogonal matrix of the reduction.
void tridiagonalise(double* v, std::size_t n, double* d, double* e) {
  const auto at = [&](std::size_t i, std::size_t j) -> double& { return v[i * n + j]; };
  for (std::size_t j = 0; j < n; ++j) d[j] = at(n - 1, j);
  for (std::size_t i = n - 1; i > 0; --i) {
    // A Householder reflection makes row i zero left of its subdiagonal. d holds the row, divided by `scale` to avoid overflow, and then the
    // vector of the reflection.
    double scale = 0, h = 0;
    for (std::size_t k = 0; k < i; ++k) scale += std::abs(d[k]);
    if (scale == 0) {
      e[i] = d[i - 1];
      for (std::size_t j = 0; j < i; ++j) {
        d[j] = at(i - 1, j);
        at(i, j) = at(j, i) = 0;
      }
    } else {
      for (std::size_t k = 0; k < i; ++k) {
        d[k] /= scale;
        h += d[k] * d[k];
      }
      const double f = d[i - 1], g = f > 0 ? -std::sqrt(h) : std::sqrt(h);
      e[i] = scale * g;
      h -= f * g;
      d[i - 1] = f - g;
      std::fill_n(e, i, 0.0);  // until row i is done, e[0] … e[i − 1] is working memory
      for (std::size_t j = 0; j < i; ++j) {
        const double dj = d[j];
        at(j, i) = dj;
        double sum = e[j] + at(j, j) * dj;
        for (std::size_t k = j + 1; k < i; ++k) {
          sum += at(k, j) * d[k];
          e[k] += at(k, j) * dj;
        }
        e[j] = sum;
      }
      double dot = 0;
      for (std::size_t j = 0; j < i; ++j) {
        e[j] /= h;
        dot += e[j] * d[j];
      }
      const double share = dot / (h + h);
      for (std::size_t j = 0; j < i; ++j) e[j] -= share * d[j];
      for (std::size_t j = 0; j < i; ++j) {
        const double dj = d[j], ej = e[j];
        for (std::size_t k = j; k < i; ++k) at(k, j) -= dj * e[k] + ej * d[k];
        d[j] = at(i - 1, j);
        at(i, j) = 0;
      }
    }
    d[i] = h;
  }
  // Multiplies the reflections together.
  for (std::size_t i = 0; i + 1 < n; ++i) {
    at(n - 1, i) = at(i, i);
    at(i, i) = 1;
    const double h = d[i + 1];
    if (h != 0) {
      for (std::size_t k = 0; k <= i; ++k) d[k] = at(k, i + 1) / h;
      for (std::size_t j = 0; j <= i; ++j) {
        double g = 0;
        for (std::size_t k = 0; k <= i; ++k) g += at(k, i + 1) * at(k, j);
        for (std::size_t k = 0; k <= i; ++k) at(k, j) -= g * d[k];
      }
    }
    for (std::size_t k = 0; k <= i; ++k) at(k, i + 1) = 0;
  }
  for (std::size_t j = 0; j < n; ++j) {
    d[j] = at(n - 1, j);
    at(n - 1, j) = 0;
  }
  at(n - 1, n - 1) = 1;
  e[0] = 0;
}

// Diagonalises the tridiagonal matrix that tridiagonalise() returns. d becomes the eigenvalues. v, the matrix of the reduction, becomes the
// eigenvectors of the original matrix, as columns.
void diagonalise(double* v, std::size_t n, double* d, double* e) {
  for (std::size_t i = 1; i < n; ++i) e[i - 1] = e[i];
  e[n - 1] = 0;
  double shift = 0, largest = 0;
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  for (std::size_t l = 0; l < n; ++l) {
    largest = std::max(largest, std::abs(d[l]) + std::abs(e[l]));
    std::size_t m = l;  // the last row of the block that begins at l and has no negligible subdiagonal entry
    while (m + 1 < n && std::abs(e[m]) > kEpsilon * largest) ++m;
    // An eigenvalue takes about two steps. The limit only guarantees an end if rounding prevents convergence.
    for (int step = 0; m > l && step < 100; ++step) {
      // Subtracts an eigenvalue of the 2 × 2 block at l from the diagonal, so that e[l] becomes small in few steps. `shift` is the sum of what
      // was subtracted.
      double g = d[l], p = (d[l + 1] - g) / (2.0 * e[l]), r = std::hypot(p, 1.0);
      if (p < 0) r = -r;
      d[l] = e[l] / (p + r);
      d[l + 1] = e[l] * (p + r);
      const double next = d[l + 1], h = g - d[l];
      for (std::size_t i = l + 2; i < n; ++i) d[i] -= h;
      shift += h;
      p = d[m];
      double c = 1, c2 = 1, c3 = 1, s = 0, s2 = 0;
      const double before = e[l + 1];
      for (std::size_t i = m; i-- > l;) {  // one rotation (c, s) per row, which is also applied to the columns of v
        c3 = c2;
        c2 = c;
        s2 = s;
        g = c * e[i];
        const double q = c * p;
        r = std::hypot(p, e[i]);
        e[i + 1] = s * r;
        s = e[i] / r;
        c = p / r;
        p = c * d[i] - s * g;
        d[i + 1] = q + s * (c * g + s * d[i]);
        for (std::size_t k = 0; k < n; ++k) {
          double* row = v + k * n + i;
          const double t = row[1];
          row[1] = s * row[0] + c * t;
          row[0] = c * row[0] - s * t;
        }
      }
      p = -s * s2 * c3 * before * e[l] / next;
      e[l] = s * p;
      d[l] = c * p;
      if (std::abs(e[l]) <= kEpsilon * largest) break;
    }
    d[l] += shift;
    e[l] = 0;
  }
}

}  // namespace

void symmetric_eigen(double* v, std::size_t n, double* values, double* work) {
  if (n == 0) return;
  tridiagonalise(v, n, values, work);
  diagonalise(v, n, values, work);
  for (std::size_t i = 0; i + 1 < n; ++i) {  // in ascending order
    const auto least = static_cast<std::size_t>(std::min_element(values + i, values + n) - values);
    if (least == i) continue;
    std::swap(values[i], values[least]);
    for (std::size_t k = 0; k < n; ++k) std::swap(v[k * n + i], v[k * n + least]);
  }
}

}  // namespace budgetron
