// Compiled once per instruction set, with BUDGETRON_TARGET naming the namespace and BUDGETRON_VECTOR the
// bytes of a register. No std:: templates here: a linker may keep one copy of those for all levels.
#include "simd/simd.hpp"

#include "simd/vectors.hpp"

namespace budgetron {
namespace BUDGETRON_TARGET {
namespace {

using std::int16_t;
using std::int64_t;
using std::uint32_t;
using std::uint64_t;
using std::int32_t;

// One group of Wide registers of a block against Queries rows. Each lane adds feature by feature in order,
// whatever Wide and Queries are, so the sums do not depend on how queries were grouped.
template <class T, size_t Queries, size_t Wide>
inline void products_group(const T* group, size_t d, const T* const* x, T* const* out, size_t at) {
  using V = typename Pack<T>::type;
  constexpr size_t w = Pack<T>::lanes;
  V sum[Queries][Wide];
  for (size_t q = 0; q < Queries; ++q)
    for (size_t g = 0; g < Wide; ++g) sum[q][g] = V{};
  for (size_t f = 0; f < d; ++f, group += kLanes<T>) {
    V column[Wide];
    for (size_t g = 0; g < Wide; ++g) column[g] = load(group + g * w);
    for (size_t q = 0; q < Queries; ++q) {
      const T value = x[q][f];
      for (size_t g = 0; g < Wide; ++g) add_product(sum[q][g], value, column[g]);
    }
  }
  for (size_t q = 0; q < Queries; ++q)
    for (size_t g = 0; g < Wide; ++g) store(out[q] + at + g * w, sum[q][g]);
}

template <class T, size_t Queries>
inline void products_some(const T* blocks_of, size_t blocks, size_t d, const T* const* x, T* const* out) {
  constexpr size_t registers = kBlockBytes / BUDGETRON_VECTOR;
  // Eight accumulators hide the latency of a fused multiply-add; more would spill.
  constexpr size_t wide = Queries == 1 ? (registers < 8 ? registers : 8) : 8 / Queries;
  constexpr size_t w = Pack<T>::lanes;
  for (size_t b = 0; b < blocks; ++b)
    for (size_t g = 0; g < registers; g += wide)
      products_group<T, Queries, wide>(blocks_of + b * d * kLanes<T> + g * w, d, x, out, b * kLanes<T> + g * w);
}

template <class T>
void products(const T* blocks_of, size_t blocks, size_t d, const T* const* x, size_t count, T* const* out) {
  size_t q = 0;
  for (; q + 4 <= count; q += 4) products_some<T, 4>(blocks_of, blocks, d, x + q, out + q);
  for (; q < count; ++q) products_some<T, 1>(blocks_of, blocks, d, x + q, out + q);
}

// One sum is a serial chain of additions; four rows side by side hide its latency. Vectors, as in `products`, so that the
// compiler fuses multiplication and addition here exactly where it does there.
template <class T>
void squares(const T* const* x, size_t count, size_t d, double* out) {
  using Four = typename Pack<T>::four;
  for (size_t q = 0; q < count; q += 4) {
    const size_t last = count - 1;  // fewer than four: the last one several times
    const T *a = x[q], *b = x[q + 1 < last ? q + 1 : last], *c = x[q + 2 < last ? q + 2 : last], *e = x[q + 3 < last ? q + 3 : last];
    Four sum{};
    for (size_t f = 0; f < d; ++f) {
      const Four value = {a[f], b[f], c[f], e[f]};
      add_product(sum, value, value);
    }
    for (size_t i = 0; i < 4 && q + i < count; ++i) out[q + i] = static_cast<double>(sum[i]);
  }
}

template <class V>
void scatter(const Run<V>* runs, size_t count, double* sum) {
  for (size_t r = 0; r < count; ++r) {
    const V* __restrict values = runs[r].values;
    const size_t n = runs[r].length;
    const double x = runs[r].x;
    if (const uint32_t* slots = runs[r].slots) {
      for (size_t i = 0; i < n; ++i) sum[slots[i]] += x * static_cast<double>(values[i]);
    } else {
      double* __restrict all = sum;
#pragma omp simd
      for (size_t j = 0; j < n; ++j) all[j] += x * static_cast<double>(values[j]);
    }
  }
}

void scatter_whole(const WholeRun* runs, size_t count, int32_t* sum) {
  for (size_t r = 0; r < count; ++r) {
    const uint32_t* __restrict slots = runs[r].slots;
    const int16_t* __restrict values = runs[r].values;
    const int32_t x = runs[r].x;
    const size_t n = runs[r].length;
    if (slots) {
      for (size_t i = 0; i < n; ++i) sum[slots[i]] += x * values[i];
    } else {
      int32_t* __restrict all = sum;
#pragma omp simd
      for (size_t j = 0; j < n; ++j) all[j] += x * values[j];
    }
  }
}

// Some slots at a time through all columns: their sums stay in registers, 16 bits each.
void columns_whole(const WholeRun* columns, size_t count, size_t n, int32_t* __restrict sum) {
  using V = Pack<int16_t>::type;
  constexpr size_t w = Pack<int16_t>::lanes, wide = 4;
  size_t j = 0;
  for (; j + wide * w <= n; j += wide * w) {
    V total[wide] = {};
    for (size_t c = 0; c < count; ++c) {
      const int16_t x = static_cast<int16_t>(columns[c].x);
      for (size_t g = 0; g < wide; ++g) add_product(total[g], x, load(columns[c].values + j + g * w));
    }
    int16_t added[wide * w];
    for (size_t g = 0; g < wide; ++g) store(added + g * w, total[g]);
#pragma omp simd
    for (size_t i = 0; i < wide * w; ++i) sum[j + i] += added[i];
  }
  for (; j < n; ++j)
    for (size_t c = 0; c < count; ++c) sum[j] += columns[c].x * columns[c].values[j];
}

template <class T>
double whole_sum(const T* x, size_t n) {
  double sum = 0;
  int fractions = 0;
#pragma omp simd reduction(+ : sum) reduction(| : fractions)
  for (size_t i = 0; i < n; ++i) {
    const T size = x[i] < 0 ? -x[i] : x[i];
    const bool small = size <= 32767;  // and not NaN
    const int32_t whole = static_cast<int32_t>(small ? x[i] : T{});
    fractions |= !small | (static_cast<T>(whole) != x[i]);
    sum += static_cast<double>(small ? size : T{});
  }
  return fractions ? -1.0 : sum;
}

size_t find(const uint32_t* slots, size_t n, uint32_t slot) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    uint32_t hit = 0;
#pragma omp simd reduction(| : hit)
    for (size_t j = 0; j < 16; ++j) hit |= slots[i + j] == slot;
    if (hit) break;
  }
  while (i < n && slots[i] != slot) ++i;
  return i;
}

template <class T>
double sparse_square(const T* x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

inline double signed_at(uint32_t place, double value) {
  return __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, value) ^ static_cast<uint64_t>(place >> 31) << 63);
}

