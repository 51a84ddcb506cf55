// Eigenvalues and eigenvectors of a symmetric matrix.
#pragma once

#include <cstddef>

namespace budgetron {

// v is a symmetric n × n matrix, row by row; afterwards column j of v is the eigenvector of values[j], in ascending order.
// `work` has room for n numbers. O(n³), in place.
void symmetric_eigen(double* v, std::size_t n, double* values, double* work);

}  // namespace budgetron
