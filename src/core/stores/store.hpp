// The interface of a store: it holds instances in slots, and computes their inner products with new instances.
//
// Slots are numbered 0 .. size−1. A new instance is appended, or takes the slot of the instance that it replaces. When an instance is removed,
// the instance of the last slot moves into the free slot. The dense and the sparse store represent rows differently, and only the dense store has
// a reference point (see Reference).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "memory.hpp"

namespace budgetron {

// A block of rows in the caller's memory: dense or CSR, float or double. Only the pointers for this kind of block are read.
struct Rows {
  std::size_t count = 0;
  std::size_t d = 0;
  const float* dense_f32 = nullptr;
  const double* dense_f64 = nullptr;
  const std::int64_t* indptr = nullptr;  // sparse: row i is indices[indptr[i] .. indptr[i+1])
  const std::int32_t* indices = nullptr;
  const float* data_f32 = nullptr;
  const double* data_f64 = nullptr;
  const double* offsets = nullptr;  // rows × outputs: scores of another model, added to the margins of a Budgetron; may be null
};

// One row of Rows.
struct Instance {
  const Rows* rows;
  std::size_t at;  // the index of the row in `rows`
  double sq;       // ‖x − c‖², where c is the store's reference point (see Reference); in a sparse store c = 0. Without a kernel, sq is 0.
};

// The point c that a dense store subtracts from every row under the Gaussian kernel, and the search for the next one (dense_store.hpp
// explains why). c is 0 until consecutive rows are so far from it that their distances lose precision, see `Store::update_reference`.
struct Reference {
  std::vector<double> point, candidate;  // both are empty if c has never moved and the streak is 0; c is then the origin
  std::int64_t streak = 0;               // the number of consecutive rows far from c and near the candidate, which is the first of them
  std::int64_t moves = 0;                // how often the point was replaced
};

class Store {
 public:
  virtual ~Store() = default;

  virtual std::size_t size() const = 0;
  // ‖x‖² of the rows as passed in, before c is subtracted.
  virtual void squares(const Rows& rows, std::size_t first, std::size_t count, double* out) const = 0;
  // The same up to rounding, and faster for dense rows. Learner::first_bad_row() uses it to find rows that are not finite or too large.
  virtual void rough_squares(const Rows& rows, std::size_t first, std::size_t count, double* out) const {
    squares(rows, first, count, out);
  }

  // Inner products of several instances with all stored rows, in one pass over the store. The caller owns the working
  // memory, so that predictions can run concurrently.
  static constexpr std::size_t kMaxLookahead = 8;  // upper limit of lookahead()
  struct Products {
    virtual ~Products() = default;
    std::array<double, kMaxLookahead> squares{};  // ‖x − c‖² of the instances
  };
  virtual std::unique_ptr<Products> new_products(Bytes& bytes) const = 0;
  virtual std::size_t lookahead() const = 0;  // the largest number of instances that one call of `compute` accepts
  virtual void compute(const Rows& rows, std::size_t first, std::size_t count, Products& out) const = 0;
  // Called after stored rows have changed. Recomputes the products of the instances from .. to−1 of the last `compute` with one slot, or with
  // all slots (kAllSlots). After a move of the reference point, call `compute` instead.
  static constexpr std::size_t kAllSlots = SIZE_MAX;
  virtual void refresh(const Rows& rows, std::size_t first, std::size_t from, std::size_t to, std::size_t slot,
                       Products& out) const = 0;
  // Adapts the working memory to a store that has grown, because `compute` and `refresh` do not allocate.
  virtual void resize(Products& products) const = 0;
  // Kernel values of instance `at` of the last `compute` with all stored rows; `sq` is its ‖x − c‖².
  virtual void kernel_row(const struct Kernel& kernel, const Products& products, std::size_t at, double sq,
                          double* row) const = 0;
  // Kernel values of a stored row with all stored rows. `exact` matters only for dense rows and a Gaussian kernel. If it is true,
  // squared distances are sums of squared differences in double. This is slower, but no digits cancel for rows far from c.
  virtual void kernel_row_of_slot(const struct Kernel& kernel, std::size_t slot, bool exact, double* row) = 0;

  // The pool is the space for the non-zeros of sparse rows (Config::pool). fits() returns whether it has room for x now, and fits_alone() whether
  // it would have room if every stored row were evicted. Dense rows always fit. Neither function checks whether a slot is free; the learner does.
  virtual bool fits(const Instance& x) const = 0;
  virtual bool fits_alone(const Instance& x) const = 0;
  // The length of the shortest prefix of `order` whose eviction makes x fit, or the length of `order` if no prefix suffices.
  virtual std::size_t n_to_evict(const Instance& x, const Vec<std::size_t>& order) const = 0;
  // An upper estimate of the memory that storing these rows takes, not counting slots.
  virtual std::size_t reserve_bytes(const Rows& rows, std::size_t from, std::size_t to) const = 0;
  // Allocates the memory that storing the rows from .. to−1 may need and, in a growing store, space for `slots` slots in total. After that,
  // append, replace and remove cannot fail. If it throws, the stored rows are unchanged.
  virtual void reserve(std::size_t slots, const Rows& rows, std::size_t from, std::size_t to) = 0;
  virtual void append(const Instance& x, const struct Kernel& kernel) = 0;
  virtual void replace(std::size_t slot, const Instance& x, const struct Kernel& kernel) = 0;
  virtual void remove(std::size_t slot) = 0;

  // Dense rows only. `read` writes a stored row or an instance, minus c, to an array. `overwrite` replaces a stored row by such an array.
  virtual void read(std::size_t, double*) const { throw std::logic_error("rows of this store cannot be read"); }
  virtual void read(const Instance&, double*) const { throw std::logic_error("rows of this store cannot be read"); }
  virtual void overwrite(std::size_t, const double*, const struct Kernel&) { throw std::logic_error("rows of this store cannot be overwritten"); }

  // Called by rules that merge rows. A merged sparse row may have the features of many rows of a block, so more memory is reserved. Its
  // values need not be integers, so the sparse store does not use int16.
  virtual void expect_mergers() {}
  // Sparse rows only. `nonzeros` is the number of non-zeros of all stored rows. `read` writes the features of one row, in ascending
  // order, and their values, and returns how many there are.
  virtual std::size_t nonzeros() const { return 0; }
  virtual std::size_t read(std::size_t, std::int32_t*, double*) const { throw std::logic_error("rows of this store have no features"); }

  // Moves c if recent rows are far from it and near each other. Called once for every row that is learned, before its margins are computed.
  // Returns true if c moved: the caller must then recompute the Gram matrix, and the products of this row and the later ones. The arguments
  // are the rows, the index of this row, and its ‖x − c‖².
  virtual bool update_reference(const Rows&, std::size_t, double) { return false; }
  virtual void set_gamma(double) {}  // γ of the Gaussian kernel; it sets the distance from c beyond which a row is far
  virtual Reference reference() const { return {}; }
  // For loading a model. Call it after appending the rows: c is already subtracted from saved rows, and must not be subtracted again.
  virtual void set_reference(const Reference&) {}

  // All rows, minus c, as a dense matrix (size × d) or in CSR form; for saving and for display.
  struct Dump {
    std::vector<double> values;
    std::vector<std::int64_t> indptr, indices;
  };
  virtual Dump dump() const = 0;
};

}  // namespace budgetron