// Beliefs == 0: as many as the shape says; outputs likewise.
template <class T, size_t Beliefs, size_t Outputs>
void table_read_of(const T* cells, TableShape shape, const Entry* entries, size_t n, double* shared, double* own) {
  constexpr bool fixed = Beliefs > 0;
  constexpr size_t n_sums = fixed ? Beliefs * (Outputs + 1) : 1;
  const size_t beliefs = fixed ? Beliefs : shape.beliefs, outputs = fixed ? Outputs : shape.outputs;
  const size_t weights = beliefs * outputs, all = weights + beliefs;
  double kept[2][n_sums];
  double* const out[2] = {shared, own};
  double* const sums[2] = {fixed ? kept[0] : shared, fixed ? kept[1] : own};
  for (int part = 0; part < 2; ++part)
    for (size_t k = 0; k < all && out[part]; ++k) sums[part][k] = 0.0;
  for (size_t e = 0; e < n; ++e) {
    const double square = entries[e].value * entries[e].value;
    for (int part = 0; part < 2; ++part) {
      if (!out[part]) continue;
      const uint32_t place = part ? entries[e].own : entries[e].shared;
      const T* cell = cells + (place & kSlotBits) * (all + 1);
      const double phi = signed_at(place, entries[e].value);
      double* sum = sums[part];
      for (size_t k = 0; k < weights; ++k) sum[k] += static_cast<double>(cell[k]) * phi;
      for (size_t k = weights; k < all; ++k) sum[k] += static_cast<double>(cell[k]) * square;
    }
  }
  for (int part = 0; part < 2; ++part)
    for (size_t k = 0; k < all && out[part]; ++k) out[part][k] = sums[part][k];
}

