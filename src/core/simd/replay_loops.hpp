// Applies evictions to rows of coefficients: one eviction to one row, or many evictions to many rows.
//
// Included by simd.cpp, which is compiled once per instruction set.
#pragma once

#include <cstdint>

#include "simd/registers.hpp"
#include "simd/simd.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

void evict_slot(size_t r, const double* __restrict gamma, size_t n, double limit, double* __restrict row) {
  const double coefficient = row[r];
  row[r] = 0.0;
#pragma omp simd
  for (size_t j = 0; j < n; ++j) {
    const double value = row[j] + coefficient * gamma[j];
    row[j] = value < limit && value > -limit ? 0.0 : value;
  }
}

// The number of rows that change together. Their sums fit into the registers of every instruction set.
constexpr size_t kTile = 4;

// Takes the coefficients in the evicted slots out of the rows: factor[m][q] becomes the coefficient of row q in slots[m], and that coefficient
// becomes 0. Returns false if all factors are 0.
template <size_t Rows>
BUDGETRON_INLINE bool take_factors(const Evictions& e, double* const* row, double (&factor)[kMaxEvictedSlots][Rows]) {
  bool any = false;
  for (size_t m = 0; m < e.count; ++m)
    for (size_t q = 0; q < Rows; ++q) {
      double& value = row[q][e.slots[m]];
      // Smaller factors count as 0: their products could be subnormal numbers, which are slow.
      factor[m][q] = value < 1e-150 && value > -1e-150 ? 0.0 : value;
      any |= factor[m][q] != 0.0;
      value = 0.0;
    }
  return any;
}

// Applies the evictions to `Registers` registers of each of `Rows` rows, beginning at slot j; row[q] points to that slot of row q.
template <size_t Registers, size_t Rows>
inline void replay_columns(const Evictions& e, size_t j, const double (&factor)[kMaxEvictedSlots][Rows], double* const* row) {
  using V = Pack<double>::type;
  constexpr size_t w = Pack<double>::lanes;
  V sum[Rows][Registers];
  for (size_t q = 0; q < Rows; ++q)
    for (size_t g = 0; g < Registers; ++g) sum[q][g] = load(row[q] + g * w);
  const double* share = e.shares + j;
  for (size_t m = 0; m < e.count; ++m, share += e.stride) {
    V x[Registers];
    for (size_t g = 0; g < Registers; ++g) x[g] = load(share + g * w);
    for (size_t q = 0; q < Rows; ++q)
      for (size_t g = 0; g < Registers; ++g) add_product(sum[q][g], factor[m][q], x[g]);
  }
  for (size_t q = 0; q < Rows; ++q)
    for (size_t g = 0; g < Registers; ++g) store(row[q] + g * w, zero_below(kLargestFlushed, sum[q][g], Register{}));
}

// Applies the evictions to Tile rows, given their factors. Prefetches the Tile rows of `next`, which will be changed later; null: none.
template <size_t Registers, size_t Tile>
inline void replay_tile(const Evictions& e, size_t n, const double (&factor)[kMaxEvictedSlots][Tile], double* const* row,
                        double* const* next) {
  constexpr size_t w = Pack<double>::lanes;
  double* at[Tile];
  for (size_t q = 0; q < Tile; ++q) at[q] = row[q];
  size_t j = 0;
  const auto advance = [&](size_t by) {
    j += by;
    for (size_t q = 0; q < Tile; ++q) at[q] += by;
  };
  while (j + Registers * w <= n) {
    for (size_t q = 0; q < Tile && next; ++q)
      for (size_t line = 0; line < Registers * w; line += 8) prefetch(next[q] + j + line);
    replay_columns<Registers>(e, j, factor, at);
    advance(Registers * w);
  }
  while (j + w <= n) {
    replay_columns<1>(e, j, factor, at);
    advance(w);
  }
  if (j < n) {  // the rest does not fill a register, so it is copied to a buffer
    double rest[Tile][w] = {};
    for (size_t q = 0; q < Tile; ++q) {
      for (size_t i = 0; i < n - j; ++i) rest[q][i] = at[q][i];
      at[q] = rest[q];
    }
    replay_columns<1>(e, j, factor, at);
    for (size_t q = 0; q < Tile; ++q)
      for (size_t i = 0; i < n - j; ++i) row[q][j + i] = rest[q][i];
  }
}

void replay(const Evictions& e, size_t n, double* const* rows, size_t count) {
  size_t q = 0;
  for (; q + kTile <= count; q += kTile) {
    double factor[kMaxEvictedSlots][kTile];
    if (!take_factors(e, rows + q, factor)) continue;
    replay_tile<2>(e, n, factor, rows + q, q + 3 * kTile <= count ? rows + q + 2 * kTile : nullptr);
  }
  for (; q < count; ++q) {
    double factor[kMaxEvictedSlots][1];
    if (take_factors(e, rows + q, factor)) replay_tile<4>(e, n, factor, rows + q, nullptr);
  }
}

}  // namespace
}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
