// NumPy arrays as arguments and results of the bindings, and blocks of rows in such arrays.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "stores/store.hpp"

namespace nb = nanobind;

namespace budgetron {

// `In` is an argument: a read-only contiguous array. `Array1d` is the same with one dimension. `Out` is a one-dimensional result.
template <class T, class Shape>
using In = nb::ndarray<const T, nb::c_contig, nb::device::cpu, Shape>;
template <class T>
using Array1d = In<T, nb::ndim<1>>;
template <class T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

// Returns a vector as a NumPy array, without copying it.
template <class T>
Out<T> to_numpy(std::vector<T>&& values) {
  auto moved = std::make_unique<std::vector<T>>(std::move(values));
  nb::capsule owner(moved.get(), [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  const std::vector<T>* owned = moved.release();  // from here on, the capsule owns the vector
  return Out<T>(const_cast<T*>(owned->data()), {owned->size()}, owner);
}

// A NumPy array that is allocated before learning, so that learning only has to fill it.
template <class T>
struct OutputArray {
  explicit OutputArray(std::size_t n) {
    std::unique_ptr<T[]> allocated(new T[n ? n : 1]);
    nb::capsule owner(allocated.get(), [](void* p) noexcept { delete[] static_cast<T*>(p); });
    values = allocated.release();  // from here on, the capsule owns the memory
    object = nb::cast(Out<T>(values, {n}, owner));
  }
  T* data() const { return values; }
  T* values = nullptr;
  nb::object object;  // the NumPy array
};

inline void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

// The row starts of a CSR matrix must be in order, and within its `size` entries.
inline void require_starts(const std::int64_t* indptr, std::size_t n, std::size_t size) {
  require(n > 0 && indptr[0] >= 0 && indptr[n - 1] <= static_cast<std::int64_t>(size), "_core: indptr must lie within the entries");
  for (std::size_t i = 1; i < n; ++i) require(indptr[i - 1] <= indptr[i], "_core: indptr must be ascending");
}

// A block of rows from Python: a dense array, or the three arrays of a CSR matrix. It points into the memory of these arrays, so they must
// outlive it. Only the lengths and the row starts are checked here; require_rows() also checks the columns, and must be called before they are read.
struct RowBlock {
  Rows rows;
  bool sparse = false;
  bool single = false;  // whether the values are float32 (single precision); otherwise float64

  template <class T>
  static RowBlock dense(const In<T, nb::ndim<2>>& x) {
    RowBlock block;
    block.rows.count = x.shape(0);
    block.rows.d = x.shape(1);
    block.single = std::is_same_v<T, float>;
    if constexpr (std::is_same_v<T, float>)
      block.rows.dense_f32 = x.data();
    else
      block.rows.dense_f64 = x.data();
    return block;
  }
  template <class T>
  static RowBlock csr(const Array1d<std::int64_t>& indptr, const Array1d<std::int32_t>& indices, const Array1d<T>& data) {
    require(indices.shape(0) == data.shape(0), "_core.csr: indices and data must have the same length");
    require_starts(indptr.data(), indptr.shape(0), indices.shape(0));
    RowBlock block;
    block.rows.count = indptr.shape(0) - 1;
    block.rows.indptr = indptr.data();
    block.rows.indices = indices.data();
    block.sparse = true;
    block.single = std::is_same_v<T, float>;
    if constexpr (std::is_same_v<T, float>)
      block.rows.data_f32 = data.data();
    else
      block.rows.data_f64 = data.data();
    return block;
  }
  std::size_t outputs = 0;  // how many numbers rows.offsets has per row, one per output of the model; 0 if there are no offsets
};

}  // namespace budgetron
