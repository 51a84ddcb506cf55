// Kernel values from inner products, and their product with task similarities.
//
// Included by simd.cpp, which is compiled once per instruction set.
#pragma once

#include <cstdint>

#include "simd/registers.hpp"
#include "simd/simd.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

using std::int32_t;
using std::int64_t;
using std::uint32_t;
using std::uint64_t;

// exp(x) for x ≤ 0. With x = n ln 2 + r, a Chebyshev polynomial of degree 11 in r approximates exp(r) with an error of 3e-18,
// and n is added to the exponent. For x below −708, close to where results become subnormal, the result is 0. For float, the degree is 6 and the
// limit −87.
inline double exp_of(double x) {
  constexpr double shift = 6755399441055744.0;  // 1.5 · 2⁵²: adding it leaves round(x / ln 2) in the low bits
  const bool underflows = x < -708.0;
  const double clipped = underflows ? -708.0 : x;
  const double shifted = clipped * 1.4426950408889634074 + shift;
  const double n = shifted - shift;
  const double r = (clipped - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  double p = 2.5110037605963777712e-8;
  p = p * r + 2.7632639639041029749e-7;
  p = p * r + 2.7557240918578969823e-6;
  p = p * r + 0.000024801485482328492419;
  p = p * r + 0.00019841269890047113707;
  p = p * r + 0.0013888888952314774652;
  p = p * r + 0.0083333333333196006109;
  p = p * r + 0.041666666666488095495;
  p = p * r + 0.16666666666666680806;
  p = p * r + 0.50000000000000183855;
  p = p * r + 0.99999999999999999976;
  p = p * r + 0.99999999999999999693;
  const int64_t bits = with_bits_of<int64_t>(p) +
                       static_cast<int64_t>(static_cast<uint64_t>(with_bits_of<int64_t>(shifted)) << 52);
  return underflows ? 0.0 : with_bits_of<double>(bits);
}

inline float exp_of(float x) {
  constexpr float shift = 12582912.0f;  // 1.5 · 2²³
  const bool underflows = x < -87.0f;
  const float clipped = underflows ? -87.0f : x;
  const float shifted = clipped * 1.44269504f + shift;
  const float n = shifted - shift;
  const float r = (clipped - n * 0.693145752f) - n * 1.42860677e-6f;
  float p = 0.0013941108434f;
  p = p * r + 0.00837512639815f;
  p = p * r + 0.0416663528968f;
  p = p * r + 0.166664155147f;
  p = p * r + 0.500000004712f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const int32_t bits = with_bits_of<int32_t>(p) +
                       static_cast<int32_t>(static_cast<uint32_t>(with_bits_of<int32_t>(shifted)) << 23);
  return underflows ? 0.0f : with_bits_of<float>(bits);
}

template <class T>
void gaussian(const T* __restrict dot, const T* __restrict sq_stored, double sq, double gamma, size_t n,
              double* __restrict row) {
  const T minus_gamma = static_cast<T>(-gamma), sq_new = static_cast<T>(sq), two = 2, zero = 0;
#pragma omp simd
  for (size_t j = 0; j < n; ++j) {
    const T distance = (sq_stored[j] + sq_new) - two * dot[j];
    row[j] = static_cast<double>(exp_of(minus_gamma * (distance > zero ? distance : zero)));
  }
}

template <class T>
void polynomial(const T* __restrict dot, double bias, int degree, const double* __restrict scale_stored,
                double scale, size_t n, double* __restrict row) {
#pragma omp simd
  for (size_t j = 0; j < n; ++j) row[j] = static_cast<double>(dot[j]) + bias;
  if (degree == 2) {
#pragma omp simd
    for (size_t j = 0; j < n; ++j) row[j] *= row[j];
  } else if (degree == 3) {
#pragma omp simd
    for (size_t j = 0; j < n; ++j) row[j] *= row[j] * row[j];
  } else if (degree > 3) {
    for (size_t j = 0; j < n; ++j) {
      double power = 1.0, base = row[j];
      for (int e = degree; e; e >>= 1, base *= base)
        if (e & 1) power *= base;
      row[j] = power;
    }
  }
  if (scale_stored) {
#pragma omp simd
    for (size_t j = 0; j < n; ++j) row[j] = row[j] * scale_stored[j] * scale;  // in this order, because the product of the two scales could overflow
  }
}

double clique(const int64_t* __restrict task_ids, const int64_t* __restrict clusters, int64_t task_id, int64_t cluster,
              double diagonal, double off, size_t n, const double* row, const double* weights, double* out) {
  constexpr size_t w = Pack<double>::lanes;
  const auto value = [=](size_t j, auto at) {
    const auto off_diagonal = where_equal(at.get(clusters + j), at.all(cluster), at.all(off), at.all(0.0));
    return at.get(row + j) * where_equal(at.get(task_ids + j), at.all(task_id), at.all(diagonal), off_diagonal);
  };
  Chains<double> sum(0.0), values(0.0);
  size_t j = 0;
  for (; j + kChains * w <= n; j += kChains * w) {
    // All loads come before the stores, to avoid 4K aliasing: processors compare only the low 12 bits of addresses, so a load of row[j + w]
    // can wait for a store to out[j] although the arrays differ. Such waits made one model in four a third slower at B = 500.
    for (size_t chain = 0; chain < kChains; ++chain) values.of[chain] = value(j + chain * w, Register{});
    for (size_t chain = 0; chain < kChains; ++chain) {
      store(out + j + chain * w, values.of[chain]);
      add_product(sum.of[chain], load(weights + j + chain * w), values.of[chain]);
    }
  }
  for (; j + w <= n; j += w) {
    values.of[0] = value(j, Register{});
    store(out + j, values.of[0]);
    add_product(sum.of[0], load(weights + j), values.of[0]);
  }
  double rest = 0;
  for (; j < n; ++j) {
    out[j] = value(j, Single{});
    rest += weights[j] * out[j];
  }
  return sum.join_all(sum_of_two) + rest;
}

}  // namespace
}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