template <class T, size_t Beliefs, size_t Outputs>
void table_learn_of(T* cells, TableShape shape, const Entry* entries, size_t n, const TableStep& step) {
  constexpr bool fixed = Beliefs > 0;
  const size_t beliefs = fixed ? Beliefs : shape.beliefs, outputs = fixed ? Outputs : shape.outputs;
  const size_t weights = beliefs * outputs, all = weights + beliefs;
  for (size_t e = 0; e < n; ++e)
    for (int part = 0; part < 2; ++part) {
      if (part ? !step.own : !step.shared) continue;
      const uint32_t place = part ? entries[e].own : entries[e].shared;
      T* __restrict cell = cells + (place & kSlotBits) * (all + 1);
      const double value = signed_at(place, entries[e].value);
      for (size_t b = 0; b < beliefs; ++b) {
        const double phi = part ? value * step.root[b] : value, h = step.h[b];
        const double spread = static_cast<double>(cell[weights + b]), t = spread * phi;
        for (size_t o = 0; o < outputs; ++o)
          cell[o * beliefs + b] = static_cast<T>(static_cast<double>(cell[o * beliefs + b]) + step.g[o * beliefs + b] * t);
        const double less = spread / (1.0 + (h < 0 ? 0.0 : h) * t * phi);
        const double least = sizeof(T) == sizeof(float) ? 1e-37 : 1e-300;  // nothing subnormal is kept
        const double next = less < step.floor[b] ? step.floor[b] : less < least ? 0.0 : less;
        cell[weights + b] = static_cast<T>(h < 0 ? spread : next);
      }
    }
}

// Two classes and a few beliefs have loops of their own: sums stay in registers.
template <class T>
void table_read(const T* cells, TableShape shape, const Entry* entries, size_t n, double* shared, double* own) {
  switch (shape.outputs == 1 ? shape.beliefs : 0) {
    case 1: return table_read_of<T, 1, 1>(cells, shape, entries, n, shared, own);
    case 2: return table_read_of<T, 2, 1>(cells, shape, entries, n, shared, own);
    case 3: return table_read_of<T, 3, 1>(cells, shape, entries, n, shared, own);
    case 4: return table_read_of<T, 4, 1>(cells, shape, entries, n, shared, own);
    default: return table_read_of<T, 0, 0>(cells, shape, entries, n, shared, own);
  }
}
template <class T>
void table_learn(T* cells, TableShape shape, const Entry* entries, size_t n, const TableStep& step) {
  switch (shape.outputs == 1 ? shape.beliefs : 0) {
    case 1: return table_learn_of<T, 1, 1>(cells, shape, entries, n, step);
    case 2: return table_learn_of<T, 2, 1>(cells, shape, entries, n, step);
    case 3: return table_learn_of<T, 3, 1>(cells, shape, entries, n, step);
    case 4: return table_learn_of<T, 4, 1>(cells, shape, entries, n, step);
    default: return table_learn_of<T, 0, 0>(cells, shape, entries, n, step);
  }
}

// exp for arguments <= 0: x = n ln 2 + r, a Chebyshev fit of degree 11 (3e-18) in r, then n added to the
// exponent. Below -708 the answer would be subnormal and is 0.
inline double exp_of(double x) {
  constexpr double shift = 6755399441055744.0;  // 1.5 * 2^52: leaves round(x / ln 2) in the low bits
  const bool vanishes = x < -708.0;
  const double clipped = vanishes ? -708.0 : x;
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
  const int64_t bits = __builtin_bit_cast(int64_t, p) +
                       static_cast<int64_t>(static_cast<uint64_t>(__builtin_bit_cast(int64_t, shifted)) << 52);
  return vanishes ? 0.0 : __builtin_bit_cast(double, bits);
}

inline float exp_of(float x) {
  constexpr float shift = 12582912.0f;  // 1.5 * 2^23
  const bool vanishes = x < -87.0f;
  const float clipped = vanishes ? -87.0f : x;
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
  const int32_t bits = __builtin_bit_cast(int32_t, p) +
                       static_cast<int32_t>(static_cast<uint32_t>(__builtin_bit_cast(int32_t, shifted)) << 23);
  return vanishes ? 0.0f : __builtin_bit_cast(float, bits);
}

template <class T>
void gaussian(const T* __restrict dot, const T* __restrict sq_stored, double sq, double gamma, size_t n,
              double* __restrict row) {
  const T minus_gamma = static_cast<T>(-gamma), own = static_cast<T>(sq), two = 2, zero = 0;
#pragma omp simd
  for (size_t j = 0; j < n; ++j) {
    const T distance = (sq_stored[j] + own) - two * dot[j];
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
    for (size_t j = 0; j < n; ++j) row[j] = row[j] * scale_stored[j] * scale;  // in this order: scale² may overflow
  }
}

