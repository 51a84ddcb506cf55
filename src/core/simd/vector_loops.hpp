// Operations on vectors and on packed symmetric matrices.
//
// Included by simd.cpp, which is compiled once per instruction set.
#pragma once

#include <cstdint>

#include "simd/registers.hpp"
#include "simd/simd.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

double dot(const double* a, const double* b, size_t n) {
  using V = Pack<double>::type;
  constexpr size_t w = Pack<double>::lanes;
  V s0{}, s1{}, s2{}, s3{};
  size_t j = 0;
  for (; j + 4 * w <= n; j += 4 * w) {
    add_product(s0, load(a + j), load(b + j));
    add_product(s1, load(a + j + w), load(b + j + w));
    add_product(s2, load(a + j + 2 * w), load(b + j + 2 * w));
    add_product(s3, load(a + j + 3 * w), load(b + j + 3 * w));
  }
  for (; j + w <= n; j += w) add_product(s0, load(a + j), load(b + j));
  s0 = (s0 + s1) + (s2 + s3);
  double sum = 0;
  for (size_t l = 0; l < w; ++l) sum += s0[l];
  BUDGETRON_ONE_BY_ONE
  for (; j < n; ++j) sum += a[j] * b[j];
  return sum;
}

// The function in memory.hpp cannot be used: a linker keeps one copy of it for all instruction sets.
inline double flushed(double value) { return value < 1e-300 && value > -1e-300 ? 0.0 : value; }

inline void flush(double* __restrict x, size_t n) {
#pragma omp simd
  for (size_t j = 0; j < n; ++j) x[j] = flushed(x[j]);
}

void axpy(double a, const double* __restrict x, size_t n, double* __restrict y) {
#pragma omp simd
  for (size_t j = 0; j < n; ++j) y[j] = flushed(y[j] + a * x[j]);
}

void add_rows(const double* const* rows, const double* factor, size_t count, size_t n, double* __restrict y) {
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const double *a = rows[i], *b = rows[i + 1], *c = rows[i + 2], *e = rows[i + 3];
    const double fa = factor[i], fb = factor[i + 1], fc = factor[i + 2], fe = factor[i + 3];
#pragma omp simd
    for (size_t j = 0; j < n; ++j) y[j] += (fa * a[j] + fb * b[j]) + (fc * c[j] + fe * e[j]);
  }
  for (; i < count; ++i) axpy(factor[i], rows[i], n, y);
}

// value += a x, then squares += value², for one number or register of a row.
template <class V, class At>
BUDGETRON_INLINE void axpy_square(double a, const V& x, double* row, V& squares, At at) {
  auto value = at.get(row);
  add_product(value, a, x);
  value = zero_below(kLargestFlushed, value, at);
  add_product(squares, value, value);
  at.put(row, value);
}

// axpy_squares for the columns from j on, `Registers` registers of all rows at a time, so that their sums stay in registers. The columns that
// remain are done with fewer registers, and at last one by one.
template <size_t Registers>
inline void axpy_squares_from(size_t j, const double* a, const double* x, size_t n, double* const* rows, size_t count, double* sum) {
  using V = Pack<double>::type;
  constexpr size_t w = Pack<double>::lanes;
  for (; j + Registers * w <= n; j += Registers * w) {
    V squares[Registers], xj[Registers];
    for (size_t g = 0; g < Registers; ++g) {
      squares[g] = load(sum + j + g * w);
      xj[g] = load(x + j + g * w);
    }
    for (size_t q = 0; q < count; ++q) {
      // Copies, because the compiler must assume that storing a row changes `rows` and `a`.
      double* row = rows[q] + j;
      const double factor = a[q];
      for (size_t g = 0; g < Registers; ++g) axpy_square(factor, xj[g], row + g * w, squares[g], Register{});
    }
    for (size_t g = 0; g < Registers; ++g) store(sum + j + g * w, squares[g]);
  }
  if constexpr (Registers > 1) return axpy_squares_from<Registers - 1>(j, a, x, n, rows, count, sum);
  for (size_t q = 0; q < count; ++q)
    for (size_t i = j; i < n; ++i) axpy_square(a[q], x[i], rows[q] + i, sum[i], Single{});
}

