// Eigenvalues and eigenvectors of a symmetric matrix. Used by rules that decompose a Gram matrix or a matrix of task relations.
#pragma once

#include <cstddef>

namespace budgetron {

// Computes the eigenvalues in ascending order, and overwrites the symmetric n × n matrix v (row by row) with the eigenvectors: column j
// belongs to values[j]. `work` has room for n numbers. The time is O(n³).
void symmetric_eigen(double* v, std::size_t n, double* values, double* work);

}  // namespace budgetron
