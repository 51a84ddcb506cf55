// Solving G y = b for a sparse symmetric positive (semi)definite G by conjugate gradients.
//
// G is scaled to a diagonal of 1 and its rows are put in an order, kSide rows to a group:
//
//   G = I + L + E + U,   L to earlier groups, U = Lᵀ to later ones, E within a group (few: neighbours are kept apart)
//
// The iteration is on (I + L)⁻¹ G (I + U)⁻¹, symmetric Gauss-Seidel as preconditioner: half the steps of G itself. Its image
// of p costs what a product with G costs (Eisenstat's trick), for with t = (I + U)⁻¹ p it is t + (I + L)⁻¹ (p − t + E t).
//
// Steps are taken in float, whose vectors fit an inner cache. Once the residual is as much smaller as float allows, the true one
// is computed in double and solved for in turn, twice as a rule. What does not get small so (badly conditioned graphs) is
// solved in double from the beginning. kSide right-hand sides together share each pass over the entries; each is computed with the same
// operations in the same order as alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simd/simd.hpp"

namespace budgetron {

// A symmetric matrix by rows, both triangles and the diagonal.
struct SparseMatrix {
  std::vector<std::int64_t> indptr;
  std::vector<std::int32_t> indices;
  std::vector<double> data;
};

class ConjugateGradients {
 public:
  ConjugateGradients() = default;
  explicit ConjugateGradients(const SparseMatrix& g);  // a row without a positive diagonal is left out: its answer is 0

  // y holds `together` right-hand sides (1 or kSide) side by side, and then the answers.
  void solve(double* y, std::size_t together) const;
  std::size_t bytes() const;

 private:
  struct Part {
    std::vector<std::uint32_t> begin{0};
    std::vector<std::int32_t> to;
    std::vector<double> value;
    std::vector<float> rounded;
  };
  template <std::size_t W>
  struct Columns;

  void lay_out(const SparseMatrix& g);
  template <std::size_t W>
  void solve_together(double* y) const;
  template <std::size_t W>
  void refine(Columns<W>& columns) const;
  template <std::size_t W>
  void solve_in_double(const double* y, std::size_t column, Columns<W>& columns) const;
  SweepMatrix<double> exact() const;
  SweepMatrix<float> rounded() const;

  std::vector<std::int32_t> order_;  // place → row
  std::vector<double> root_;         // 1/√G_jj, by place
  std::size_t groups_ = 0;
  Part lower_, inner_, upper_;
};

}  // namespace budgetron
