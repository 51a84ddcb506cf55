#include "algebra/gram.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

namespace budgetron {

namespace {

// The Cholesky factor of H, packed. A pivot that rounding made too small is held at the smallest that is safe.
std::vector<double> factor_of(std::size_t n, const Gram::RowOf& row_of, double least) {
  std::vector<double> l(triangle(n)), row(n);
  for (std::size_t i = 0; i < n; ++i) {
    row_of(i, row.data());
    double* at = l.data() + triangle(i);
    for (std::size_t j = 0; j < i; ++j) {
      const double* other = l.data() + triangle(j);
      at[j] = (row[j] - simd().dot(at, other, j)) / other[j];
    }
    const double pivot = row[i] - simd().dot(at, at, i);
    at[i] = std::sqrt(std::max(pivot, least * std::max(row[i], 1e-300)));
  }
  return l;
}

}  // namespace

void InverseGram::rebuild(std::size_t n, const RowOf& row_of, double least) {
  const std::vector<double> l = factor_of(n, row_of, least);
  reserve(n);
  n_ = n;
  terms_ = 0;
  std::vector<double> x(n);
  for (std::size_t c = 0; c < n; ++c) {  // column c of P, kept from the diagonal down
    std::fill(x.begin(), x.end(), 0.0);
    x[c] = 1.0 / l[triangle(c) + c];
    for (std::size_t i = c + 1; i < n; ++i)
      x[i] = -simd().dot(l.data() + triangle(i) + c, x.data() + c, i - c) / l[triangle(i) + i];
    for (std::size_t i = n; i-- > c;) {
      x[i] /= l[triangle(i) + i];
      if (i > c) simd().axpy(-x[i], l.data() + triangle(i) + c, i - c, x.data() + c);
    }
    for (std::size_t i = c; i < n; ++i) p_[triangle(i) + c] = x[i];
    diagonal_[c] = x[c];
  }
}

void CholeskyGram::rebuild(std::size_t n, const RowOf& row_of, double least) {
  const std::vector<double> l = factor_of(n, row_of, least);
  reserve(n);
  n_ = n;
  std::copy(l.begin(), l.end(), l_.begin());
  for (std::size_t i = 0; i < n; ++i) order_[i] = place_[i] = static_cast<std::uint32_t>(i);
  age_ = 0;
  refresh_diagonal();
}

std::unique_ptr<Gram> make_gram(Bytes& bytes, std::size_t capacity, bool growing, bool small_eta) {
  if (small_eta) return std::make_unique<CholeskyGram>(bytes, capacity, growing);
  return std::make_unique<InverseGram>(bytes, capacity, growing);
}

}  // namespace budgetron
