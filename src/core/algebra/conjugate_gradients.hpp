// Solves G y = b for a sparse symmetric positive (semi)definite G by conjugate gradients, with the diagonal of G as
// preconditioner (Saad, Iterative Methods for Sparse Linear Systems, 2nd ed., section 9.2).
//
// G is scaled once to S = D^(-1/2) G D^(-1/2), where D is the diagonal of G. Conjugate gradients on S take the same steps as
// preconditioned ones on G, but need not apply the preconditioner in every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory.hpp"

namespace budgetron {

// A symmetric matrix in CSR format, with both triangles and the diagonal.
struct SparseMatrix {
  std::vector<std::int64_t> indptr;
  std::vector<std::int32_t> indices;
  std::vector<double> data;
};

class ConjugateGradients {
 public:
  ConjugateGradients() = default;
  explicit ConjugateGradients(const SparseMatrix& g);  // a row without a positive diagonal is left out: its y is 0

  // Working memory, so that solving allocates nothing.
  struct Work {
    Work(Bytes& bytes, std::size_t n) : b(bytes, n), x(bytes, n), r(bytes, n), p(bytes, n), q(bytes, n) {}
    Vec<double> b, x, r, p, q;
  };

  std::size_t size() const { return scale_.size(); }
  void solve(double* y, Work& work) const;  // y holds b before the call and the solution after it
  std::size_t bytes() const;

 private:
  double multiply(const Vec<double>& p, Vec<double>& q) const;  // q = S p; returns p·q
  void iterate(double goal, Work& work) const;                  // until the norm of the residual is at most `goal`

  std::vector<double> scale_;        // D^(-1/2): 1/√G_jj, or 0 for a row that is left out
  std::vector<std::int64_t> begin_;  // S in CSR format without its diagonal, which is 1: row starts, columns, values
  std::vector<std::int32_t> column_;
  std::vector<double> value_;
};

}  // namespace budgetron
