// Sparse rows: the features of each row, and their values in an inverted index.
//
// As long as all values are whole numbers of 16 bits (counts, flags) the index keeps them so: a third of the memory that
// a product has to touch, and products that are exact in any order. The first value that is not moves all of them over.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "simd/simd.hpp"
#include "stores/inverted_index.hpp"
#include "kernel.hpp"
#include "stores/store.hpp"

namespace budgetron {

template <class T>
class SparseStore final : public Store {
 public:
  // pool > 0: at most `pool` non-zeros in all and a fixed share of dense columns, the room for them allocated now and
  // for ever; pool == 0: memory follows what is stored.
  SparseStore(Bytes& bytes, std::size_t capacity, bool growing, std::size_t pool)
      : bytes_(bytes),
        capacity_(capacity),
        growing_(growing),
        pool_(pool),
        whole_(std::make_unique<InvertedIndex<Whole>>(bytes, capacity, pool)),
        row_features_(bytes),
        row_begin_(bytes, capacity),
        row_length_(bytes, capacity),
        sq_(bytes, capacity),
        scale_(bytes, capacity, 1.0) {
    if (pool_) row_features_.resize(pool_ + pool_ / 8 + 1);
  }

  std::size_t size() const override { return size_; }

  void squares(const Rows& rows, std::size_t first, std::size_t count, double* out) const override {
    for (std::size_t q = 0; q < count; ++q) out[q] = square(rows, first + q);
  }
  static double square(const Rows& rows, std::size_t at) {
    const auto begin = static_cast<std::size_t>(rows.indptr[at]), end = static_cast<std::size_t>(rows.indptr[at + 1]);
    if constexpr (std::is_same_v<T, float>)
      return simd().sparse_square_f32(rows.data_f32 + begin, end - begin);
    else
      return simd().sparse_square_f64(rows.data_f64 + begin, end - begin);
  }

  struct SparseProducts final : Products {
    explicit SparseProducts(Bytes& bytes) : sums(bytes), whole(bytes) {}
    Vec<double> sums;
    Vec<std::int32_t> whole;
  };
  std::unique_ptr<Products> new_products(Bytes& bytes) const override {
    auto products = std::make_unique<SparseProducts>(bytes);
    products->sums.assign(capacity_, 0.0);
    products->whole.assign(capacity_, 0);
    return products;
  }

  std::size_t lookahead() const override { return 1; }

  void compute(const Rows& rows, std::size_t first, std::size_t, Products& out) const override {
    auto& products = static_cast<SparseProducts&>(out);
    products.squares[0] = square(rows, first);
    if (products.sums.size() < capacity_) {
      products.sums.resize(capacity_);
      products.whole.resize(capacity_);
    }
    const auto begin = static_cast<std::size_t>(rows.indptr[first]);
    const auto end = static_cast<std::size_t>(rows.indptr[first + 1]);
    add_products(rows.indices + begin, data_of(rows) + begin, end - begin, products.whole.data(), products.sums.data());
  }

  void refresh(const Rows&, std::size_t, std::size_t, std::size_t, const std::vector<std::size_t>&,
               Products&) const override {}  // one instance at a time: nothing was computed ahead

  void kernel_row(const Kernel& kernel, const Products& products, std::size_t, double sq,
                  double* row) const override {
    kernel.row(static_cast<const SparseProducts&>(products).sums.data(), sq_.data(), scale_.data(), sq, size_, row);
  }

  void kernel_row_of_slot(const Kernel& kernel, std::size_t slot, bool, double* row) const override {
    const std::size_t n = row_length_[slot];
    const std::int32_t* features = row_features_.data() + row_begin_[slot];
    std::vector<T> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = value_at(features[i], slot);
    std::vector<double> sums(capacity_);
    std::vector<std::int32_t> whole(capacity_);
    add_products(features, values.data(), n, whole.data(), sums.data());
    kernel.row(sums.data(), sq_.data(), scale_.data(), sq_[slot], size_, row);
  }

  bool fits(const Instance& x) const override {
    return !pool_ || live_ + length_of(x) <= pool_;
  }

