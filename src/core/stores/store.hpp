// The stored instances in slots, and their inner products with a new one.
//
// Slots are 0 .. size−1. A new instance is appended, or takes the slot of the one it replaces; removal moves
// the last slot into its place. The dense and the sparse store differ only in how rows are represented.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory.hpp"

namespace budgetron {

// Rows as they come from the caller; only the pointers of its own kind are set.
struct Rows {
  std::size_t count = 0;
  std::size_t d = 0;
  const float* dense_f32 = nullptr;
  const double* dense_f64 = nullptr;
  const std::int64_t* indptr = nullptr;  // sparse: row i is indices[indptr[i] .. indptr[i+1])
  const std::int32_t* indices = nullptr;
  const float* data_f32 = nullptr;
  const double* data_f64 = nullptr;
};

// One row of Rows.
struct Instance {
  const Rows* rows;
  std::size_t at;
  double sq;  // ‖x‖², less the store's reference point
};

// The point that a dense store subtracts from every row under the Gaussian kernel, and how it was chosen. It is 0 until
// rows turn out to lie too far from it for their precision (see `Store::follow`).
struct Reference {
  std::vector<double> point, candidate;  // empty: 0, and none
  std::int64_t streak = 0;               // consecutive far rows near the candidate, the candidate included
  std::int64_t moves = 0;                // how often the point was replaced
};

class Store {
 public:
  virtual ~Store() = default;

  virtual std::size_t size() const = 0;
  virtual void squares(const Rows& rows, std::size_t first, std::size_t count, double* out) const = 0;  // ‖x‖² as given

  // Inner products of instances with all stored rows. One call, one pass over the store.
  // Working memory is the caller's, so that predictions can run side by side.
  static constexpr std::size_t kAhead = 8;  // no store takes more instances at once
  struct Products {
    virtual ~Products() = default;
    std::array<double, kAhead> squares{};  // ‖x‖² of the instances, less the reference point
  };
  virtual std::unique_ptr<Products> new_products(Bytes& bytes) const = 0;
  virtual std::size_t lookahead() const = 0;  // the number of instances per call of `compute` that is fastest
  virtual void compute(const Rows& rows, std::size_t first, std::size_t count, Products& out) const = 0;
  // Repeats what `compute` did for instances from..to (of its `count`) after the store has changed: in `slot` alone, or
  // anywhere (slot == kEverywhere).
  static constexpr std::size_t kEverywhere = SIZE_MAX;
  virtual void refresh(const Rows& rows, std::size_t first, std::size_t from, std::size_t to, std::size_t slot,
                       Products& out) const = 0;
  virtual void resize(Products& products) const = 0;  // after the store has grown; `compute` and `refresh` allocate nothing
  // The kernel row of the at-th instance of `compute`.
  virtual void kernel_row(const struct Kernel& kernel, const Products& products, std::size_t at, double sq,
                          double* row) const = 0;
  // The kernel row of a stored instance against all stored; `exact`: by differences in double, slower, and without
  // rounding error also where stored rows are far from the reference point.
  virtual void kernel_row_of_slot(const struct Kernel& kernel, std::size_t slot, bool exact, double* row) = 0;

  virtual bool fits(const Instance& x) const = 0;  // space for the row's own numbers (a slot is counted elsewhere)
  virtual bool fits_alone(const Instance& x) const = 0;  // if all others were evicted
  virtual bool fits_beside(const Instance& x, const Vec<std::uint32_t>& slots) const = 0;  // if all but these were
  virtual std::size_t n_to_evict(const Instance& x, const Vec<std::size_t>& order) const = 0;  // how many of these, in order, must be evicted to store x
  // Bytes that reserve() for these rows may take, slots aside.
  virtual std::size_t reserve_bytes(const Rows& rows, std::size_t from, std::size_t to) const = 0;
  // Allocates all that storing any of the rows from..to needs, with space for `slots` in all (if it grows): append,
  // replace and remove cannot fail afterwards. Where it throws, what is stored is unchanged.
  virtual void reserve(std::size_t slots, const Rows& rows, std::size_t from, std::size_t to) = 0;
  virtual void append(const Instance& x, const struct Kernel& kernel) = 0;
  virtual void replace(std::size_t slot, const Instance& x, const struct Kernel& kernel) = 0;
  virtual void remove(std::size_t slot) = 0;

  virtual void release() noexcept = 0;  // all slots and their memory

  // Lets the reference point follow the stream, before the row is learned from; true if it moved: products of this row
  // and the Gram matrix are to be computed again. `sq` is the row's ‖x‖², less the present point.
  virtual bool follow(const Rows&, std::size_t, double) { return false; }
  virtual void set_gamma(double) {}  // of the Gaussian kernel, which says how far from the point is too far
  virtual Reference reference() const { return {}; }
  virtual void set_reference(const Reference&) {}  // after the rows, which are saved less the point

  // All rows, dense (size × d) or as CSR, for saving and showing.
  struct Dump {
    std::vector<double> values;
    std::vector<std::int64_t> indptr, indices;
  };
  virtual Dump dump() const = 0;
};

}  // namespace budgetron
