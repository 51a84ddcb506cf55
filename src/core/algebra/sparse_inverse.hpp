// Computes columns of A⁻¹ for a sparse symmetric A. The constructor eliminates the tasks that are cheap to eliminate. For each column, the
// system of the remaining tasks is then solved by conjugate gradients.
//
//   A = [F  Cᵀ; C  G],   F = L D Lᵀ:   G' = G − C F⁻¹ Cᵀ,   G' y = b_G − C F⁻¹ b_F  by conjugate gradients,   then back substitution
//
// F is the block of the eliminated tasks, G the block of the remaining tasks.
//
// Eliminating all tasks of a random graph would fill in the factor: it would take several gigabytes for 100,000 tasks of degree 5. So only
// tasks with up to kDegree neighbours are eliminated, those with the fewest first, as long as the factor and G' fit into a memory limit.
// G' has fewer tasks than A and is better conditioned. On a forest of at least five tasks, every task is eliminated, except one per tree if A is
// singular.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "algebra/conjugate_gradients.hpp"

namespace budgetron {

class SparseInverse {
 public:
  // `component` has the number of the connected component of each task. If `singular`, A is a Laplacian, and its pseudoinverse is used.
  SparseInverse(const SparseMatrix& a, std::vector<std::int64_t> component, bool singular);

  std::size_t size() const { return component_.size(); }

  // Working memory, so that solving allocates nothing.
  struct Work {
    Work(Bytes& bytes, const SparseInverse& of)
        : y(bytes, of.size()),
          sum(bytes, of.singular_ ? of.size() : 0),
          count(bytes, of.singular_ ? of.size() : 0),
          rest(bytes, of.rest_.size()) {}
    Vec<double> y, sum, count;
    ConjugateGradients::Work rest;
  };
  std::size_t work_bytes() const { return 8 * size() * (singular_ ? 3 : 1) + 40 * rest_.size(); }

  void apply(const double* b, double* out, Work& work) const;  // out may be b
  void column(std::int64_t i, double* out, Work& work) const;
  std::size_t bytes() const;

 private:
  struct Entry {
    std::int32_t to;
    double value;
  };
  struct Elimination;

  void center(Work& work) const;  // makes the mean of work.y 0 on each component

  std::vector<std::int64_t> component_;
  bool singular_;
  std::vector<std::int32_t> order_;   // all tasks: the eliminated ones in the order of elimination, then the others
  std::vector<double> pivot_;         // D
  std::vector<std::int64_t> l_begin_;  // where the entries of each eliminated task begin in l_to_ and l_
  std::vector<std::int32_t> l_to_;    // the other task of each entry, eliminated later or remaining: its position in order_
  std::vector<double> l_;             // the rows of [Lᵀ  D⁻¹L⁻¹Cᵀ], without the diagonal of Lᵀ
  ConjugateGradients rest_;           // on G'
};

}  // namespace budgetron
