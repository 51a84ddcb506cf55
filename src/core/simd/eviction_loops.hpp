// Scores of the stored examples, and the choice of the one to evict.
//
// Included by simd.cpp, which is compiled once per instruction set.
#pragma once

#include <cmath>
#include <cstdint>

#include "simd/registers.hpp"
#include "simd/simd.hpp"
#include "simd/vector_loops.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

// The least of n scores, and the largest finite score, which is 0 if all are negative. NaN is ignored. score(j, at) returns the scores
// from j on: one number if `at` is a Single, a register of numbers if it is a Register (registers.hpp).
template <class Score>
BUDGETRON_INLINE Extremes extremes_of(size_t n, Score score) {
  Extremes range{HUGE_VAL, 0.0};
  if (n < Pack<double>::lanes) {
    for (size_t j = 0; j < n; ++j) range = {smaller(score(j, Single{}), range.least), larger(score(j, Single{}), range.largest)};
  } else {
    Chains<double> low(range.least), high(range.largest);
    visit_registers(n, [&](size_t j, size_t chain) {
      const auto scores = score(j, Register{});
      low.of[chain] = smaller(scores, low.of[chain]);
      high.of[chain] = larger(scores, high.of[chain]);
    });
    range = {low.join_all(least_of_two), high.join_all(largest_of_two)};
  }
  if (range.largest < HUGE_VAL) return range;
  // Some score is infinite, which is rare: look for the largest finite one in a second pass.
  range.largest = 0.0;
  for (size_t j = 0; j < n; ++j) {
    const double value = score(j, Single{});
    if (value < HUGE_VAL) range.largest = larger(value, range.largest);
  }
  return range;
}

// simd.hpp documents the functions below, except for the helpers, which are marked BUDGETRON_INLINE.

Extremes sizes(double scale, const double* __restrict b, const double* __restrict root, size_t n, double* __restrict out) {
  return extremes_of(n, [=](size_t j, auto at) {
    const auto size = at.all(scale) * magnitude(at.get(b + j)) * at.get(root + j);
    at.put(out + j, size);
    return size;
  });
}

Extremes residuals(double scale, const double* __restrict b, const double* __restrict own, const double* __restrict k, double kk,
                   size_t n, double* __restrict out) {
  const double reciprocal = 1.0 / kk;
  return extremes_of(n, [=](size_t j, auto at) {
    const auto row = at.get(k + j), weight = at.all(scale) * at.get(b + j);
    const auto loss = weight * weight * larger(at.get(own + j) - row * row * at.all(reciprocal), at.all(0.0));
    at.put(out + j, loss);
    return loss;
  });
}

Extremes extremes(const double* x, size_t n) {
  return extremes_of(n, [=](size_t j, auto at) { return at.get(x + j); });
}

// The least of n arrivals; INT64_MAX if n is 0.
template <class Arrival>
BUDGETRON_INLINE int64_t least_value(size_t n, Arrival arrival) {
  int64_t least = INT64_MAX;
  if (n < Pack<int64_t>::lanes) {
    for (size_t j = 0; j < n; ++j) least = smaller(arrival(j, Single{}), least);
    return least;
  }
  Chains<int64_t> low(least);
  visit_registers(n, [&](size_t j, size_t chain) { low.of[chain] = smaller(arrival(j, Register{}), low.of[chain]); });
  return low.join_all(least_of_two);
}

// The index of `value` in x; n if it is not there.
BUDGETRON_INLINE size_t index_of(int64_t value, const int64_t* x, size_t n) {
  constexpr size_t block = 32;  // numbers per branch
  size_t j = 0;
  for (; j + block <= n; j += block) {
    int64_t match = 0;
#pragma omp simd reduction(| : match)
    for (size_t l = 0; l < block; ++l) match |= x[j + l] == value ? 1 : 0;
    if (match) break;
  }
  while (j < n && x[j] != value) ++j;
  return j;
}

