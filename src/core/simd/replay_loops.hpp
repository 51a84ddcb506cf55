// Applies evictions to many rows of coefficients at once. An entry is one eviction, see `Evictions` in simd.hpp.
//
// Included by simd.cpp, which is compiled once per instruction set.
#pragma once

#include <cstdint>

#include "simd/registers.hpp"
#include "simd/simd.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

// Rows are processed in groups of kGroup, whose factors (see compute_factors) are computed together. A group is divided into tiles of kTile rows,
// whose sums fit into the registers of every instruction set. A group fills a whole number of the widest registers, with one lane per row.
constexpr size_t kGroup = 8, kTile = 4;

// Computes factor[m][q], the coefficient that row q has in the slot of entry m when that entry is applied, and sets that slot of the row to 0.
// Each entry adds to the factors of later entries, in the same order as if the entries were applied one by one. Returns false if all factors
// are 0. `At` is a Register if `Rows` numbers fill whole registers, otherwise a Single (registers.hpp).
template <class At, size_t Rows>
BUDGETRON_INLINE bool compute_factors(const Evictions& e, size_t from, double* const* row, double (&factor)[kMaxEvictions][Rows]) {
  bool any = false;
  for (size_t l = from; l < e.count; ++l)
    for (size_t q = 0; q < Rows; ++q) {
      double& value = row[q][e.slots[l]];
      factor[l][q] = value;
      any |= value != 0.0;
      value = 0.0;
    }
  if (!any) return false;
  const At at;
  for (size_t q = 0; q < Rows; q += At::template lanes<double>)
    for (size_t m = from; m < e.count; ++m) {
      // Smaller factors count as 0: their products would be subnormal numbers, which are slow.
      const auto a = zero_below(1e-150, at.get(factor[m] + q), at);
      at.put(factor[m] + q, a);
      for (size_t l = m + 1; l < e.count; ++l) {
        auto later = at.get(factor[l] + q);
        add_product(later, e.between[m * kMaxEvictions + l], a);
        at.put(factor[l] + q, later);
      }
    }
  return true;
}

// Applies the entries to `Registers` registers of each of `Rows` rows, beginning at slot j; row[q] points to that slot of row q. The factors
// of these rows begin at column `first`.
template <size_t Rows, size_t Registers, size_t All>
inline void replay_columns(const Evictions& e, size_t from, size_t j, const double (&factor)[kMaxEvictions][All], size_t first,
                           double* const* row) {
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
      for (size_t g = 0; g < Registers; ++g) add_product(sum[q][g], factor[m][first + q], x[g]);
  }
  for (size_t q = 0; q < Rows; ++q)
    for (size_t g = 0; g < Registers; ++g)
      store(row[q] + g * w, e.flush ? zero_below(kLargestFlushed, sum[q][g], Register{}) : sum[q][g]);
}

// Applies the entries to Tile rows, given their factors, and prefetches the rows `next` that follow them; null if there are none.
template <size_t Tile, size_t Registers, size_t All>
inline void replay_tile(const Evictions& e, size_t from, size_t n, const double (&factor)[kMaxEvictions][All], size_t first,
                        double* const* row, double* const* next) {
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
    replay_columns<Tile, Registers>(e, from, j, factor, first, at);
    advance(Registers * w);
  }
  while (j + w <= n) {
    replay_columns<Tile, 1>(e, from, j, factor, first, at);
    advance(w);
  }
  if (j < n) {  // the rest does not fill a register, so it is copied to a buffer
    double rest[Tile][w] = {};
    for (size_t q = 0; q < Tile; ++q) {
      for (size_t i = 0; i < n - j; ++i) rest[q][i] = at[q][i];
      at[q] = rest[q];
    }
    replay_columns<Tile, 1>(e, from, j, factor, first, at);
    for (size_t q = 0; q < Tile; ++q)
      for (size_t i = 0; i < n - j; ++i) row[q][j + i] = rest[q][i];
  }
}

void replay(const Evictions& e, size_t from, size_t n, double* const* rows, size_t count) {
  size_t q = 0;
  for (; q + kGroup <= count; q += kGroup) {
    double factor[kMaxEvictions][kGroup];
    if (!compute_factors<Register>(e, from, rows + q, factor)) continue;
    for (size_t first = 0; first < kGroup; first += kTile)
      replay_tile<kTile, 2>(e, from, n, factor, first, rows + q + first, q + 2 * kGroup <= count ? rows + q + kGroup + first : nullptr);
  }
  for (; q < count; ++q) {
    double factor[kMaxEvictions][1];
    if (compute_factors<Single>(e, from, rows + q, factor)) replay_tile<1, 4>(e, from, n, factor, 0, rows + q, nullptr);
  }
}

}  // namespace
}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
