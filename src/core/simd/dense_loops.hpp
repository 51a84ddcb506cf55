// Inner products and squared norms of dense rows.
//
// Included by simd.cpp, which is compiled once per instruction set.
#pragma once

#include <cstdint>

#include "simd/simd.hpp"
#include "simd/vectors.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

// Multiplies `Registers` registers of a block with `Queries` rows. Each lane adds its features in order, whatever these two numbers are, so the
// sums do not depend on how queries are grouped.
template <class T, size_t Queries, size_t Registers>
inline void products_group(const T* group, size_t d, const T* const* x, T* const* out, size_t at) {
  using V = typename Pack<T>::type;
  constexpr size_t w = Pack<T>::lanes;
  V sum[Queries][Registers];
  for (size_t q = 0; q < Queries; ++q)
    for (size_t g = 0; g < Registers; ++g) sum[q][g] = V{};
  for (size_t f = 0; f < d; ++f, group += kLanes<T>) {
    V column[Registers];
    for (size_t g = 0; g < Registers; ++g) column[g] = load(group + g * w);
    for (size_t q = 0; q < Queries; ++q) {
      const T value = x[q][f];
      for (size_t g = 0; g < Registers; ++g) add_product(sum[q][g], value, column[g]);
    }
  }
  for (size_t q = 0; q < Queries; ++q)
    for (size_t g = 0; g < Registers; ++g) store(out[q] + at + g * w, sum[q][g]);
}

template <class T, size_t Queries>
inline void products_of_queries(const T* store_blocks, size_t blocks, size_t d, const T* const* x, T* const* out) {
  constexpr size_t registers_per_block = kBlockBytes / BUDGETRON_VECTOR;
  // Eight accumulators hide the latency of a fused multiply-add; sixteen would not fit into the 16 registers of AVX2.
  constexpr size_t n_registers = Queries == 1 ? (registers_per_block < 8 ? registers_per_block : 8) : 8 / Queries;
  constexpr size_t w = Pack<T>::lanes;
  for (size_t b = 0; b < blocks; ++b)
    for (size_t g = 0; g < registers_per_block; g += n_registers)
      products_group<T, Queries, n_registers>(store_blocks + b * d * kLanes<T> + g * w, d, x, out, b * kLanes<T> + g * w);
}

template <class T>
void products(const T* store_blocks, size_t blocks, size_t d, const T* const* x, size_t count, T* const* out) {
  size_t q = 0;
  for (; q + 4 <= count; q += 4) products_of_queries<T, 4>(store_blocks, blocks, d, x + q, out + q);
  for (; q < count; ++q) products_of_queries<T, 1>(store_blocks, blocks, d, x + q, out + q);
}

template <class T, size_t Queries>
inline void products_lane_of_queries(const T* block, size_t d, size_t lane, const T* const* x, size_t count, T* const* out) {
  constexpr size_t w = Pack<T>::lanes;
  const T* padded_x[Queries];
  T* padded_out[Queries];
  for (size_t q = 0; q < Queries; ++q) {  // fewer queries left: repeat the last one
    padded_x[q] = x[q < count ? q : count - 1];
    padded_out[q] = out[q < count ? q : count - 1];
  }
  products_group<T, Queries, 1>(block + lane / w * w, d, padded_x, padded_out, lane / w * w);
}

template <class T>
void products_lane(const T* block, size_t d, size_t lane, const T* const* x, size_t count, T* const* out) {
  size_t q = 0;
  for (; q + 4 < count; q += 8) products_lane_of_queries<T, 8>(block, d, lane, x + q, count - q, out + q);
  if (q < count) products_lane_of_queries<T, 4>(block, d, lane, x + q, count - q, out + q);
}

// Computes 4 · Groups sums at a time, because the additions of a single sum have to wait for each other. It uses vectors like products(), so
// that add_product() fuses multiplication and addition in both or in neither.
template <class T, size_t Groups>
inline void squares_of_rows(const T* const* x, size_t count, size_t d, double* out) {
  using Four = typename Pack<T>::four;
  const T* row[4 * Groups];
  for (size_t q = 0; q < 4 * Groups; ++q) row[q] = x[q < count ? q : count - 1];  // fewer rows left: repeat the last one
  Four sum[Groups];
  for (size_t g = 0; g < Groups; ++g) sum[g] = Four{};
  for (size_t f = 0; f < d; ++f)
    for (size_t g = 0; g < Groups; ++g) {
      const Four value = {row[4 * g][f], row[4 * g + 1][f], row[4 * g + 2][f], row[4 * g + 3][f]};
      add_product(sum[g], value, value);
    }
  for (size_t q = 0; q < 4 * Groups && q < count; ++q) out[q] = static_cast<double>(sum[q / 4][q % 4]);
}

template <class T>
void squares(const T* const* x, size_t count, size_t d, double* out) {
  size_t q = 0;
  for (; q + 4 < count; q += 8) squares_of_rows<T, 2>(x + q, count - q, d, out + q);
  if (q < count) squares_of_rows<T, 1>(x + q, count - q, d, out + q);
}

// Uses four independent sums per lane. squares() cannot, because it must add in the same order as products().
template <class T>
double rough_square(const T* x, size_t d) {
  using V = typename Pack<T>::type;
  constexpr size_t w = Pack<T>::lanes;
  V s0{}, s1{}, s2{}, s3{};
  size_t f = 0;
  for (; f + 4 * w <= d; f += 4 * w) {
    const V x0 = load(x + f), x1 = load(x + f + w), x2 = load(x + f + 2 * w), x3 = load(x + f + 3 * w);
    add_product(s0, x0, x0);
    add_product(s1, x1, x1);
    add_product(s2, x2, x2);
    add_product(s3, x3, x3);
  }
  s0 = (s0 + s1) + (s2 + s3);
  double sum = 0;
  for (size_t l = 0; l < w; ++l) sum += static_cast<double>(s0[l]);
  BUDGETRON_ONE_BY_ONE
  for (; f < d; ++f) sum += static_cast<double>(x[f]) * static_cast<double>(x[f]);
  return sum;
}

}  // namespace
}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
