#include "algebra/gram.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "algebra/cholesky_gram.hpp"
#include "algebra/inverse_gram.hpp"

namespace budgetron {

namespace {

// Writes the packed Cholesky factor of H to l. `row` is working memory for n numbers. Gram::rebuild() explains `least`.
void cholesky(std::size_t n, const Gram::RowOf& row_of, double least, double* row, double* l) {
  for (std::size_t i = 0; i < n; ++i) {
    row_of(i, row);
    double* at = l + triangle(i);
    for (std::size_t j = 0; j < i; ++j) {
      const double* other = l + triangle(j);
      at[j] = (row[j] - simd().dot(at, other, j)) / other[j];
    }
    const double pivot = row[i] - simd().dot(at, at, i);
    at[i] = std::sqrt(std::max(pivot, least * std::max(row[i], 1e-300)));
  }
}

}  // namespace

// Works in place, because a byte budget leaves no space for a second matrix. It computes the factor L of H = L Lᵀ, then L⁻¹ row by row, then
// P = L⁻ᵀ L⁻¹ row by row.
void InverseGram::rebuild(std::size_t n, const RowOf& row_of, double least) {
  n_ = n;
  terms_ = 0;
  double* row = work_.data();
  cholesky(n, row_of, least, row, p_.data());
  for (std::size_t i = 0; i < n; ++i) {  // row i of L⁻¹ needs the rows of L⁻¹ before it
    double* at = p_.data() + triangle(i);
    std::fill_n(row, i, 0.0);
    for (std::size_t j = 0; j < i; ++j) simd().axpy(at[j], p_.data() + triangle(j), j + 1, row);
    at[i] = 1.0 / at[i];
    for (std::size_t j = 0; j < i; ++j) at[j] = -at[i] * row[j];
  }
  for (std::size_t r = 0; r < n; ++r) {  // row r of P needs the rows of L⁻¹ from r on
    double* at = p_.data() + triangle(r);
    std::fill_n(row, r + 1, 0.0);
    for (std::size_t i = r; i < n; ++i) simd().axpy(p_[triangle(i) + r], p_.data() + triangle(i), r + 1, row);
    std::copy_n(row, r + 1, at);
    diagonal_[r] = at[r];
  }
}

void CholeskyGram::rebuild(std::size_t n, const RowOf& row_of, double least) {
  n_ = n;
  cholesky(n, row_of, least, work_.data(), l_.data());
  for (std::size_t i = 0; i < n; ++i) slot_of_row_[i] = row_of_slot_[i] = static_cast<std::uint32_t>(i);
  changes_ = 0;
  refresh_diagonal();
}

std::unique_ptr<Gram> make_gram(Bytes& bytes, std::size_t capacity, bool small_eta) {
  if (small_eta) return std::make_unique<CholeskyGram>(bytes, capacity);
  return std::make_unique<InverseGram>(bytes, capacity);
}

}  // namespace budgetron
