// Random Fourier features (the sines and cosines of FourierSgd too), and the AdaGrad step of Budgetron.
//
// Included by simd.cpp, which is compiled once per instruction set.
#pragma once

#include <cstdint>

#include "simd/simd.hpp"
#include "simd/vectors.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

using std::int32_t;
using std::int64_t;
using std::int8_t;

// The phases q .. q + Registers · w − 1, for registers of w numbers. They stay in registers while all columns are added.
template <size_t Registers>
inline void phases_from(size_t q, const int8_t* frequencies, size_t d, size_t count, const float* z, float* phase) {
  using V = Pack<float>::type;
  constexpr size_t w = Pack<float>::lanes;
  V sum[Registers];
  for (size_t r = 0; r < Registers; ++r) sum[r] = V{};
  for (size_t j = 0; j < d; ++j)
    for (size_t r = 0; r < Registers; ++r) add_product(sum[r], z[j], load_floats(frequencies + j * count + q + r * w));
  for (size_t r = 0; r < Registers; ++r) store(phase + q + r * w, sum[r]);
}

void phases(const int8_t* frequencies, size_t d, size_t count, const float* z, float* phase) {
  constexpr size_t w = Pack<float>::lanes;
  size_t q = 0;
  for (; q + 4 * w <= count; q += 4 * w) phases_from<4>(q, frequencies, d, count, z, phase);
  for (; q + w <= count; q += w) phases_from<1>(q, frequencies, d, count, z, phase);
  if (q == count) return;
  if (count >= w) {
    phases_from<1>(count - w, frequencies, d, count, z, phase);  // computes some phases again, with the same result
    return;
  }
  for (; q < count; ++q) {
    phase[q] = 0.0f;
    for (size_t j = 0; j < d; ++j) phase[q] += z[j] * static_cast<float>(frequencies[j * count + q]);
  }
}

// x = n π/2 + r with |r| ≤ π/4, where n π/2 is subtracted in three parts to keep r accurate. Polynomials of degree 13 and 14 approximate sin r
// and cos r. n mod 4 decides which of the two is the cosine of x, and the signs.
void cos_sin(const double* __restrict phase, size_t count, double s, double* __restrict out) {
  constexpr double shift = 6755399441055744.0;  // 1.5 · 2⁵²: adding it rounds to an integer
#pragma omp simd
  for (size_t q = 0; q < count; ++q) {
    const double x = s * phase[q];
    const double shifted = x * 0.63661977236758134308 + shift, n = shifted - shift;
    const double r = ((x - n * 1.5707963109016418457) - n * 1.5893254712295857e-8) - n * 6.12323399573676603587e-17;
    const double t = r * r;
    double sine = 1.58962301576546568060e-10;
    sine = sine * t - 2.50507477628578072866e-8;
    sine = sine * t + 2.75573136213857245213e-6;
    sine = sine * t - 1.98412698295895385996e-4;
    sine = sine * t + 8.33333333332211858878e-3;
    sine = sine * t - 1.66666666666666307295e-1;
    sine = r + r * t * sine;
    double cosine = -1.13585365213876817300e-11;
    cosine = cosine * t + 2.08757008419747316778e-9;
    cosine = cosine * t - 2.75573141792967388112e-7;
    cosine = cosine * t + 2.48015872888517045348e-5;
    cosine = cosine * t - 1.38888888888730564116e-3;
    cosine = cosine * t + 4.16666666666665929218e-2;
    cosine = 1.0 - 0.5 * t + t * t * cosine;
    const int64_t quarter = with_bits_of<int64_t>(shifted);
    const double c = quarter & 1 ? sine : cosine, w = quarter & 1 ? cosine : sine;
    out[2 * q] = (quarter + 1) & 2 ? -c : c;
    out[2 * q + 1] = quarter & 2 ? -w : w;
  }
}

// The same in float32, with polynomials of degree 7 and 8.
void cos_sin_f32(const float* __restrict phase, size_t count, float s, float* __restrict out) {
  constexpr float shift = 12582912.0f;  // 1.5 · 2²³
#pragma omp simd
  for (size_t q = 0; q < count; ++q) {
    const float x = s * phase[q];
    const float shifted = x * 0.6366197723675814f + shift, n = shifted - shift;
    const float r = ((x - n * 1.5703125f) - n * 4.837512969970703e-4f) - n * 7.549789954891882e-8f;
    const float t = r * r;
    float sine = -1.9515295891e-4f;
    sine = sine * t + 8.3321608736e-3f;
    sine = sine * t - 1.6666654611e-1f;
    sine = r + r * t * sine;
    float cosine = 2.443315711809948e-5f;
    cosine = cosine * t - 1.388731625493765e-3f;
    cosine = cosine * t + 4.166664568298827e-2f;
    cosine = 1.0f - 0.5f * t + t * t * cosine;
    const int32_t quarter = with_bits_of<int32_t>(shifted);
    const float c = quarter & 1 ? sine : cosine, w = quarter & 1 ? cosine : sine;
    out[2 * q] = (quarter + 1) & 2 ? -c : c;
    out[2 * q + 1] = quarter & 2 ? -w : w;
  }
}

template <class Value>
double dot_f32(const float* __restrict w, const Value* __restrict x, size_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t j = 0; j < n; ++j) sum += static_cast<double>(w[j]) * static_cast<double>(x[j]);
  return sum;
}

template <class Value>
void adagrad(float* __restrict w, float* __restrict squares, const Value* __restrict x, Value gradient, float rate, size_t n) {
#pragma omp simd
  for (size_t j = 0; j < n; ++j) {
    const float u = static_cast<float>(gradient * x[j]);
    squares[j] += u * u + 1e-30f;
    w[j] += rate * u / square_root(squares[j]);
  }
}

}  // namespace
}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
