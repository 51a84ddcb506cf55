// Loops over registers of numbers: formulas that work for a register and for a single number, reductions, and sums.
//
// Included by simd.cpp, which is compiled once per instruction set.
#pragma once

#include "simd/vectors.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

// How a loop reads and writes numbers: a register at a time, or one by one if they do not fill a register. A formula takes one of these as an
// argument, so it is written only once.
struct Register {
  template <class T>
  static constexpr size_t lanes = Pack<T>::lanes;
  template <class T>
  auto get(const T* p) const {
    return load(p);
  }
  template <class T>
  void put(T* p, const typename Pack<T>::type& value) const {
    store(p, value);
  }
  template <class T>
  auto all(T value) const {
    return all_lanes(value);
  }
};
struct Single {
  template <class T>
  static constexpr size_t lanes = 1;
  template <class T>
  T get(const T* p) const {
    return *p;
  }
  template <class T>
  void put(T* p, T value) const {
    *p = value;
  }
  template <class T>
  T all(T value) const {
    return value;
  }
};

// x, or 0 where |x| is at most `limit`.
template <class V, class At>
BUDGETRON_INLINE V zero_below(double limit, const V& x, At at) {
  return where_at_most(magnitude(x), at.all(limit), at.all(0.0), x);
}
constexpr double kLargestFlushed = 0x1.56e1fc2f8f358p-997;  // flushed() sets what is below 1e-300 to 0; this is the largest such number

// smaller(), larger() and + as function objects, to pass as arguments.
constexpr auto least_of_two = [](const auto& a, const auto& b) { return smaller(a, b); };
constexpr auto largest_of_two = [](const auto& a, const auto& b) { return larger(a, b); };
constexpr auto sum_of_two = [](const auto& a, const auto& b) { return a + b; };

// Combines w numbers pairwise: the first half with the second half, until one number is left. A recursive template, because GCC 12 does not unroll
// the equivalent loop over halves, whose every step would then wait for a store of the step before.
template <size_t w, class T, class Join>
BUDGETRON_INLINE T join_lanes(const T* lane, Join join) {
  if constexpr (w == 1) {
    return lane[0];
  } else {
    T half[w / 2];
    for (size_t l = 0; l < w / 2; ++l) half[l] = join(lane[l], lane[l + w / 2]);
    return join_lanes<w / 2>(half, join);
  }
}

// Several independent accumulators. With a single one, each step would have to wait for the result of the previous step. join_all() combines
// the accumulators, and then their lanes, pairwise.
constexpr size_t kChains = 4;
template <class T>
struct Chains {
  static constexpr size_t w = Pack<T>::lanes;
  typename Pack<T>::type of[kChains];
  explicit Chains(T start) : of{all_lanes(start), all_lanes(start), all_lanes(start), all_lanes(start)} {}
  template <class Join>
  T join_all(Join join) const {
    T lane[w];
    store(lane, join(join(of[0], of[1]), join(of[2], of[3])));
    return join_lanes<w>(lane, join);
  }
};

// Calls visit(j, chain) for registers that together cover n numbers. j is the first number of a register, and `chain` the number of the
// accumulator to use. n is at least the number of lanes. If n is no multiple of kChains · lanes, the last registers overlap, so some numbers are
// visited more than once.
template <class Visit>
BUDGETRON_INLINE void visit_registers(size_t n, Visit visit) {
  constexpr size_t w = Pack<double>::lanes;
  for (size_t j = 0; j < n; j += kChains * w)
    for (size_t chain = 0; chain < kChains; ++chain) visit(j + chain * w < n - w ? j + chain * w : n - w, chain);
}

// The sum of n terms: term(j, Register{}) returns a register of terms that begins at j, term(j, Single{}) returns term j.
template <class Term>
BUDGETRON_INLINE double sum_of(size_t n, Term term) {
  constexpr size_t w = Pack<double>::lanes;
  Chains<double> sum(0.0);
  size_t j = 0;
  for (; j + kChains * w <= n; j += kChains * w)
    for (size_t chain = 0; chain < kChains; ++chain) sum.of[chain] = sum.of[chain] + term(j + chain * w, Register{});
  for (; j + w <= n; j += w) sum.of[0] = sum.of[0] + term(j, Register{});
  double rest = 0;
  for (; j < n; ++j) rest += term(j, Single{});
  return sum.join_all(sum_of_two) + rest;
}

}  // namespace
}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
