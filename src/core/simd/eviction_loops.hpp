// Scores of the stored examples, and the choice of the one to evict.
//
// A part of simd.cpp, compiled once per instruction set.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "simd/simd.hpp"

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

// The place of the least of n distinct numbers; n if there is none.
size_t least_of(const int64_t* x, size_t n) {
  int64_t least = INT64_MAX;
#pragma omp simd reduction(min : least)
  for (size_t j = 0; j < n; ++j) least = x[j] < least ? x[j] : least;
  int64_t at = static_cast<int64_t>(n);
#pragma omp simd reduction(min : at)
  for (int64_t j = 0; j < static_cast<int64_t>(n); ++j) {
    const int64_t here = x[j] == least ? j : INT64_MAX;
    at = here < at ? here : at;
  }
  return static_cast<size_t>(at);
}

size_t oldest_within(const double* x, const int64_t* arrivals, size_t n, double limit) {
  constexpr int64_t never = INT64_MAX;
  int64_t oldest = never;
#pragma omp simd reduction(min : oldest)
  for (size_t j = 0; j < n; ++j) {
    const int64_t arrival = x[j] <= limit ? arrivals[j] : never;
    oldest = arrival < oldest ? arrival : oldest;
  }
  int64_t at = static_cast<int64_t>(n);
#pragma omp simd reduction(min : at)
  for (int64_t j = 0; j < static_cast<int64_t>(n); ++j) {
    const int64_t here = arrivals[j] == oldest ? j : never;
    at = here < at ? here : at;
  }
  return static_cast<size_t>(at);
}

void probabilities(size_t n, double* __restrict p) {
  double total = 0, sum = 0;
#pragma omp simd reduction(+ : total)
  for (size_t j = 0; j < n; ++j) total += p[j];
  const double slope = total > 0 ? static_cast<double>(n - 1) / total : 0.0;
#pragma omp simd reduction(+ : sum)
  for (size_t j = 0; j < n; ++j) {
    const double share = 1.0 - slope * p[j];
    p[j] = share > 0 ? share : 0.0;
    sum += p[j];
  }
  const double whole = 1.0 / sum;
#pragma omp simd
  for (size_t j = 0; j < n; ++j) p[j] *= whole;
}

void make_up(double scale, const double* __restrict p, double most, size_t n, double* __restrict b) {
#pragma omp simd
  for (size_t j = 0; j < n; ++j) {
    const double kept = 1.0 - p[j] > 0x1p-52 ? 1.0 - p[j] : 0x1p-52;
    double grown = b[j] * (scale / kept);
    grown = grown > most ? most : grown < -most ? -most : grown;
    b[j] = grown < 1e-300 && grown > -1e-300 ? 0.0 : grown;
  }
}

}  // namespace
}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
