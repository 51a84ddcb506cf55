// Applies evictions to many rows of coefficients at once.
//
// Included by simd.cpp, which is compiled once per instruction set.
#pragma once

#include <cstdint>

#include "simd/simd.hpp"
#include "simd/vectors.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

// Factors and shares below 1e-150 count as 0: their products would be subnormal numbers, which are slow.
inline bool negligible(double x) { return x < 1e-150 && x > -1e-150; }

// Computes factor[m][q], the coefficient that row q has in the slot of entry m when that entry is applied, and sets that slot of the row to 0.
// Each entry adds to the factors of all later entries, in the same order as if the entries were applied one by one. Returns false if all
// factors are 0.
template <size_t Rows>
inline bool compute_factors(const Evictions& e, size_t from, double* const* row, double (&factor)[kMaxEvictions][Rows]) {
  bool any = false;
  for (size_t l = from; l < e.count; ++l)
    for (size_t q = 0; q < Rows; ++q) {
      double& value = row[q][e.slots[l]];
      factor[l][q] = value;
      any |= value != 0.0;
      value = 0.0;
    }
  if (!any) return false;
  for (size_t m = from; m < e.count; ++m) {
    double a[Rows];
    for (size_t q = 0; q < Rows; ++q) a[q] = factor[m][q] = negligible(factor[m][q]) ? 0.0 : factor[m][q];
    for (size_t l = m + 1; l < e.count; ++l)
      for (size_t q = 0; q < Rows; ++q) factor[l][q] += a[q] * e.between[m * kMaxEvictions + l];
  }
  return true;
}

// Applies the entries to `Registers` registers of each row, beginning at slot j; row[q] points to that slot of row q.
template <size_t Rows, size_t Registers>
inline void replay_columns(const Evictions& e, size_t from, size_t j, const double (&factor)[kMaxEvictions][Rows], double* const* row) {
  using V = Pack<double>::type;
  constexpr size_t w = Pack<double>::lanes;
  V sum[Rows][Registers];
  for (size_t q = 0; q < Rows; ++q)
    for (size_t g = 0; g < Registers; ++g) sum[q][g] = load(row[q] + g * w);
  const double* share = e.shares + from * e.stride + j;
  for (size_t m = from; m < e.count; ++m, share += e.stride) {
    V x[Registers];
    for (size_t g = 0; g < Registers; ++g) x[g] = load(share + g * w);
    for (size_t q = 0; q < Rows; ++q)
      for (size_t g = 0; g < Registers; ++g) add_product(sum[q][g], factor[m][q], x[g]);
  }
  for (size_t q = 0; q < Rows; ++q)
    for (size_t g = 0; g < Registers; ++g) store(row[q] + g * w, sum[q][g]);
}

// Applies the entries to these rows, and prefetches the rows `next` that follow them; null if there are none.
template <size_t Rows>
inline void replay_rows(const Evictions& e, size_t from, size_t n, double* const* row, double* const* next) {
  constexpr size_t w = Pack<double>::lanes, n_registers = 2;
  double factor[kMaxEvictions][Rows];
  if (!compute_factors(e, from, row, factor)) return;
  double* at[Rows];
  for (size_t q = 0; q < Rows; ++q) at[q] = row[q];
  size_t j = 0;
  const auto advance = [&](size_t by) {
    j += by;
    for (size_t q = 0; q < Rows; ++q) at[q] += by;
  };
  while (j + n_registers * w <= n) {
    for (size_t q = 0; q < Rows && next; ++q)
      for (size_t line = 0; line < n_registers * w; line += 8) prefetch(next[q] + j + line);
    replay_columns<Rows, n_registers>(e, from, j, factor, at);
    advance(n_registers * w);
  }
  while (j + w <= n) {
    replay_columns<Rows, 1>(e, from, j, factor, at);
    advance(w);
  }
  if (j < n) {  // the rest does not fill a register, so it is copied to a buffer
    double rest[Rows][w] = {};
    for (size_t q = 0; q < Rows; ++q) {
      for (size_t i = 0; i < n - j; ++i) rest[q][i] = at[q][i];
      at[q] = rest[q];
    }
    replay_columns<Rows, 1>(e, from, j, factor, at);
    for (size_t q = 0; q < Rows; ++q)
      for (size_t i = 0; i < n - j; ++i) row[q][j + i] = rest[q][i];
  }
  for (size_t q = 0; q < Rows && e.flush; ++q) flush(row[q], n);
}

void replay(const Evictions& e, size_t from, size_t n, double* const* rows, size_t count) {
  size_t q = 0;
  for (; q + 4 <= count; q += 4) replay_rows<4>(e, from, n, rows + q, q + 8 <= count ? rows + q + 4 : nullptr);
  for (; q < count; ++q) replay_rows<1>(e, from, n, rows + q, nullptr);
}

}  // namespace
}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
