// Inner products and squared norms of dense rows.
//
// A part of simd.cpp, compiled once per instruction set.
#pragma once

#include <cstdint>

#include "simd/simd.hpp"
#include "simd/vectors.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

// Multiplies Wide registers of a block with Queries rows. Each lane adds its features in order, for any Wide and Queries, so
// the sums do not depend on how queries were grouped.
template <class T, size_t Queries, size_t Wide>
inline void products_group(const T* group, size_t d, const T* const* x, T* const* out, size_t at) {
  using V = typename Pack<T>::type;
  constexpr size_t w = Pack<T>::lanes;
  V sum[Queries][Wide];
  for (size_t q = 0; q < Queries; ++q)
    for (size_t g = 0; g < Wide; ++g) sum[q][g] = V{};
  for (size_t f = 0; f < d; ++f, group += kLanes<T>) {
    V column[Wide];
    for (size_t g = 0; g < Wide; ++g) column[g] = load(group + g * w);
    for (size_t q = 0; q < Queries; ++q) {
      const T value = x[q][f];
      for (size_t g = 0; g < Wide; ++g) add_product(sum[q][g], value, column[g]);
    }
  }
  for (size_t q = 0; q < Queries; ++q)
    for (size_t g = 0; g < Wide; ++g) store(out[q] + at + g * w, sum[q][g]);
}

template <class T, size_t Queries>
inline void products_some(const T* blocks_of, size_t blocks, size_t d, const T* const* x, T* const* out) {
  constexpr size_t registers = kBlockBytes / BUDGETRON_VECTOR;
  // Eight accumulators hide the latency of a fused multiply-add; more would not fit into the registers.
  constexpr size_t wide = Queries == 1 ? (registers < 8 ? registers : 8) : 8 / Queries;
  constexpr size_t w = Pack<T>::lanes;
  for (size_t b = 0; b < blocks; ++b)
    for (size_t g = 0; g < registers; g += wide)
      products_group<T, Queries, wide>(blocks_of + b * d * kLanes<T> + g * w, d, x, out, b * kLanes<T> + g * w);
}

template <class T>
void products(const T* blocks_of, size_t blocks, size_t d, const T* const* x, size_t count, T* const* out) {
  size_t q = 0;
  for (; q + 4 <= count; q += 4) products_some<T, 4>(blocks_of, blocks, d, x + q, out + q);
  for (; q < count; ++q) products_some<T, 1>(blocks_of, blocks, d, x + q, out + q);
}

// Four rows at a time, because the additions of a single sum wait for each other. The code uses vectors as products() does, so that
// the compiler fuses multiplication and addition in both or in neither.
template <class T>
void squares(const T* const* x, size_t count, size_t d, double* out) {
  using Four = typename Pack<T>::four;
  for (size_t q = 0; q < count; q += 4) {
    const size_t last = count - 1;  // fewer than four rows left: repeat the last one
    const T *a = x[q], *b = x[q + 1 < last ? q + 1 : last], *c = x[q + 2 < last ? q + 2 : last], *e = x[q + 3 < last ? q + 3 : last];
    Four sum{};
    for (size_t f = 0; f < d; ++f) {
      const Four value = {a[f], b[f], c[f], e[f]};
      add_product(sum, value, value);
    }
    for (size_t i = 0; i < 4 && q + i < count; ++i) out[q + i] = static_cast<double>(sum[i]);
  }
}

}  // namespace
}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