double clique(const int64_t* __restrict keys, const int64_t* __restrict clusters, int64_t key, int64_t cluster,
              double diagonal, double off, size_t n, const double* row, const double* weights, double* out) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (size_t j = 0; j < n; ++j) {
    const double near = clusters[j] == cluster ? off : 0.0;
    const double value = row[j] * (keys[j] == key ? diagonal : near);
    out[j] = value;
    sum += weights[j] * value;
  }
  return sum;
}

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
  for (; j < n; ++j) sum += a[j] * b[j];
  return sum;
}

inline double flushed(double value) { return value < 1e-300 && value > -1e-300 ? 0.0 : value; }

void axpy(double a, const double* __restrict x, size_t n, double* __restrict y) {
#pragma omp simd
  for (size_t j = 0; j < n; ++j) y[j] = flushed(y[j] + a * x[j]);
}

void axpy_squares(double a, const double* __restrict x, size_t n, double* __restrict y, double* __restrict sum) {
#pragma omp simd
  for (size_t j = 0; j < n; ++j) {
    y[j] = flushed(y[j] + a * x[j]);
    sum[j] += y[j] * y[j];
  }
}

// One row i < n of the triangle: update, then both of its parts in y. Two rows at a time share the loads
// of x, y, v0 and v1.
template <int Terms, size_t Rows>
inline void symmetric_rows(double* s, size_t i, double c0, const double* v0, double c1, const double* v1,
                           const double* x, double* y) {
  using V = Pack<double>::type;
  constexpr size_t w = Pack<double>::lanes;
  double* row[Rows];
  double a0[Rows], a1[Rows], xi[Rows], tail[Rows];
  V sum[Rows];
  for (size_t m = 0; m < Rows; ++m) {
    row[m] = s + (i + m) * (i + m + 1) / 2;
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
      if (Terms > 0) store(row[m] + j, p);
      add_product(sum[m], p, xj);
      add_product(yj, xi[m], p);
    }
    store(y + j, yj);
  }
  for (size_t m = 0; m < Rows; ++m) {
    for (size_t t = j; t <= i + m; ++t) {  // the ragged end, and the corner of the two rows
      double p = row[m][t];
      if (Terms > 0) p += a0[m] * v0[t];
      if (Terms > 1) p += a1[m] * v1[t];
      if (Terms > 0) row[m][t] = p;
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
  size_t i = 0;
  for (; i + 2 <= n; i += 2) symmetric_rows<Terms, 2>(s, i, c0, v0, c1, v1, x, y);
  if (i < n) symmetric_rows<Terms, 1>(s, i, c0, v0, c1, v1, x, y);
}

void symmetric_pass(double* s, size_t n, int terms, double c0, const double* v0, double c1, const double* v1,
                    const double* x, double* y) {
  if (terms == 0) symmetric<0>(s, n, c0, v0, c1, v1, x, y);
  if (terms == 1) symmetric<1>(s, n, c0, v0, c1, v1, x, y);
  if (terms == 2) symmetric<2>(s, n, c0, v0, c1, v1, x, y);
}

void symmetric_add(double* s, size_t n, double c, const double* a, const double* g, const double* m) {
  for (size_t i = 0; i < n; ++i) {
    double* __restrict row = s + i * (i + 1) / 2;
    const double ai = c * a[i], gi = g[i], mi = m[i];
#pragma omp simd
    for (size_t j = 0; j <= i; ++j) row[j] += ai * a[j] + gi * m[j] + mi * g[j];
  }
}

}  // namespace

#define BUDGETRON_STRING(x) #x
#define BUDGETRON_NAME(x) BUDGETRON_STRING(x)
extern const Simd table;
const Simd table = {BUDGETRON_NAME(BUDGETRON_TARGET),
                   products<float>,
                   products<double>,
                   squares<float>,
                   squares<double>,
                   scatter<float>,
                   scatter<double>,
                   scatter<int16_t>,
                   scatter_whole,
                   columns_whole,
                   whole_sum<float>,
                   whole_sum<double>,
                   find,
                   sparse_square<float>,
                   sparse_square<double>,
                   table_read<float>,
                   table_read<double>,
                   table_learn<float>,
                   table_learn<double>,
                   gaussian<float>,
                   gaussian<double>,
                   polynomial<float>,
                   polynomial<double>,
                   clique,
                   dot,
                   axpy,
                   axpy_squares,
                   symmetric_pass,
                   symmetric_add};

}  // namespace BUDGETRON_TARGET
}  // namespace budgetron
