// The performance-critical loops, as a table of function pointers.
//
// simd.cpp is compiled once per instruction set (baseline, x86-64-v3, x86-64-v4). simd() returns the best table that the
// processor supports; the environment variable BUDGETRON_LEVEL limits the choice. Arguments are plain numbers, pointers and structs of these.
#pragma once

#include <cstddef>
#include <cstdint>

namespace budgetron {

// A dense store keeps its slots in blocks of kBlockBytes / sizeof(T) lanes, one lane per slot. A block stores one feature after the other:
// feature f of the slot in lane j of block b is block[b][f * lanes + j].
constexpr std::size_t kBlockBytes = 256;
template <class T>
constexpr std::size_t kLanes = kBlockBytes / sizeof(T);

// The postings of one feature and the factor x that multiplies them. If `slots` is null, they are a dense column, with one value per slot.
template <class V>
struct Run {
  const std::uint32_t* slots;
  const V* values;
  std::size_t length;
  double x;
  std::uint32_t own_slot;  // the posting of a feature that has only one; `slots` and `values` then point here
  V own_value;
};
struct IntegerRun {
  const std::uint32_t* slots;
  const std::int16_t* values;
  std::size_t length;
  std::int32_t x;
};

// The least number of an array, and its largest finite number, or 0 if that is negative. NaN is ignored. If nothing is left, they are ∞ and 0.
struct Extremes {
  double least, largest;
};

// How many doubles and how many floats the longest register has, and n rounded up to whole registers of `lanes` numbers.
constexpr std::size_t kLongestRegister = 8, kFloatsPerRegister = 16;
static constexpr std::size_t whole_registers(std::size_t n, std::size_t lanes = kLongestRegister) { return (n + lanes - 1) / lanes * lanes; }

// Where row i begins in a lower triangle whose rows are padded to whole registers: row j has whole_registers(j + 1, lanes) numbers. The
// padding pays, because storing a register that lies in two cache lines takes twice as long. Both functions are static, because a linker would
// otherwise keep one copy for all instruction sets.
static constexpr std::size_t aligned_row(std::size_t i, std::size_t lanes = kLongestRegister) {
  const std::size_t full = i / lanes, rest = i % lanes;
  return (full * lanes / 2 + rest) * (full + 1) * lanes;
}

// Evictions that some rows of coefficients do not include yet (eviction_log.hpp), of `count` different slots. To include them, the coefficients
// of a row in these slots are set to 0. Then shares[m], row m of `shares`, times the coefficient that was in slots[m] is added to the row, for
// every m.
constexpr std::size_t kMaxEvictedSlots = 48;
struct Evictions {
  std::size_t count;
  const std::uint32_t* slots;
  const double* shares;  // count × stride, and kLongestRegister numbers of padding
  std::size_t stride;
};

struct Simd {
  const char* name;

  // Inner products of `count` queries with `blocks` blocks; out[q] receives blocks * lanes numbers.
  void (*products_f32)(const float* store, std::size_t blocks, std::size_t d, const float* const* x,
                       std::size_t count, float* const* out);
  void (*products_f64)(const double* store, std::size_t blocks, std::size_t d, const double* const* x,
                       std::size_t count, double* const* out);
  // The same with a single lane of one block. The other lanes of its register are computed and written too.
  void (*products_lane_f32)(const float* block, std::size_t d, std::size_t lane, const float* const* x, std::size_t count, float* const* out);
  void (*products_lane_f64)(const double* block, std::size_t d, std::size_t lane, const double* const* x, std::size_t count, double* const* out);
  // ‖x‖² of `count` rows, each added up in the same order as a lane of `products`, so that equal rows are at distance 0.
  void (*squares_f32)(const float* const* x, std::size_t count, std::size_t d, double* out);
  void (*squares_f64)(const double* const* x, std::size_t count, std::size_t d, double* out);
  // ‖x‖² of one row, in another order of additions: equal up to rounding, and several times as fast.
  double (*rough_square_f32)(const float* x, std::size_t d);
  double (*rough_square_f64)(const double* x, std::size_t d);

