// Scores of the stored examples, and the choice of the one to evict.
//
// A part of simd.cpp, compiled once per instruction set.
#pragma once

#include <cmath>
#include <cstdint>

#include "simd/simd.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

constexpr double kLargest = 1.7976931348623157e308;  // the largest finite number

// The least and the largest score so far, in lanes: Clang does not vectorise a reduction of doubles by comparisons.
struct Running {
  static constexpr size_t kLanes = 8;
  double least[kLanes], largest[kLanes];

  Running() {
    for (size_t l = 0; l < kLanes; ++l) {
      least[l] = HUGE_VAL;
      largest[l] = 0;
    }
  }
  void take(size_t lane, double score) {
    const double finite = score <= kLargest ? score : 0.0;
    least[lane] = score < least[lane] ? score : least[lane];
    largest[lane] = finite > largest[lane] ? finite : largest[lane];
  }
  Extremes all() const {
    Extremes of{least[0], largest[0]};
    for (size_t l = 1; l < kLanes; ++l) {
      of.least = least[l] < of.least ? least[l] : of.least;
      of.largest = largest[l] > of.largest ? largest[l] : of.largest;
    }
    return of;
  }
};

// Calls score(j) for every j.
template <class Score>
inline Extremes extremes_of(size_t n, Score score) {
  Running so_far;
  size_t j = 0;
  for (; j + Running::kLanes <= n; j += Running::kLanes)
    for (size_t l = 0; l < Running::kLanes; ++l) so_far.take(l, score(j + l));
  for (size_t l = 0; j < n; ++j, ++l) so_far.take(l, score(j));
  return so_far.all();
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
