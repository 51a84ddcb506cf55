// A vector register of BUDGETRON_VECTOR bytes, for the loops of simd.cpp. It uses the vector extensions of GCC and Clang, or an
// array and plain loops for other compilers; BUDGETRON_PLAIN_LOOPS selects the plain loops, for tests.
//
// Both variants add in the same order. simd.cpp, which includes this file, is compiled once per instruction set.
#pragma once

#include <math.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if (defined(__AVX512F__) || defined(__FMA__)) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#include <arm_neon.h>
#endif

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

using std::size_t;

// For functions that take lambdas. GCC would not inline some of them, and each call would take as long as computing 100 numbers.
#if defined(__GNUC__) || defined(__clang__)
#define BUDGETRON_INLINE __attribute__((always_inline)) inline
#else
#define BUDGETRON_INLINE inline
#endif

// Stands before a loop over the last numbers, which do not fill a register. GCC 16 would vectorise even such a loop, beginning at the first
// aligned address, and fuse multiplication and addition only for the numbers before and after the vectorised part. Then the last digits would
// depend on where an array lies in memory. GCC has had the pragma since version 14.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 14
#define BUDGETRON_ONE_BY_ONE _Pragma("GCC novector")
#else
#define BUDGETRON_ONE_BY_ONE
#endif

// The next five functions work on single numbers, and lane by lane on registers; overloads for registers follow where they are needed.

// a where x is at most `limit`, otherwise b.
template <class X, class V>
inline V where_at_most(const X& x, const X& limit, const V& a, const V& b) {
  return x <= limit ? a : b;
}
// a where x equals y, otherwise b.
template <class X, class V>
inline V where_equal(const X& x, const X& y, const V& a, const V& b) {
  return x == y ? a : b;
}
// The smaller and the larger of a and b; b if a is NaN. On x86-64, each compiles to one instruction for float and double.
template <class V>
inline V smaller(const V& a, const V& b) {
  return a < b ? a : b;
}
template <class V>
inline V larger(const V& a, const V& b) {
  return a > b ? a : b;
}
inline double magnitude(double x) { return x < 0 ? -x : x; }

#if (defined(__GNUC__) || defined(__clang__)) && !defined(BUDGETRON_PLAIN_LOOPS)

template <class T>
struct Pack {
  typedef T type __attribute__((vector_size(BUDGETRON_VECTOR)));
  typedef T loose __attribute__((vector_size(BUDGETRON_VECTOR), aligned(alignof(T)), may_alias));  // aligned like a single T
  typedef T four __attribute__((vector_size(4 * sizeof(T))));  // always four numbers
  static constexpr size_t lanes = BUDGETRON_VECTOR / sizeof(T);
};

// Prefetches the cache line at p. The inline function in intrinsics.hpp cannot be used: the linker would keep only one of its compiled copies,
// perhaps one with instructions that the processor lacks.
inline void prefetch(const void* p) { __builtin_prefetch(p); }

// The number of type To with the same bits as `from`, as std::bit_cast of C++20 returns it.
template <class To, class From>
inline To with_bits_of(const From& from) {
  return __builtin_bit_cast(To, from);
}
inline float square_root(float x) { return __builtin_sqrtf(x); }

template <class T>
inline typename Pack<T>::type load(const T* p) {
  return *reinterpret_cast<const typename Pack<T>::loose*>(p);
}
template <class T>
inline void store(T* p, const typename Pack<T>::type& v) {
  *reinterpret_cast<typename Pack<T>::loose*>(p) = v;
}