  // Sparse rows, run by run: sum[slot_i] += x · value_i over the postings of a feature, or over all slots if they are a dense column.
  // Every slot adds its features in the order of the runs, so the sums do not depend on which features are columns.
  void (*scatter_f32)(const Run<float>* runs, std::size_t count, double* sum);
  void (*scatter_f64)(const Run<double>* runs, std::size_t count, double* sum);
  void (*scatter_i16)(const Run<std::int16_t>* runs, std::size_t count, double* sum);
  // The same for integers. columns_integers adds several dense columns at once; in every slot, Σ |x| · |value| must be at most 32767.
  void (*scatter_integers)(const IntegerRun* runs, std::size_t count, std::int32_t* sum);
  void (*columns_integers)(const IntegerRun* columns, std::size_t count, std::size_t n, std::int32_t* sum);
  void (*to_doubles)(const std::int32_t* x, std::size_t n, double* out);
  // Σ|x|, or −1 if some x is not an integer from −32767 to 32767.
  double (*integer_sum_f32)(const float* x, std::size_t n);
  double (*integer_sum_f64)(const double* x, std::size_t n);
  // The index of `slot` among the first n slots, or n if it is not there.
  std::size_t (*find)(const std::uint32_t* slots, std::size_t n, std::uint32_t slot);
  // ‖x‖² of a sparse row.
  double (*sparse_square_f32)(const float* x, std::size_t n);
  double (*sparse_square_f64)(const double* x, std::size_t n);

  // row_j = exp(−γ max(0, sq_j + sq − 2 dot_j)). The distance is computed in the precision of the inner products.
  void (*gaussian_f32)(const float* dot, const float* sq_stored, double sq, double gamma, std::size_t n,
                       double* row);
  void (*gaussian_f64)(const double* dot, const double* sq_stored, double sq, double gamma, std::size_t n,
                       double* row);
  // row_j = (dot_j + bias)^degree · scale_j · scale   (without the two scales if scale_stored is null)
  void (*polynomial_f32)(const float* dot, double bias, int degree, const double* scale_stored, double scale,
                         std::size_t n, double* row);
  void (*polynomial_f64)(const double* dot, double bias, int degree, const double* scale_stored, double scale,
                         std::size_t n, double* row);

  // out_j = row_j · (A⁻¹)_{task_id, task_id_j}, which is `diagonal` for the same task, `off` for another task of the same cluster
  // and 0 otherwise. Returns Σ_j weight_j out_j.
  double (*clique)(const std::int64_t* task_ids, const std::int64_t* clusters, std::int64_t task_id, std::int64_t cluster,
                   double diagonal, double off, std::size_t n, const double* row, const double* weights, double* out);

  double (*dot)(const double* a, const double* b, std::size_t n);
  // y_j += a x_j. A result of magnitude below 1e-300 becomes 0, so that decaying weights never become subnormal numbers, which are slow.
  void (*axpy)(double a, const double* x, std::size_t n, double* y);
  // The same for each of `count` rows y with its own a, then sum_j += y_j² in the order of the rows.
  void (*axpy_squares)(const double* a, const double* x, std::size_t n, double* const* rows, std::size_t count, double* sum);

  // out_j = scale |b_j| root_j. Returns the least and the largest of them.
  Extremes (*sizes)(double scale, const double* b, const double* root, std::size_t n, double* out);
  // out_j = (scale b_j)² max(0, own_j − k_j²/kk), the loss if j is projected onto an example with kernel row k.
  Extremes (*residuals)(double scale, const double* b, const double* own, const double* k, double kk, std::size_t n, double* out);
  Extremes (*extremes)(const double* x, std::size_t n);
  // The j with the lowest arrival among those with x_j ≤ limit; n if there is none.
  std::size_t (*oldest_within)(const double* x, const std::int64_t* arrivals, std::size_t n, double limit);
  // The j with the lowest arrival; n if there is none.
  std::size_t (*oldest)(const std::int64_t* arrivals, std::size_t n);

