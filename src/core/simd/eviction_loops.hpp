// Scores of the stored examples, and the choice of the one to evict.
//
// A part of simd.cpp, compiled once per instruction set.
#pragma once

#include <cmath>
#include <cstdint>

#include "simd/registers.hpp"
#include "simd/simd.hpp"
#include "simd/vector_loops.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

// The least and the largest of n scores, which are not negative. NaN is neither, and infinity is not the largest.
template <class Score>
BUDGETRON_INLINE Extremes extremes_of(size_t n, Score score) {
  Extremes found{HUGE_VAL, 0.0};
  if (n < Pack<double>::lanes) {
    for (size_t j = 0; j < n; ++j) found = {smaller(score(j, Single{}), found.least), larger(score(j, Single{}), found.largest)};
  } else {
    Chains<double> low(found.least), high(found.largest);
    visit_registers(n, [&](size_t j, size_t chain) {
      const auto scores = score(j, Register{});
      low.of[chain] = smaller(scores, low.of[chain]);
      high.of[chain] = larger(scores, high.of[chain]);
    });
    found = {low.joined(least_of_two), high.joined(largest_of_two)};
  }
  if (found.largest < HUGE_VAL) return found;
  found.largest = 0.0;
  for (size_t j = 0; j < n; ++j) {
    const double one = score(j, Single{});
    if (one < HUGE_VAL) found.largest = larger(one, found.largest);
  }
  return found;
}

Extremes sizes(double scale, const double* __restrict b, const double* __restrict root, size_t n, double* __restrict out) {
  return extremes_of(n, [=](size_t j, auto at) {
    const auto size = at.all(scale) * magnitude(at.get(b + j)) * at.get(root + j);
    at.put(out + j, size);
    return size;
  });
}

Extremes residuals(double scale, const double* __restrict b, const double* __restrict own, const double* __restrict k, double kk,
                   size_t n, double* __restrict out) {
  const double per = 1.0 / kk;
  return extremes_of(n, [=](size_t j, auto at) {
    const auto row = at.get(k + j), weight = at.all(scale) * at.get(b + j);
    const auto loss = weight * weight * larger(at.get(own + j) - row * row * at.all(per), at.all(0.0));
    at.put(out + j, loss);
    return loss;
  });
}

Extremes extremes(const double* x, size_t n) {
  return extremes_of(n, [=](size_t j, auto at) { return at.get(x + j); });
}

template <class Arrival>
BUDGETRON_INLINE int64_t least_value(size_t n, Arrival arrival) {
  int64_t least = INT64_MAX;
  if (n < Pack<int64_t>::lanes) {
    for (size_t j = 0; j < n; ++j) least = smaller(arrival(j, Single{}), least);
    return least;
  }
  Chains<int64_t> low(least);
  visit_registers(n, [&](size_t j, size_t chain) { low.of[chain] = smaller(arrival(j, Register{}), low.of[chain]); });
  return low.joined(least_of_two);
}

// The index of `value` in x; n if it is not there.
BUDGETRON_INLINE size_t place_of(int64_t value, const int64_t* x, size_t n) {
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
  return place_of(least_value(n, [=](size_t j, auto at) { return at.get(x + j); }), x, n);
}

size_t oldest_within(const double* x, const int64_t* arrivals, size_t n, double limit) {
  constexpr int64_t never = INT64_MAX;
  const int64_t oldest = least_value(n, [=](size_t j, auto at) {
    return where_at_most(at.get(x + j), at.all(limit), at.get(arrivals + j), at.all(never));
  });
  return oldest == never ? n : place_of(oldest, arrivals, n);
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
  // Skips blocks of `width` numbers before `end`. It reads all of these blocks, because the place where the sum exceeds the point is
  // random: the processor would mispredict a branch there, which costs more.
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
    return sum.joined(sum_of_two);
  });
  skip(w, smaller(j + kChains * w, n), [=](size_t i) {
    Chains<double> sum(0.0);
    sum.of[0] = load(p + i);
    return sum.joined(sum_of_two);
  });
  skip(1, smaller(j + w, n), [=](size_t i) { return p[i]; });
  return j;
}

void divide_by_survival(double scale, const double* __restrict p, double normalisation, double most, size_t n, double* __restrict b) {
  constexpr size_t w = Pack<double>::lanes;
  const auto multiply = [=](size_t j, const auto& factor, auto at) {
    at.put(b + j, larger(smaller(at.get(b + j) * factor, at.all(most)), at.all(-most)));
  };
  const auto survival = [=](size_t j, auto at) { return at.all(1.0) - at.get(p + j) * at.all(normalisation); };
  size_t j = 0;
  for (; p && j + 2 * w <= n; j += 2 * w) {  // one division for two registers, because a division takes as long as ten products
    const auto one = survival(j, Register{}), other = survival(j + w, Register{}), both = all_lanes(scale) / (one * other);
    multiply(j, both * other, Register{});
    multiply(j + w, both * one, Register{});
  }
  const double same = scale / (1.0 - normalisation);
  for (; !p && j + w <= n; j += w) multiply(j, all_lanes(same), Register{});
  for (; j < n; ++j) multiply(j, p ? scale / survival(j, Single{}) : same, Single{});
  if (scale < 1.0) flush(b, n);  // nothing else makes them smaller
}

}  // namespace
}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
