// Eigenvalues and eigenvectors of a symmetric matrix. Used by rules that decompose a Gram matrix or a matrix of task relations.
#pragma once

#include <cstddef>

namespace budgetron {

// Before the call, v is a symmetric n × n matrix, row by row. After it, values are the eigenvalues in ascending order, and column j of v
// is the eigenvector of values[j].
// `work` has room for n numbers. O(n³), in place.
void symmetric_eigen(double* v, std::size_t n, double* values, double* work);

}  // namespace budgetron