void axpy_squares(const double* a, const double* x, size_t n, double* const* rows, size_t count, double* sum) {
  // With fewer than eight registers the processor would wait for the next row, since it prefetches only what follows in the same row.
  axpy_squares_from<8>(0, a, x, n, rows, count, sum);
}

// One step of symmetric_pass, for the rows i .. i + Rows − 1 of a triangle; row i + m begins at row[m]. Updates these rows, then adds to y their
// products with x, both as rows and as columns of the symmetric matrix. Several rows at a time share the loads of x, y, v0 and v1.
template <int Terms, size_t Rows, class Number>
inline void symmetric_rows(Number* const (&row)[Rows], size_t i, double c0, const double* v0, double c1, const double* v1,
                           const double* x, double* y) {
  using V = Pack<double>::type;
  constexpr size_t w = Pack<double>::lanes;
  double a0[Rows], a1[Rows], xi[Rows], tail[Rows];
  V sum[Rows];
  for (size_t m = 0; m < Rows; ++m) {
    a0[m] = Terms > 0 ? c0 * v0[i + m] : 0.0;
    a1[m] = Terms > 1 ? c1 * v1[i + m] : 0.0;
    xi[m] = x[i + m];
    sum[m] = V{};
    tail[m] = 0.0;
  }
  size_t j = 0;
  for (; j + w <= i; j += w) {
    const V xj = load(x + j);
    V yj = load(y + j), v0j{}, v1j{};
    if (Terms > 0) v0j = load(v0 + j);
    if (Terms > 1) v1j = load(v1 + j);
    for (size_t m = 0; m < Rows; ++m) {
      V p = load(row[m] + j);
      if (Terms > 0) add_product(p, a0[m], v0j);
      if (Terms > 1) add_product(p, a1[m], v1j);
      if constexpr (Terms > 0) store(row[m] + j, p);
      add_product(sum[m], p, xj);
      add_product(yj, xi[m], p);
    }
    store(y + j, yj);
  }
  for (size_t m = 0; m < Rows; ++m) {
    BUDGETRON_ONE_BY_ONE
    for (size_t t = j; t <= i + m; ++t) {  // the columns that do not fill a register, and the columns from the diagonal of row i on
      double p = row[m][t];
      if (Terms > 0) p += a0[m] * v0[t];
      if (Terms > 1) p += a1[m] * v1[t];
      if constexpr (Terms > 0) row[m][t] = p;
      tail[m] += p * x[t];
      if (t < i + m) y[t] += p * xi[m];
    }
    for (size_t l = 0; l < w; ++l) tail[m] += sum[m][l];
    y[i + m] += tail[m];
  }
}

template <int Terms>
void symmetric(double* s, size_t n, double c0, const double* v0, double c1, const double* v1, const double* x,
               double* y) {
  for (size_t j = 0; j < n; ++j) y[j] = 0.0;
  const auto begin = [=](size_t i) { return s + i * (i + 1) / 2; };
  size_t i = 0;
  for (; i + 2 <= n; i += 2) symmetric_rows<Terms, 2>({begin(i), begin(i + 1)}, i, c0, v0, c1, v1, x, y);
  if (i < n) symmetric_rows<Terms, 1>({begin(i)}, i, c0, v0, c1, v1, x, y);
}

void symmetric_pass(double* s, size_t n, int terms, double c0, const double* v0, double c1, const double* v1,
                    const double* x, double* y) {
  if (terms == 0) symmetric<0>(s, n, c0, v0, c1, v1, x, y);
  if (terms == 1) symmetric<1>(s, n, c0, v0, c1, v1, x, y);
  if (terms == 2) symmetric<2>(s, n, c0, v0, c1, v1, x, y);
}

