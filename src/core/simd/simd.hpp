// The performance-critical loops, as a table of functions that is compiled once per instruction set.
//
// simd.cpp is compiled once per level (baseline, x86-64-v3, x86-64-v4); simd() picks the best table that the processor
// supports, and no better one than the environment variable BUDGETRON_LEVEL allows. Everything here is plain pointers
// and sizes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace budgetron {

// A dense store keeps slots in blocks of kBlockBytes / sizeof(T) lanes, feature-major inside a block:
// lane j of feature f of block b is at block[b][f * lanes + j].
constexpr std::size_t kBlockBytes = 256;
template <class T>
constexpr std::size_t kLanes = kBlockBytes / sizeof(T);

// The postings of one feature and what they are multiplied by; slots == nullptr: a dense column, one value per slot.
template <class V>
struct Run {
  const std::uint32_t* slots;
  const V* values;
  std::size_t length;
  double x;
  std::uint32_t own_slot;  // space for the posting of a feature that has only one
  V own_value;
};
struct WholeRun {
  const std::uint32_t* slots;
  const std::int16_t* values;
  std::size_t length;
  std::int32_t x;
};

// One feature of a sparse row in a hashed table: its place for all tasks, its place for this task (the slot, and above it
// a bit that is set where the value changes its sign), and its scaled value.
struct Entry {
  std::uint32_t shared, own;
  double value;
};
constexpr std::uint32_t kSlotBits = 0x7FFFFFFF;
struct TableShape {
  std::size_t beliefs, outputs;
};
// What a step does to the cells: G (outputs × beliefs), h (below 0: nothing), the floor of a variance, and the root of
// the own part's share; the last three are one per belief.
struct TableStep {
  const double *g, *h, *floor, *root;
  bool shared, own;
};

struct Simd {
  const char* name;

  // Inner products of `count` queries with `blocks` blocks; out[q] receives blocks * lanes numbers.
  void (*products_f32)(const float* store, std::size_t blocks, std::size_t d, const float* const* x,
                       std::size_t count, float* const* out);
  void (*products_f64)(const double* store, std::size_t blocks, std::size_t d, const double* const* x,
                       std::size_t count, double* const* out);
  // ‖x‖² of `count` rows, each added up in the same order as a lane of `products`, so that equal rows are at distance 0.
  void (*squares_f32)(const float* const* x, std::size_t count, std::size_t d, double* out);
  void (*squares_f64)(const double* const* x, std::size_t count, std::size_t d, double* out);

  // Sparse rows: run by run, sum[slot_i] += x · value_i over the postings of a feature, or over all slots where it is
  // kept as a dense column; and ‖x‖². All add in the same way, so it does not matter how a feature is kept.
  void (*scatter_f32)(const Run<float>* runs, std::size_t count, double* sum);
  void (*scatter_f64)(const Run<double>* runs, std::size_t count, double* sum);
  void (*scatter_i16)(const Run<std::int16_t>* runs, std::size_t count, double* sum);
  // The same for whole numbers; and for several dense columns at once whose sum |x| · |value| stays within 16 bits.
  void (*scatter_whole)(const WholeRun* runs, std::size_t count, std::int32_t* sum);
  void (*columns_whole)(const WholeRun* columns, std::size_t count, std::size_t n, std::int32_t* sum);
  // Σ|x|, or −1 if any of them is not a whole number of at most 16 bits.
  double (*whole_sum_f32)(const float* x, std::size_t n);
  double (*whole_sum_f64)(const double* x, std::size_t n);
  // The place of `slot` among the first n, or n.
  std::size_t (*find)(const std::uint32_t* slots, std::size_t n, std::uint32_t slot);
  double (*sparse_square_f32)(const float* x, std::size_t n);
  double (*sparse_square_f64)(const double* x, std::size_t n);

  // The hashed table (hashed_table.hpp): sums over the entries (nullptr: not wanted), and a step.
  void (*table_read_f32)(const float* cells, TableShape shape, const Entry* entries, std::size_t n, double* shared, double* own);
  void (*table_read_f64)(const double* cells, TableShape shape, const Entry* entries, std::size_t n, double* shared, double* own);
  void (*table_learn_f32)(float* cells, TableShape shape, const Entry* entries, std::size_t n, const TableStep& step);
  void (*table_learn_f64)(double* cells, TableShape shape, const Entry* entries, std::size_t n, const TableStep& step);

  // row_j = exp(−γ max(0, sq_j + sq − 2 dot_j)), the distance in the precision of the products
  void (*gaussian_f32)(const float* dot, const float* sq_stored, double sq, double gamma, std::size_t n,
                       double* row);
  void (*gaussian_f64)(const double* dot, const double* sq_stored, double sq, double gamma, std::size_t n,
                       double* row);
  // row_j = (dot_j + bias)^degree · scale_j · scale   (scale_stored may be null: all 1)
  void (*polynomial_f32)(const float* dot, double bias, int degree, const double* scale_stored, double scale,
                         std::size_t n, double* row);
  void (*polynomial_f64)(const double* dot, double bias, int degree, const double* scale_stored, double scale,
                         std::size_t n, double* row);

  // out_j = row_j · (diagonal where key_j == key, off where only the cluster agrees, 0 elsewhere); returns Σ_j weight_j out_j.
  double (*clique)(const std::int64_t* keys, const std::int64_t* clusters, std::int64_t key, std::int64_t cluster,
                   double diagonal, double off, std::size_t n, const double* row, const double* weights, double* out);

  double (*dot)(const double* a, const double* b, std::size_t n);
  // y_j += a x_j; a result below 1e-300 is 0, so that weights which decay never become subnormal
  void (*axpy)(double a, const double* x, std::size_t n, double* y);
  // the same, then sum_j += y_j²
  void (*axpy_squares)(double a, const double* x, std::size_t n, double* y, double* sum);

  // A symmetric matrix as its packed lower triangle, row by row. First S += Σ_m c_m v_m v_mᵀ for m = 0, 1
  // (skipped where terms is smaller), then y = S x, in one pass over S.
  void (*symmetric_pass)(double* s, std::size_t n, int terms, double c0, const double* v0, double c1,
                         const double* v1, const double* x, double* y);
  // S += c a aᵀ + g mᵀ + m gᵀ
  void (*symmetric_add)(double* s, std::size_t n, double c, const double* a, const double* g, const double* m);
};

const Simd& simd();

}  // namespace budgetron
