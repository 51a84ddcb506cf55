// Dense rows in blocks of lanes, feature-major inside a block (see simd.hpp): an inner product with a whole
// block needs no horizontal sum, and a replacement is d strided writes.
#pragma once

#include <algorithm>
#include <type_traits>

#include "simd/simd.hpp"
#include "kernel.hpp"
#include "stores/store.hpp"

namespace budgetron {

template <class T>
class DenseStore final : public Store {
 public:
  DenseStore(Bytes& bytes, std::size_t d, std::size_t capacity, bool growing)
      : d_(d), growing_(growing), blocks_(bytes), sq_(bytes), scale_(bytes) {
    reserve(capacity);
  }

  std::size_t size() const override { return size_; }

  double square(const Rows& rows, std::size_t at) const override {
    if constexpr (std::is_same_v<T, float>)
      return simd().square_f32(row_of(rows, at), d_);
    else
      return simd().square_f64(row_of(rows, at), d_);
  }

  struct DenseProducts final : Products {
    explicit DenseProducts(Bytes& bytes) : dots(bytes) {}
    Vec<T> dots;
    std::size_t stride = 0;
  };
  std::unique_ptr<Products> new_products(Bytes& bytes) const override {
    auto products = std::make_unique<DenseProducts>(bytes);
    fit(*products);
    return products;
  }

  std::size_t lookahead() const override { return kAhead; }

  void compute(const Rows& rows, std::size_t first, std::size_t count, Products& out) const override {
    auto& products = static_cast<DenseProducts&>(out);
    if (products.stride < sq_.size()) fit(products);
    multiply(rows, first, count, 0, used_blocks(), products.dots.data(), products.stride);
  }

  void refresh(const Rows& rows, std::size_t first, std::size_t from, std::size_t to,
               const std::vector<std::size_t>& changed, Products& out) const override {
    auto& products = static_cast<DenseProducts&>(out);
    if (products.stride < sq_.size() || changed.size() > 1) {  // grown or reshuffled: all again
      if (products.stride < sq_.size()) fit(products);
      multiply(rows, first + from, to - from, 0, used_blocks(), products.dots.data() + from * products.stride,
               products.stride);
      return;
    }
    for (std::size_t slot : changed)
      multiply(rows, first + from, to - from, slot / kLanes<T>, 1, products.dots.data() + from * products.stride,
               products.stride);
  }

  void kernel_row(const Kernel& kernel, const Products& products, std::size_t at, double sq,
                  double* row) const override {
    const auto& dense = static_cast<const DenseProducts&>(products);
    kernel.row(dense.dots.data() + at * dense.stride, sq_.data(), scale_.data(), sq, size_, row);
  }

  void kernel_row_of_slot(const Kernel& kernel, std::size_t slot, double* row) const override {
    std::vector<T> x(d_), dots(sq_.size());
    for (std::size_t f = 0; f < d_; ++f) x[f] = *cell(slot, f);
    const T* query = x.data();
    T* out = dots.data();
    multiply_blocks(blocks_.data(), used_blocks(), &query, 1, &out);
    kernel.row(dots.data(), sq_.data(), scale_.data(), static_cast<double>(sq_[slot]), size_, row);
  }

  bool fits(const Instance&) const override { return true; }
  bool fits_alone(const Instance&) const override { return true; }
  bool fits_beside(const Instance&, const Vec<std::uint32_t>&) const override { return true; }
  std::size_t leavers(const Instance&, const std::vector<std::size_t>&) const override { return 0; }

  void append(const Instance& x, const Kernel& kernel) override {
    if (growing_ && size_ == sq_.size()) reserve(std::max<std::size_t>(kLanes<T>, 2 * size_));
    write(size_++, x, kernel);
  }

  void replace(std::size_t slot, const Instance& x, const Kernel& kernel) override { write(slot, x, kernel); }

  void remove(std::size_t slot) override {
    const std::size_t last = --size_;
    for (std::size_t f = 0; f < d_; ++f) *cell(slot, f) = *cell(last, f);
    sq_[slot] = sq_[last];
    scale_[slot] = scale_[last];
  }

  void release() override {
    size_ = 0;
    Vec<T>(*sq_.get_allocator().bytes).swap(sq_);
    Vec<T>(*sq_.get_allocator().bytes).swap(blocks_);
    Vec<double>(*sq_.get_allocator().bytes).swap(scale_);
  }

  Dump dump() const override {
    Dump dump;
    dump.values.resize(size_ * d_);
    for (std::size_t j = 0; j < size_; ++j)
      for (std::size_t f = 0; f < d_; ++f) dump.values[j * d_ + f] = static_cast<double>(*cell(j, f));
    return dump;
  }

 private:
  static constexpr std::size_t kAhead = 8;

  void multiply_blocks(const T* store, std::size_t blocks, const T* const* x, std::size_t count,
                       T* const* out) const {
    if constexpr (std::is_same_v<T, float>)
      simd().products_f32(store, blocks, d_, x, count, out);
    else
      simd().products_f64(store, blocks, d_, x, count, out);
  }

  void multiply(const Rows& rows, std::size_t first, std::size_t count, std::size_t block, std::size_t blocks,
                T* dots, std::size_t stride) const {
    const T* x[kAhead];
    T* out[kAhead];
    for (std::size_t q = 0; q < count; ++q) {
      x[q] = row_of(rows, first + q);
      out[q] = dots + q * stride + block * kLanes<T>;
    }
    multiply_blocks(blocks_.data() + block * d_ * kLanes<T>, blocks, x, count, out);
  }

  void fit(DenseProducts& products) const {
    products.stride = sq_.size();
    products.dots.assign(kAhead * products.stride, T{});
  }

  std::size_t used_blocks() const { return (size_ + kLanes<T> - 1) / kLanes<T>; }

  void reserve(std::size_t slots) {
    const std::size_t rounded = (slots + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
    blocks_.resize(rounded * d_);
    sq_.resize(rounded);
    scale_.resize(rounded, 1.0);
  }

  T* cell(std::size_t slot, std::size_t f) {
    return blocks_.data() + (slot / kLanes<T> * d_ + f) * kLanes<T> + slot % kLanes<T>;
  }
  const T* cell(std::size_t slot, std::size_t f) const { return const_cast<DenseStore*>(this)->cell(slot, f); }

  void write(std::size_t slot, const Instance& x, const Kernel& kernel) {
    const T* values = row_of(*x.rows, x.at);
    for (std::size_t f = 0; f < d_; ++f) *cell(slot, f) = values[f];
    sq_[slot] = static_cast<T>(x.sq);  // it was added up in T
    scale_[slot] = kernel.scale(x.sq);
  }

  static const T* row_of(const Rows& rows, std::size_t at) {
    if constexpr (std::is_same_v<T, float>)
      return rows.dense_f32 + at * rows.d;
    else
      return rows.dense_f64 + at * rows.d;
  }

  std::size_t d_, size_ = 0;
  bool growing_;
  Vec<T> blocks_;
  Vec<T> sq_;
  Vec<double> scale_;
};

}  // namespace budgetron
