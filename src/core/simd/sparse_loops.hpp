// Inner products and squared norms of sparse rows.
//
// Included by simd.cpp, which is compiled once per instruction set.
#pragma once

#include <cstdint>

#include "simd/simd.hpp"
#include "simd/vectors.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

using std::int16_t;
using std::int32_t;
using std::uint32_t;

template <class V>
void scatter(const Run<V>* runs, size_t count, double* sum) {
  for (size_t r = 0; r < count; ++r) {
    const V* __restrict values = runs[r].values;
    const size_t n = runs[r].length;
    const double x = runs[r].x;
    if (const uint32_t* slots = runs[r].slots) {
      for (size_t i = 0; i < n; ++i) sum[slots[i]] += x * static_cast<double>(values[i]);
    } else {
      double* __restrict all = sum;
#pragma omp simd
      for (size_t j = 0; j < n; ++j) all[j] += x * static_cast<double>(values[j]);
    }
  }
}

void scatter_integers(const IntegerRun* runs, size_t count, int32_t* sum) {
  for (size_t r = 0; r < count; ++r) {
    const uint32_t* __restrict slots = runs[r].slots;
    const int16_t* __restrict values = runs[r].values;
    const int32_t x = runs[r].x;
    const size_t n = runs[r].length;
    if (slots) {
      size_t i = 0;
      for (; i + 4 <= n; i += 4)  // with one posting per iteration, the speed would depend on the loop's place in memory
        for (size_t k = i; k < i + 4; ++k) sum[slots[k]] += x * values[k];
      for (; i < n; ++i) sum[slots[i]] += x * values[i];
    } else {
      int32_t* __restrict all = sum;
#pragma omp simd
      for (size_t j = 0; j < n; ++j) all[j] += x * values[j];
    }
  }
}

// Adds the columns to the sums of as many slots as fill `registers` registers, beginning at slot `at`. The first `skipped` of these slots are left
// out. The 16-bit sums stay in registers.
template <size_t registers>
void add_columns(const IntegerRun* columns, size_t count, size_t at, size_t skipped, int32_t* __restrict sum) {
  using V = Pack<int16_t>::type;
  constexpr size_t w = Pack<int16_t>::lanes;
  V total[registers] = {};
  for (size_t c = 0; c < count; ++c) {
    const int16_t x = static_cast<int16_t>(columns[c].x);
    for (size_t g = 0; g < registers; ++g) add_product(total[g], x, load(columns[c].values + at + g * w));
  }
  int16_t added[registers * w];
  for (size_t g = 0; g < registers; ++g) store(added + g * w, total[g]);
#pragma omp simd
  for (size_t i = skipped; i < registers * w; ++i) sum[at + i] += added[i];
}

void columns_integers(const IntegerRun* columns, size_t count, size_t n, int32_t* __restrict sum) {
  constexpr size_t w = Pack<int16_t>::lanes, wide = 4;
  size_t j = 0;
  for (; j + wide * w <= n; j += wide * w) add_columns<wide>(columns, count, j, 0, sum);
  for (; j + w <= n; j += w) add_columns<1>(columns, count, j, 0, sum);
  if (j < n && n >= w) {  // the last slots, in a register that overlaps the one before
    add_columns<1>(columns, count, n - w, j - (n - w), sum);
    return;
  }
  for (; j < n; ++j)
    for (size_t c = 0; c < count; ++c) sum[j] += columns[c].x * columns[c].values[j];
}

void to_doubles(const int32_t* __restrict x, size_t n, double* __restrict out) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i) out[i] = x[i];
}

template <class T>
double integer_sum(const T* x, size_t n) {
  double sum = 0;
  int fractions = 0;
#pragma omp simd reduction(+ : sum) reduction(| : fractions)
  for (size_t i = 0; i < n; ++i) {
    const T size = x[i] < 0 ? -x[i] : x[i];
    const bool small = size <= 32767;  // and not NaN
    const int32_t truncated = static_cast<int32_t>(small ? x[i] : T{});
    fractions |= !small | (static_cast<T>(truncated) != x[i]);
    sum += static_cast<double>(small ? size : T{});
  }
  return fractions ? -1.0 : sum;
}

size_t find(const uint32_t* slots, size_t n, uint32_t slot) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    uint32_t hit = 0;
#pragma omp simd reduction(| : hit)
    for (size_t j = 0; j < 16; ++j) hit |= slots[i + j] == slot;
    if (hit) break;
  }
  while (i < n && slots[i] != slot) ++i;
  return i;
}

template <class T>
double sparse_square(const T* x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace
}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