size_t oldest(const int64_t* x, size_t n) {
  return index_of(least_value(n, [=](size_t j, auto at) { return at.get(x + j); }), x, n);
}

size_t oldest_within(const double* x, const int64_t* arrivals, size_t n, double limit) {
  constexpr int64_t never = INT64_MAX;
  const int64_t arrival = least_value(n, [=](size_t j, auto at) {
    return where_at_most(at.get(x + j), at.all(limit), at.get(arrivals + j), at.all(never));
  });
  return arrival == never ? n : index_of(arrival, arrivals, n);
}

double shares(const double* __restrict b, const double* __restrict root, size_t n, double* __restrict p) {
  const auto put = [=](size_t j, const auto& value, auto at) {
    at.put(p + j, value);
    return value;
  };
  const double total = sum_of(n, [=](size_t j, auto at) {
    return b ? put(j, magnitude(at.get(b + j)) * at.get(root + j), at) : at.get(p + j);
  });
  const double slope = total > 0 ? static_cast<double>(n - 1) / total : 0.0;
  return sum_of(n, [=](size_t j, auto at) { return put(j, larger(at.all(1.0) - at.all(slope) * at.get(p + j), at.all(0.0)), at); });
}

size_t first_above(const double* p, size_t n, double point) {
  constexpr size_t w = Pack<double>::lanes;
  double below = 0;  // p_0 + … + p_{j−1}
  size_t j = 0;
  // Moves j past each block of `width` numbers before `end`, as long as the sum up to the end of the block is at most `point`. It goes on
  // adding up the remaining blocks, because the stopping point is random: a branch to stop early would be mispredicted, which costs more.
  const auto skip = [&](size_t width, size_t end, auto sum_from) {
    double sum = below;
    for (size_t i = j; i + width < end; i += width) {
      sum += sum_from(i);
      j += point < sum ? 0 : width;
      below = where_at_most(sum, point, sum, below);
    }
  };
  skip(kChains * w, n, [=](size_t i) {
    Chains<double> sum(0.0);
    for (size_t chain = 0; chain < kChains; ++chain) sum.of[chain] = load(p + i + chain * w);
    return sum.join_all(sum_of_two);
  });
  skip(w, smaller(j + kChains * w, n), [=](size_t i) {
    Chains<double> sum(0.0);
    sum.of[0] = load(p + i);
    return sum.join_all(sum_of_two);
  });
  skip(1, smaller(j + w, n), [=](size_t i) { return p[i]; });
  return j;
}

void divide_by_survival(double scale, const double* __restrict p, double normalisation, double max_size, size_t n, double* __restrict b) {
  constexpr size_t w = Pack<double>::lanes;
  const auto multiply = [=](size_t j, const auto& factor, auto at) {
    at.put(b + j, larger(smaller(at.get(b + j) * factor, at.all(max_size)), at.all(-max_size)));
  };
  const auto survival = [=](size_t j, auto at) { return at.all(1.0) - at.get(p + j) * at.all(normalisation); };
  size_t j = 0;
  for (; p && j + 2 * w <= n; j += 2 * w) {  // a single division for two registers, because a division takes as long as ten products
    // scale/s₁ = (scale/(s₁ s₂)) s₂, and the same for s₂.
    const auto s1 = survival(j, Register{}), s2 = survival(j + w, Register{}), quotient = all_lanes(scale) / (s1 * s2);
    multiply(j, quotient * s2, Register{});
    multiply(j + w, quotient * s1, Register{});
  }
  const double equal_factor = scale / (1.0 - normalisation);  // if p is null, all p_j are 1
  for (; !p && j + w <= n; j += w) multiply(j, all_lanes(equal_factor), Register{});
  for (; j < n; ++j) multiply(j, p ? scale / survival(j, Single{}) : equal_factor, Single{});
  if (scale < 1.0) flush(b, n);  // only a scale below 1 can bring coefficients near 0, because 1 − normalisation p_j is at most 1
}

}  // namespace
}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