  bool fits_alone(const Instance& x) const override { return !pool_ || length_of(x) <= pool_; }
  bool fits_beside(const Instance& x, const Vec<std::uint32_t>& slots) const override {
    std::size_t kept = 0;
    for (const auto slot : slots) kept += row_length_[slot];
    return !pool_ || kept + length_of(x) <= pool_;
  }

  std::size_t leavers(const Instance& x, const std::vector<std::size_t>& order) const override {
    std::size_t count = 0, left = live_;
    while (pool_ && count < order.size() && left + length_of(x) > pool_) left -= row_length_[order[count++]];
    return count;
  }

  void append(const Instance& x, const Kernel& kernel) override {
    if (growing_ && size_ == capacity_) grow();
    insert(size_, x, kernel);
    ++size_;
  }

  void replace(std::size_t slot, const Instance& x, const Kernel& kernel) override {
    erase(slot);
    insert(slot, x, kernel);
  }

  void remove(std::size_t slot) override {
    erase(slot);
    const std::size_t last = --size_;
    if (slot == last) return;
    const std::int32_t* features = row_features_.data() + row_begin_[last];
    with_index([&](auto& index) {
      for (std::size_t i = 0; i < row_length_[last]; ++i) index.move(features[i], last, slot);
    });
    row_begin_[slot] = row_begin_[last];
    row_length_[slot] = row_length_[last];
    sq_[slot] = sq_[last];
    scale_[slot] = scale_[last];
  }

  void release() override {
    whole_.reset();
    wide_.reset();
    wide_ = std::make_unique<InvertedIndex<T>>(bytes_, 0, 0);
    free_all(row_features_, row_begin_, row_length_, sq_, scale_);
    size_ = row_end_ = live_ = 0;
  }

  Dump dump() const override {
    Dump dump;
    dump.indptr.push_back(0);
    for (std::size_t slot = 0; slot < size_; ++slot) {
      for (std::size_t i = 0; i < row_length_[slot]; ++i) {
        const std::int32_t feature = row_features_[row_begin_[slot] + i];
        dump.indices.push_back(feature);
        dump.values.push_back(static_cast<double>(value_at(feature, slot)));
      }
      dump.indptr.push_back(static_cast<std::int64_t>(dump.indices.size()));
    }
    return dump;
  }

 private:
  using Whole = std::int16_t;
  static constexpr double kLargestSum = 65535.0;  // Σ|x| times the largest Whole still is an int32

  static const T* data_of(const Rows& rows) {
    if constexpr (std::is_same_v<T, float>)
      return rows.data_f32;
    else
      return rows.data_f64;
  }
  static double whole_sum(const T* x, std::size_t n) {
    if constexpr (std::is_same_v<T, float>)
      return simd().whole_sum_f32(x, n);
    else
      return simd().whole_sum_f64(x, n);
  }
  static std::size_t length_of(const Instance& x) {
    return static_cast<std::size_t>(x.rows->indptr[x.at + 1] - x.rows->indptr[x.at]);
  }
  static const std::int32_t* indices_of(const Instance& x) { return x.rows->indices + x.rows->indptr[x.at]; }

  template <class Use>
  void with_index(Use use) {
    if (whole_)
      use(*whole_);
    else
      use(*wide_);
  }

  void add_products(const std::int32_t* features, const T* values, std::size_t n, std::int32_t* whole, double* sums) const {
    const double sum = whole_ ? whole_sum(values, n) : -1.0;
    if (sum >= 0 && sum <= kLargestSum) {
      whole_->whole_products(features, values, n, size_, whole, sums);
      return;
    }
    std::fill(sums, sums + size_, 0.0);
    if (whole_)
      whole_->products(features, values, n, size_, sums);
    else
      wide_->products(features, values, n, size_, sums);
  }

  T value_at(std::int32_t feature, std::size_t slot) const {
    return whole_ ? static_cast<T>(whole_->value_at(feature, slot)) : wide_->value_at(feature, slot);
  }