  // p_j ← max(0, 1 − (n − 1) w_j / Σw), or 1 if Σw = 0, where w_j is |b_j| root_j, or p_j if b is null. Returns the sum of the new p_j.
  double (*shares)(const double* b, const double* root, std::size_t n, double* p);
  // The first j with p_0 + … + p_j > point; n − 1 if there is none.
  std::size_t (*first_above)(const double* p, std::size_t n, double point);
  // b_j ← scale b_j / (1 − normalisation p_j), clipped to ± max_size. If p is null, all p_j are 1. Without scale and clipping, the division keeps
  // the expectation of f if slot j is removed with the probability normalisation p_j.
  void (*divide_by_survival)(double scale, const double* p, double normalisation, double max_size, std::size_t n, double* b);

  // S is the packed lower triangle of a symmetric matrix, row by row. In one pass over S: S += Σ_m c_m v_m v_mᵀ for
  // m < terms (0, 1 or 2), then y = S x.
  void (*symmetric_pass)(double* s, std::size_t n, int terms, double c0, const double* v0, double c1,
                         const double* v1, const double* x, double* y);
  // In float32: S −= v vᵀ unless v is null, then y = S x. Row i of S begins at aligned_row(i, kFloatsPerRegister), and its padding has the
  // entries of S to the right of the diagonal, which are updated too. The vectors have whole_registers(n, kFloatsPerRegister) numbers,
  // with zeros at the end.
  void (*symmetric_pass_f32)(float* s, std::size_t n, const float* v, const float* x, float* y);
  // y = S x for a symmetric n × n matrix S, stored row by row. Reads only its lower triangle.
  void (*symmetric_multiply)(const double* s, std::size_t n, const double* x, double* y);
  // phase_q = Σ_j z_j frequency_jq, with a d × count table of small integers, one row for each j.
  void (*phases)(const std::int8_t* frequencies, std::size_t d, std::size_t count, const float* z, float* phase);
  // cos(s phase_0), sin(s phase_0), cos(s phase_1), …, for |s phase_q| up to 1e6.
  void (*cos_sin)(const double* phase, std::size_t count, double s, double* out);
  // The same in float32, for |s phase_q| up to 1e3.
  void (*cos_sin_f32)(const float* phase, std::size_t count, float s, float* out);
  // Σ_j w_j x_j, summed in float64.
  double (*dot_f32)(const float* w, const double* x, std::size_t n);
  double (*dot_floats)(const float* w, const float* x, std::size_t n);
  // AdaGrad, where `gradient` is minus the derivative of the loss with respect to the output, and `squares` holds the G_j: with
  // u = gradient · x_j rounded to float32, G_j += u² + 1e-30, w_j += rate · u/√G_j. The 1e-30 avoids 0/0.
  void (*adagrad)(float* w, float* squares, const double* x, double gradient, float rate, std::size_t n);
  void (*adagrad_floats)(float* w, float* squares, const float* x, float gradient, float rate, std::size_t n);
  // S += c a aᵀ + g mᵀ + m gᵀ, where row i of S begins at aligned_row(i). The padding of its rows gets arbitrary values. The vectors have
  // whole_registers(n) numbers.
  void (*symmetric_add)(double* s, std::size_t n, double c, const double* a, const double* g, const double* m);
  // Applies evictions to each of `count` rows of n numbers. Coefficients of magnitude below 1e-150 in an evicted slot add nothing. Shares of
  // magnitude below 1e-150 must be 0. Numbers of magnitude below 1e-300 in rows that change become 0.
  void (*replay)(const Evictions& evictions, std::size_t n, double* const* rows, std::size_t count);
  // One eviction: slot r of a row becomes 0, and γ times its former coefficient is added to the row. Numbers of magnitude below `limit`
  // become 0.
  void (*evict_slot)(std::size_t r, const double* gamma, std::size_t n, double limit, double* row);
  // y += Σ_i factor_i rows_i.
  void (*add_rows)(const double* const* rows, const double* factor, std::size_t count, std::size_t n, double* y);
};

const Simd& simd();

}  // namespace budgetron
