// Scores of the stored examples, and the choice of the one to evict.
//
// A part of simd.cpp, compiled once per instruction set.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "simd/simd.hpp"
#include "simd/vectors.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

// Doubles that are not negative are ordered like their bits, read as integers. Every compiler vectorises a minimum of integers, but
// not every compiler a minimum of doubles, because one of them may be NaN.
inline int64_t bits_of(double x) {
  int64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline double number_of(int64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

template <class Score>
inline Extremes extremes_of(size_t n, Score score) {
  const int64_t infinity = bits_of(HUGE_VAL);
  int64_t least = infinity, largest = 0;
#pragma omp simd reduction(min : least) reduction(max : largest)
  for (size_t j = 0; j < n; ++j) {
    const int64_t bits = bits_of(score(j)), finite = bits < infinity ? bits : 0;
    least = bits < least ? bits : least;
    largest = finite > largest ? finite : largest;
  }
  return {number_of(least), number_of(largest)};
}

Extremes sizes(double scale, const double* __restrict b, const double* __restrict root, size_t n, double* __restrict out) {
  return extremes_of(n, [=](size_t j) { return out[j] = scale * (b[j] < 0 ? -b[j] : b[j]) * root[j]; });
}

Extremes residuals(double scale, const double* __restrict b, const double* __restrict own, const double* __restrict k, double kk,
                   size_t n, double* __restrict out) {
  const double per = 1.0 / kk;
  return extremes_of(n, [=](size_t j) {
    const double left = own[j] - k[j] * k[j] * per, weight = scale * b[j];
    return out[j] = weight * weight * (left > 0 ? left : 0.0);
  });
}

Extremes extremes(const double* x, size_t n) {
  return extremes_of(n, [=](size_t j) { return x[j]; });
}

// Reduces n numbers by join(): at(j) is a register of numbers from j on, and one(j) a single number, for the rest that fills no
// register. There are four accumulators, because each step waits for the result of the step before.
template <class T, class At, class One, class Join>
inline T joined(size_t n, T start, At at, One one, Join join) {
  constexpr size_t w = Pack<T>::lanes;
  auto s0 = all_lanes<T>(start), s1 = s0, s2 = s0, s3 = s0;
  size_t j = 0;
  for (; j + 4 * w <= n; j += 4 * w) {
    s0 = join(at(j), s0);
    s1 = join(at(j + w), s1);
    s2 = join(at(j + 2 * w), s2);
    s3 = join(at(j + 3 * w), s3);
  }
  for (; j + w <= n; j += w) s0 = join(at(j), s0);
  s0 = join(join(s0, s1), join(s2, s3));
  T all = start;
  for (size_t l = 0; l < w; ++l) all = join(T(s0[l]), all);
  for (; j < n; ++j) all = join(one(j), all);
  return all;
}

template <class At, class One>
inline int64_t least_value(size_t n, At at, One one) {
  return joined<int64_t>(n, INT64_MAX, at, one, [](const auto& a, const auto& b) { return where_at_most(a, b, a, b); });
}

// The index of `value` in x; n if it is not there.
inline size_t place_of(int64_t value, const int64_t* x, size_t n) {
  constexpr size_t block = 32;  // numbers per branch
  size_t j = 0;
  for (; j + block <= n; j += block) {
    int64_t found = 0;
#pragma omp simd reduction(| : found)
    for (size_t l = 0; l < block; ++l) found |= x[j + l] == value ? 1 : 0;
    if (found) break;
  }
  while (j < n && x[j] != value) ++j;
  return j;
}

// The index of the least of n distinct numbers; n if there is none.
size_t least_of(const int64_t* x, size_t n) {
  return place_of(least_value(n, [=](size_t j) { return load(x + j); }, [=](size_t j) { return x[j]; }), x, n);
}

size_t oldest_within(const double* x, const int64_t* arrivals, size_t n, double limit) {
  constexpr int64_t never = INT64_MAX;
  const auto limits = all_lanes(limit);
  const auto nevers = all_lanes(never);
  const int64_t oldest = least_value(n, [=](size_t j) { return where_at_most(load(x + j), limits, load(arrivals + j), nevers); },
                                     [=](size_t j) { return x[j] <= limit ? arrivals[j] : never; });
  return oldest == never ? n : place_of(oldest, arrivals, n);
}

void probabilities(const double* __restrict b, const double* __restrict root, size_t n, double* __restrict p) {
  if (b) {
#pragma omp simd
    for (size_t j = 0; j < n; ++j) p[j] = (b[j] < 0 ? -b[j] : b[j]) * root[j];
  }
  const auto sum = [=] {
    return joined<double>(n, 0.0, [=](size_t j) { return load(p + j); }, [=](size_t j) { return p[j]; },
                          [](const auto& one, const auto& other) { return one + other; });
  };
  const double total = sum(), slope = total > 0 ? static_cast<double>(n - 1) / total : 0.0;
#pragma omp simd
  for (size_t j = 0; j < n; ++j) {
    const double share = 1.0 - slope * p[j];
    p[j] = share > 0 ? share : 0.0;
  }
  const double normalisation = 1.0 / sum();
#pragma omp simd
  for (size_t j = 0; j < n; ++j) p[j] *= normalisation;
}

void divide_by_survival(double scale, const double* __restrict p, double most, size_t n, double* __restrict b) {
#pragma omp simd
  for (size_t j = 0; j < n; ++j) {
    const double survival = 1.0 - p[j] > 0x1p-52 ? 1.0 - p[j] : 0x1p-52;
    double grown = b[j] * (scale / survival);
    grown = grown > most ? most : grown < -most ? -most : grown;
    b[j] = grown < 1e-300 && grown > -1e-300 ? 0.0 : grown;
  }
}

}  // namespace
}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