// Loads as many small integers as a register has floats.
inline Pack<float>::type load_floats(const std::int8_t* p) {
// Intrinsics, because GCC 12 would convert a vector of small integers number by number. The AVX-512 intrinsics have a mask of all lanes, because
// GCC 12 warns about the variants without a mask.
#if defined(__AVX512F__) && BUDGETRON_VECTOR == 64
  return _mm512_maskz_cvtepi32_ps(0xFFFF, _mm512_maskz_cvtepi8_epi32(0xFFFF, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#elif defined(__AVX2__) && BUDGETRON_VECTOR == 32
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  typedef std::int8_t Integers __attribute__((vector_size(BUDGETRON_VECTOR / sizeof(float))));
  Integers integers;
  __builtin_memcpy(&integers, p, sizeof(integers));
  return __builtin_convertvector(__builtin_convertvector(integers, Pack<std::int32_t>::type), Pack<float>::type);
#endif
}

// The same number in every lane.
template <class T>
inline typename Pack<T>::type all_lanes(T value) {
  return typename Pack<T>::type{} + value;
}

// sum += a b, lane by lane, rounded once if V is a register and the instruction set has a fused multiply-add. Without this function, GCC 14 fuses
// `sum += a * b` in some copies of a loop and not in others. The squared norm of a row would then depend on the number of rows in the call, and a
// loaded model would differ from the saved one.
template <class V>
inline void multiply_add(V& sum, const V& a, const V& b) {
  sum += a * b;  // integers, single numbers, and instruction sets without a fused multiply-add
}
#if defined(__FMA__)
inline void multiply_add(__m128& sum, const __m128& a, const __m128& b) { sum = _mm_fmadd_ps(a, b, sum); }
inline void multiply_add(__m128d& sum, const __m128d& a, const __m128d& b) { sum = _mm_fmadd_pd(a, b, sum); }
inline void multiply_add(__m256& sum, const __m256& a, const __m256& b) { sum = _mm256_fmadd_ps(a, b, sum); }
inline void multiply_add(__m256d& sum, const __m256d& a, const __m256d& b) { sum = _mm256_fmadd_pd(a, b, sum); }
#if defined(__AVX512F__)
inline void multiply_add(__m512& sum, const __m512& a, const __m512& b) { sum = _mm512_fmadd_ps(a, b, sum); }
inline void multiply_add(__m512d& sum, const __m512d& a, const __m512d& b) { sum = _mm512_fmadd_pd(a, b, sum); }
#endif
#elif defined(__aarch64__)
inline void multiply_add(Pack<float>::type& sum, const Pack<float>::type& a, const Pack<float>::type& b) { sum = vfmaq_f32(sum, a, b); }
inline void multiply_add(Pack<double>::type& sum, const Pack<double>::type& a, const Pack<double>::type& b) { sum = vfmaq_f64(sum, a, b); }
inline void multiply_add(Pack<double>::four& sum, const Pack<double>::four& a, const Pack<double>::four& b) {
  for (size_t l = 0; l < 4; ++l) sum[l] = __builtin_fma(a[l], b[l], sum[l]);
}
#endif

// The same; `a` may be a scalar.
template <class V, class A>
inline void add_product(V& sum, const A& a, const V& b) {
  multiply_add(sum, a - V{}, b);  // a − 0 fills a register with a scalar
}

inline Pack<double>::type magnitude(const Pack<double>::type& x) {
  return reinterpret_cast<Pack<double>::type>(reinterpret_cast<Pack<int64_t>::type>(x) & INT64_MAX);
}

#else

template <class T, size_t N = BUDGETRON_VECTOR / sizeof(T)>
struct Lanes {
  static constexpr size_t count = N;
  T lane[N];
  T operator[](size_t l) const { return lane[l]; }
};
template <class T>
struct Pack {
  using type = Lanes<T>;
  using four = Lanes<T, 4>;
  static constexpr size_t lanes = Lanes<T>::count;
};

inline void prefetch(const void*) {}

template <class To, class From>
inline To with_bits_of(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "both types have the same number of bits");
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}
inline float square_root(float x) { return ::sqrtf(x); }  // std::sqrt could be an inline function, of which a linker keeps one copy

template <class T>
inline Lanes<T> load(const T* p) {
  Lanes<T> v;
  for (size_t l = 0; l < Lanes<T>::count; ++l) v.lane[l] = p[l];
  return v;
}
template <class T>
inline void store(T* p, const Lanes<T>& v) {
  for (size_t l = 0; l < Lanes<T>::count; ++l) p[l] = v.lane[l];
}
inline Lanes<float> load_floats(const std::int8_t* p) {
  Lanes<float> v;
  for (size_t l = 0; l < Lanes<float>::count; ++l) v.lane[l] = p[l];
  return v;
}
template <class T, class Operation>
inline Lanes<T> lane_by_lane(Lanes<T> a, const Lanes<T>& b, Operation operation) {
  for (size_t l = 0; l < Lanes<T>::count; ++l) a.lane[l] = operation(a.lane[l], b.lane[l]);
  return a;
}
template <class T>
inline Lanes<T> operator+(const Lanes<T>& a, const Lanes<T>& b) {
  return lane_by_lane(a, b, [](T x, T y) { return x + y; });
}
template <class T>
inline Lanes<T> operator-(const Lanes<T>& a, const Lanes<T>& b) {
  return lane_by_lane(a, b, [](T x, T y) { return x - y; });
}
template <class T>
inline Lanes<T> operator*(const Lanes<T>& a, const Lanes<T>& b) {
  return lane_by_lane(a, b, [](T x, T y) { return x * y; });
}
template <class T>
inline Lanes<T> operator/(const Lanes<T>& a, const Lanes<T>& b) {
  return lane_by_lane(a, b, [](T x, T y) { return x / y; });
}
template <class T>
inline Lanes<T> smaller(const Lanes<T>& a, const Lanes<T>& b) {
  return lane_by_lane(a, b, [](T x, T y) { return x < y ? x : y; });
}
template <class T>
inline Lanes<T> larger(const Lanes<T>& a, const Lanes<T>& b) {
  return lane_by_lane(a, b, [](T x, T y) { return x > y ? x : y; });
}
inline Lanes<double> magnitude(const Lanes<double>& a) {
  return lane_by_lane(a, a, [](double x, double) { return x < 0 ? -x : x; });
}
template <class T>
inline Lanes<T> all_lanes(T value) {
  Lanes<T> v;
  for (size_t l = 0; l < Lanes<T>::count; ++l) v.lane[l] = value;
  return v;
}
template <class X, class T>
inline Lanes<T> where_at_most(const Lanes<X>& x, const Lanes<X>& limit, Lanes<T> a, const Lanes<T>& b) {
  for (size_t l = 0; l < Lanes<T>::count; ++l) a.lane[l] = x.lane[l] <= limit.lane[l] ? a.lane[l] : b.lane[l];
  return a;
}
template <class X, class T>
inline Lanes<T> where_equal(const Lanes<X>& x, const Lanes<X>& y, Lanes<T> a, const Lanes<T>& b) {
  for (size_t l = 0; l < Lanes<T>::count; ++l) a.lane[l] = x.lane[l] == y.lane[l] ? a.lane[l] : b.lane[l];
  return a;
}
inline void add_product(double& sum, double a, double b) { sum += a * b; }
template <class T>
inline void add_product(Lanes<T>& sum, const T& a, const Lanes<T>& b) {
  for (size_t l = 0; l < Lanes<T>::count; ++l) sum.lane[l] = static_cast<T>(sum.lane[l] + a * b.lane[l]);
}
template <class T, size_t N>
inline void add_product(Lanes<T, N>& sum, const Lanes<T, N>& a, const Lanes<T, N>& b) {
  for (size_t l = 0; l < N; ++l) sum.lane[l] = static_cast<T>(sum.lane[l] + a.lane[l] * b.lane[l]);
}

#endif

}  // namespace
}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