  void insert(std::size_t slot, const Instance& x, const Kernel& kernel) {
    const std::size_t n = length_of(x);
    const std::int32_t* features = indices_of(x);
    const T* values = data_of(*x.rows) + x.rows->indptr[x.at];
    if (whole_ && whole_sum(values, n) < 0) keep_wide();
    row_begin_[slot] = room_for_row(n);
    with_index([&](auto& index) {
      for (std::size_t i = 0; i < n; ++i) {
        index.prefetch(features, i, n);
        if (values[i] == T{}) continue;  // an explicit zero is no entry
        row_features_[row_end_++] = features[i];
        index.add(features[i], slot, static_cast<typename std::decay_t<decltype(index)>::Value>(values[i]));
      }
    });
    row_length_[slot] = static_cast<std::uint32_t>(row_end_ - row_begin_[slot]);
    live_ += row_length_[slot];
    sq_[slot] = x.sq;
    scale_[slot] = kernel.scale(x.sq);
  }

  void erase(std::size_t slot) {
    const std::size_t n = row_length_[slot];
    const std::int32_t* features = row_features_.data() + row_begin_[slot];
    with_index([&](auto& index) {
      for (std::size_t i = 0; i < n; ++i) {
        index.prefetch(features, i, n);
        index.erase(features[i], slot);
      }
    });
    live_ -= n;
    row_length_[slot] = 0;
  }

  // Not all are whole numbers any more: from here on values are kept as they come.
  void keep_wide() {
    std::vector<Whole> values;
    values.reserve(live_);
    for (std::size_t slot = 0; slot < size_; ++slot)
      for (std::size_t i = 0; i < row_length_[slot]; ++i)
        values.push_back(whole_->value_at(row_features_[row_begin_[slot] + i], slot));
    whole_.reset();
    wide_ = std::make_unique<InvertedIndex<T>>(bytes_, capacity_, pool_);
    const Whole* value = values.data();
    for (std::size_t slot = 0; slot < size_; ++slot)
      for (std::size_t i = 0; i < row_length_[slot]; ++i)
        wide_->add(row_features_[row_begin_[slot] + i], slot, static_cast<T>(*value++));
  }

  std::size_t room_for_row(std::size_t n) {
    if (row_end_ + n > row_features_.size()) {
      if (!pool_ && (live_ + n) * 3 > row_features_.size() * 2)
        row_features_.resize(std::max<std::size_t>(256, (live_ + n) * 2));
      compact_rows();
    }
    return row_end_;
  }

  void compact_rows() {
    std::vector<std::uint32_t> order(size_);
    for (std::size_t s = 0; s < size_; ++s) order[s] = static_cast<std::uint32_t>(s);
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return row_begin_[a] < row_begin_[b]; });
    std::size_t end = 0;
    for (std::uint32_t s : order) {
      std::memmove(row_features_.data() + end, row_features_.data() + row_begin_[s], row_length_[s] * sizeof(std::int32_t));
      row_begin_[s] = end;
      end += row_length_[s];
    }
    row_end_ = end;
  }

  template <class... Vectors>
  static void free_all(Vectors&... vectors) {
    (vectors.clear(), ...);
    (vectors.shrink_to_fit(), ...);
  }

  void grow() {
    capacity_ = std::max<std::size_t>(32, capacity_ * 2);
    row_begin_.resize(capacity_);
    row_length_.resize(capacity_);
    sq_.resize(capacity_);
    scale_.resize(capacity_, 1.0);
    with_index([&](auto& index) { index.grow(capacity_); });
  }

  Bytes& bytes_;
  std::size_t capacity_, size_ = 0;
  bool growing_;
  std::size_t pool_;
  std::unique_ptr<InvertedIndex<Whole>> whole_;  // one of the two
  std::unique_ptr<InvertedIndex<T>> wide_;
  Vec<std::int32_t> row_features_;
  Vec<std::size_t> row_begin_;
  Vec<std::uint32_t> row_length_;
  std::size_t row_end_ = 0, live_ = 0;
  Vec<double> sq_, scale_;
};

}  // namespace budgetron
