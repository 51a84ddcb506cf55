// The Gram matrix H of the stored instances, in a form in which projecting onto their span costs O(B²).
//
//   project:  α = H⁻¹ k,  δ² = K_tt − kᵀα          projection of x_t onto the span of the stored instances, and its squared distance
//   P = H⁻¹;  P_jj and one column of P              for evictions
//
// k is the kernel row of the new instance x_t, K_tt its kernel with itself, B the number of stored instances.
//
// There are two implementations. InverseGram stores P itself; one pass over P does a projection and the update before it. It is accurate if δ
// was at least 1e-2 √K_tt for every stored instance, so a rule that stores only instances with δ > η can use it for η ≥ 1e-2 √K_tt. CholeskyGram
// stores the Cholesky factor L. It is accurate for smaller η too, but about 2.5 times slower.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "memory.hpp"
#include "state.hpp"

namespace budgetron {

// The number of entries in n rows of a packed lower triangle. Row n begins at this index.
inline std::size_t triangle(std::size_t n) { return n * (n + 1) / 2; }

class Gram {
 public:
  using RowOf = std::function<void(std::size_t slot, double* row)>;  // writes the row of H that belongs to `slot`, one entry per slot

  virtual ~Gram() = default;
  virtual std::size_t size() const = 0;
  // Computes α of an instance with kernel row k and K_tt = kk, and returns its δ². Rounding may make δ² negative.
  virtual double project(const double* k, double kk, double* alpha) = 0;
  virtual const double* diagonal() const = 0;                // P_jj of all slots j
  virtual void settle() = 0;                                 // applies pending updates; project() does so too
  virtual void column(std::size_t r, double* h) = 0;         // P_·r; call settle() or project() first
  // The instance that was just projected gets a new slot, the last one.
  virtual void append(const double* k, double kk, const double* alpha, double delta2) = 0;
  // The instance that was just projected takes slot r; h is column r.
  virtual void replace(std::size_t r, const double* k, double kk, const double* alpha, double delta2,
                       const double* h) = 0;
  virtual void remove(std::size_t r) = 0;                    // the last slot moves into r
  // Allocates space for `capacity` instances, because rebuild() and append() do not allocate. If it throws, H is unchanged.
  virtual void reserve(std::size_t capacity) = 0;
  // Recomputes the representation from the rows of H. Pivots below `least` · H_ii, which are due to rounding, are raised to that value.
  virtual void rebuild(std::size_t n, const RowOf& row_of, double least) = 0;
  virtual void save(State& state) = 0;
  virtual bool load(const State& state, std::size_t n) = 0;  // false: the state has no matrix of this kind and size, so call rebuild()
};

// `small_eta`: whether η is too small for the inverse, see above.
std::unique_ptr<Gram> make_gram(Bytes& bytes, std::size_t capacity, bool small_eta);

}  // namespace budgetron