// One step of symmetric_pass_f32, for the rows i .. i + Rows − 1, which have equally many registers. Left of the block on the diagonal, an entry
// stands for its mirror image too, so it is multiplied both as part of a row and as part of a column. The block itself is stored whole.
template <bool Update, size_t Rows>
inline void aligned_symmetric_rows(float* s, size_t i, const float* v, const float* x, float* y) {
  using V = Pack<float>::type;
  constexpr size_t w = Pack<float>::lanes;
  float *row[Rows], a[Rows], xi[Rows];
  V sum[Rows];
  for (size_t m = 0; m < Rows; ++m) {
    row[m] = s + aligned_row(i + m, kFloatsPerRegister);
    a[m] = Update ? -v[i + m] : 0.0f;
    xi[m] = x[i + m];
    sum[m] = V{};
  }
  const size_t block = i / kFloatsPerRegister * kFloatsPerRegister;
  size_t j = 0;
  for (; j < block; j += w) {
    const V xj = load(x + j);
    V yj = load(y + j), vj{};
    if (Update) vj = load(v + j);
    for (size_t m = 0; m < Rows; ++m) {
      V p = load(row[m] + j);
      if (Update) {
        add_product(p, a[m], vj);
        store(row[m] + j, p);
      }
      add_product(sum[m], p, xj);
      add_product(yj, xi[m], p);
    }
    store(y + j, yj);
  }
  for (; j < block + kFloatsPerRegister; j += w) {
    const V xj = load(x + j);
    for (size_t m = 0; m < Rows; ++m) {
      V p = load(row[m] + j);
      if (Update) {
        add_product(p, a[m], load(v + j));
        store(row[m] + j, p);
      }
      add_product(sum[m], p, xj);
    }
  }
  for (size_t m = 0; m < Rows; ++m) {
    float lanes[w];
    store(lanes, sum[m]);
    y[i + m] += join_lanes<w>(lanes, sum_of_two);
  }
}

template <bool Update>
void aligned_symmetric(float* s, size_t n, const float* v, const float* x, float* y) {
  for (size_t j = 0; j < n; ++j) y[j] = 0.0f;
  size_t i = 0;
  for (; i + 4 <= n; i += 4) aligned_symmetric_rows<Update, 4>(s, i, v, x, y);
  for (; i < n; ++i) aligned_symmetric_rows<Update, 1>(s, i, v, x, y);
}

void symmetric_pass_f32(float* s, size_t n, const float* v, const float* x, float* y) {
  if (v)
    aligned_symmetric<true>(s, n, v, x, y);
  else
    aligned_symmetric<false>(s, n, v, x, y);
}

void symmetric_multiply(const double* s, size_t n, const double* x, double* y) {
  for (size_t j = 0; j < n; ++j) y[j] = 0.0;
  const auto begin = [=](size_t i) { return s + i * n; };
  size_t i = 0;
  for (; i + 4 <= n; i += 4)
    symmetric_rows<0, 4>({begin(i), begin(i + 1), begin(i + 2), begin(i + 3)}, i, 0.0, nullptr, 0.0, nullptr, x, y);
  for (; i < n; ++i) symmetric_rows<0, 1>({begin(i)}, i, 0.0, nullptr, 0.0, nullptr, x, y);
}

// One step of symmetric_add, for the rows i .. i + Rows − 1, which have equally many registers. Several rows at a time share the loads of a, g
// and m.
template <bool Square, size_t Rows>
inline void symmetric_add_rows(double* s, size_t i, double c, const double* a, const double* g, const double* m) {
  using V = Pack<double>::type;
  double* row[Rows];
  double ai[Rows], gi[Rows], mi[Rows];
  for (size_t q = 0; q < Rows; ++q) {
    row[q] = s + aligned_row(i + q);
    ai[q] = Square ? c * a[i + q] : 0.0;
    gi[q] = g[i + q];
    mi[q] = m[i + q];
  }
  for (size_t j = 0; j < i + Rows; j += Pack<double>::lanes) {
    const V gj = load(g + j), mj = load(m + j);
    V aj{};
    if (Square) aj = load(a + j);
    for (size_t q = 0; q < Rows; ++q) {
      V p = load(row[q] + j);
      if (Square) add_product(p, ai[q], aj);
      add_product(p, gi[q], mj);
      add_product(p, mi[q], gj);
      store(row[q] + j, p);
    }
  }
}

template <bool Square>
void symmetric_add_all(double* s, size_t n, double c, const double* a, const double* g, const double* m) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4) symmetric_add_rows<Square, 4>(s, i, c, a, g, m);
  for (; i < n; ++i) symmetric_add_rows<Square, 1>(s, i, c, a, g, m);
}

void symmetric_add(double* s, size_t n, double c, const double* a, const double* g, const double* m) {
  if (c != 0.0)
    symmetric_add_all<true>(s, n, c, a, g, m);
  else
    symmetric_add_all<false>(s, n, c, a, g, m);
}

}  // namespace
}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
