// Stores sparse rows: the features of each row in a list, and the values in an inverted index.
//
// As long as all values are integers from −32767 to 32767 (counts, flags), the index stores them as int16. Products then read less memory: 6
// bytes per posting instead of 8 (float) or 12 (double), and 2 bytes per entry of a dense column instead of 4 or 8. Integer sums are also exact
// in any order. The first other value, or a rule that merges rows, converts the index to T, the caller's type (float or double).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "simd/simd.hpp"
#include "stores/inverted_index.hpp"
#include "kernel.hpp"
#include "stores/store.hpp"

namespace budgetron {

template <class T>
class SparseStore final : public Store {
 public:
  // If pool > 0, the constructor allocates space for `pool` non-zeros, and the store never holds more. If pool == 0, it grows with its rows.
  SparseStore(Bytes& bytes, std::size_t capacity, bool growing, std::size_t pool, std::uint64_t seed)
      : bytes_(bytes),
        counted_(bytes, sizeof(SparseStore)),
        capacity_(capacity),
        growing_(growing),
        pool_(pool),
        narrow_(std::make_unique<InvertedIndex<Narrow>>(bytes, capacity, pool, sizeof(T), seed)),
        row_features_(bytes),
        row_begin_(bytes, capacity),
        row_length_(bytes, capacity),
        sq_(bytes, capacity),
        scale_(bytes, capacity, 1.0),
        sums_(bytes, capacity),
        order_(bytes, capacity),
        moved_values_(bytes) {
    if (pool_) row_features_.resize(pool_ + pool_ / 8 + 1);  // an eighth more than needed, so that compact_rows() is rare
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
    explicit SparseProducts(Bytes& bytes) : counted(bytes, sizeof(SparseProducts)), sums(bytes), integer_sums(bytes) {}
    CountedSize counted;
    Vec<double> sums;          // the inner products with all slots
    Vec<std::int32_t> integer_sums;  // working memory of InvertedIndex::integer_products
  };
  std::unique_ptr<Products> new_products(Bytes& bytes) const override {
    auto products = std::make_unique<SparseProducts>(bytes);
    resize(*products);
    return products;
  }

  std::size_t lookahead() const override { return 1; }

  void compute(const Rows& rows, std::size_t first, std::size_t, Products& out) const override {
    auto& products = static_cast<SparseProducts&>(out);
    products.squares[0] = square(rows, first);
    if (size_ == 0) return;
    const auto begin = static_cast<std::size_t>(rows.indptr[first]);
    const auto end = static_cast<std::size_t>(rows.indptr[first + 1]);
    add_products(rows.indices + begin, data_of(rows) + begin, end - begin, products.integer_sums.data(), products.sums.data());
  }

  void refresh(const Rows&, std::size_t, std::size_t, std::size_t, std::size_t, Products&) const override {
  }  // lookahead() is 1, so no products were computed in advance

  void resize(Products& out) const override {
    auto& products = static_cast<SparseProducts&>(out);
    if (products.sums.size() < capacity_) products.sums.resize(capacity_);
    if (products.integer_sums.size() < capacity_) products.integer_sums.resize(capacity_);
  }

  void kernel_row(const Kernel& kernel, const Products& products, std::size_t, double sq,
                  double* row) const override {
    kernel.row(static_cast<const SparseProducts&>(products).sums.data(), sq_.data(), scale_.data(), sq, size_, row);
  }

  // Works on 128 features at a time, with their values in an array on the stack, because this function must not allocate.
  void kernel_row_of_slot(const Kernel& kernel, std::size_t slot, bool, double* row) override {
    constexpr std::size_t kChunk = 128;
    T values[kChunk];
    std::fill_n(sums_.data(), size_, 0.0);
    for (std::size_t from = 0; from < row_length_[slot]; from += kChunk) {
      const std::size_t n = std::min(kChunk, row_length_[slot] - from);
      const std::int32_t* features = row_features_.data() + row_begin_[slot] + from;
      for (std::size_t i = 0; i < n; ++i) values[i] = value_at(features[i], slot);
      with_index([&](auto& index) { index.products(features, values, n, size_, sums_.data()); });
    }
    kernel.row(sums_.data(), sq_.data(), scale_.data(), sq_[slot], size_, row);
  }

  bool fits(const Instance& x) const override {
    return !pool_ || n_stored_ + length_of(x) <= pool_;
  }

  bool fits_alone(const Instance& x) const override { return !pool_ || length_of(x) <= pool_; }

  std::size_t n_to_evict(const Instance& x, const Vec<std::size_t>& order) const override {
    std::size_t count = 0, left = n_stored_;
    while (pool_ && count < order.size() && left + length_of(x) > pool_) left -= row_length_[order[count++]];
    return count;
  }

  std::size_t reserve_bytes(const Rows& rows, std::size_t from, std::size_t to) const override {
    return pool_ ? 0 : kBytesPerEntry * max_new_entries(rows, from, to);
  }

  void reserve(std::size_t slots, const Rows& rows, std::size_t from, std::size_t to) override {
    if (growing_ && slots > capacity_) grow(slots);
    const std::size_t n = max_new_entries(rows, from, to);
    if (narrow_ && expects_mergers_) convert_to_wide(n);
    if (narrow_) {
      // Row by row, so that the test ends at the first row with a value that is not a small integer.
      bool all_integers = true;
      for (std::size_t i = from; i < to && all_integers; ++i)
        all_integers = integer_sum(data_of(rows) + rows.indptr[i], static_cast<std::size_t>(rows.indptr[i + 1] - rows.indptr[i])) >= 0;
      if (!all_integers) convert_to_wide(n);
    }
    with_index([&](auto& index) { index.reserve(n); });
    reserve_rows(n);
  }

  void append(const Instance& x, const Kernel& kernel) override {
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

  void expect_mergers() override { expects_mergers_ = true; }
  std::size_t nonzeros() const override { return n_stored_; }
  std::size_t read(std::size_t slot, std::int32_t* features, double* values) const override {
    for (std::size_t i = 0; i < row_length_[slot]; ++i) {
      features[i] = row_features_[row_begin_[slot] + i];
      values[i] = static_cast<double>(value_at(features[i], slot));
    }
    return row_length_[slot];
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
  using Narrow = std::int16_t;  // the type of stored values while all of them are small integers
  static constexpr std::size_t kBytesPerEntry = 100;  // about the most memory that one more entry takes in all arrays
  static constexpr double kLargestSum = 65535.0;  // up to this Σ|x|, the inner product with any int16 values fits into an int32

  static const T* data_of(const Rows& rows) {
    if constexpr (std::is_same_v<T, float>)
      return rows.data_f32;
    else
      return rows.data_f64;
  }
  static double integer_sum(const T* x, std::size_t n) {
    if constexpr (std::is_same_v<T, float>)
      return simd().integer_sum_f32(x, n);
    else
      return simd().integer_sum_f64(x, n);
  }
  static std::size_t length_of(const Instance& x) {
    return static_cast<std::size_t>(x.rows->indptr[x.at + 1] - x.rows->indptr[x.at]);
  }
  static const std::int32_t* indices_of(const Instance& x) { return x.rows->indices + x.rows->indptr[x.at]; }

  // Calls use() with the index that is set: narrow_ or wide_.
  template <class Use>
  void with_index(Use use) {
    if (narrow_)
      use(*narrow_);
    else
      use(*wide_);
  }

  // Writes the inner products of a row with all slots to `sums`. They are added as integers if all values are small integers.
  void add_products(const std::int32_t* features, const T* values, std::size_t n, std::int32_t* integer_sums, double* sums) const {
    const double sum = narrow_ ? integer_sum(values, n) : -1.0;
    if (sum >= 0 && sum <= kLargestSum) {
      narrow_->integer_products(features, values, n, size_, integer_sums, sums);
      return;
    }
    std::fill(sums, sums + size_, 0.0);
    if (narrow_)
      narrow_->products(features, values, n, size_, sums);
    else
      wide_->products(features, values, n, size_, sums);
  }

  T value_at(std::int32_t feature, std::size_t slot) const {
    return narrow_ ? static_cast<T>(narrow_->value_at(feature, slot)) : wide_->value_at(feature, slot);
  }

  void insert(std::size_t slot, const Instance& x, const Kernel& kernel) {
    const std::size_t n = length_of(x);
    const std::int32_t* features = indices_of(x);
    const T* values = data_of(*x.rows) + x.rows->indptr[x.at];
    row_begin_[slot] = space_for_row(n);
    with_index([&](auto& index) {
      index.for_each(features, n, [&](std::size_t i, const FeatureCell* home) {
        if (values[i] == T{}) return;  // explicit zeros are not stored
        row_features_[row_end_++] = features[i];
        index.add(features[i], home, slot, static_cast<typename std::decay_t<decltype(index)>::Value>(values[i]));
      });
    });
    row_length_[slot] = static_cast<std::uint32_t>(row_end_ - row_begin_[slot]);
    n_stored_ += row_length_[slot];
    sq_[slot] = x.sq;
    scale_[slot] = kernel.scale(x.sq);
  }

  void erase(std::size_t slot) {
    const std::size_t n = row_length_[slot];
    const std::int32_t* features = row_features_.data() + row_begin_[slot];
    with_index([&](auto& index) {
      index.for_each(features, n, [&](std::size_t i, const FeatureCell* home) { index.erase(features[i], home, slot); });
    });
    n_stored_ -= n;
    row_length_[slot] = 0;
  }

  // An upper bound of how many entries of these rows can be stored at the same time. At most `capacity_` of the rows can be stored, because
  // each needs a slot. If rows are merged, all entries count, because a merged row has the entries of several rows.
  std::size_t max_new_entries(const Rows& rows, std::size_t from, std::size_t to) const {
    const auto all = static_cast<std::size_t>(rows.indptr[to] - rows.indptr[from]);
    if (growing_ || expects_mergers_ || to - from <= capacity_) return all;
    std::size_t longest = 0;
    for (std::size_t i = from; i < to; ++i)
      longest = std::max(longest, static_cast<std::size_t>(rows.indptr[i + 1] - rows.indptr[i]));
    return std::min(all, capacity_ * longest);
  }

  // Converts the index from int16 to T, in the same memory, with space for `more` further entries. If it throws, nothing has
  // changed.
  void convert_to_wide(std::size_t more) {
    moved_values_.reserve(n_stored_);
    narrow_->template reserve_to_become<T>(n_stored_, more);
    auto wide = std::make_unique<InvertedIndex<T>>(bytes_);
    for (std::size_t slot = 0; slot < size_; ++slot)
      for (std::size_t i = 0; i < row_length_[slot]; ++i)
        moved_values_.push_back(narrow_->value_at(row_features_[row_begin_[slot] + i], slot));
    wide->take_over(std::move(*narrow_));
    wide_ = std::move(wide);
    narrow_.reset();
    const Narrow* value = moved_values_.data();
    for (std::size_t slot = 0; slot < size_; ++slot)
      for (std::size_t i = 0; i < row_length_[slot]; ++i)
        wide_->add(row_features_[row_begin_[slot] + i], slot, static_cast<T>(*value++));
    budgetron::release(moved_values_);
  }

  // Returns where the features of a new row of n entries begin.
  std::size_t space_for_row(std::size_t n) {
    if (row_end_ + n > row_features_.size()) compact_rows();
    return row_end_;
  }

  // Ensures that n further entries fit at the end of row_features_: allocates if necessary, and closes the gaps.
  void reserve_rows(std::size_t n) {
    if (pool_ || row_end_ + n <= row_features_.size()) return;
    if ((n_stored_ + n) * 5 > row_features_.size() * 4) resize_exactly(row_features_, std::max<std::size_t>(256, (n_stored_ + n) / 2 * 3));
    compact_rows();
  }

  // Closes the gaps that evicted rows left in row_features_.
  void compact_rows() {
    const auto end_of_order = order_.begin() + static_cast<std::ptrdiff_t>(size_);
    for (std::size_t s = 0; s < size_; ++s) order_[s] = static_cast<std::uint32_t>(s);
    std::sort(order_.begin(), end_of_order, [&](auto a, auto b) { return row_begin_[a] < row_begin_[b]; });
    std::size_t end = 0;
    for (auto s = order_.begin(); s != end_of_order; ++s) {
      std::memmove(row_features_.data() + end, row_features_.data() + row_begin_[*s], row_length_[*s] * sizeof(std::int32_t));
      row_begin_[*s] = end;
      end += row_length_[*s];
    }
    row_end_ = end;
  }

  void grow(std::size_t slots) {
    row_begin_.resize(slots);
    row_length_.resize(slots);
    sq_.resize(slots);
    scale_.resize(slots, 1.0);
    sums_.resize(slots);
    order_.resize(slots);
    with_index([&](auto& index) { index.grow(slots); });
    capacity_ = slots;  // last, so that it is unchanged if an allocation above throws
  }

  Bytes& bytes_;
  CountedSize counted_;
  std::size_t capacity_, size_ = 0;
  bool growing_, expects_mergers_ = false;
  std::size_t pool_;
  std::unique_ptr<InvertedIndex<Narrow>> narrow_;  // exactly one of narrow_ and wide_ is set
  std::unique_ptr<InvertedIndex<T>> wide_;
  Vec<std::int32_t> row_features_;  // the features of all rows, with gaps where rows were evicted
  Vec<std::size_t> row_begin_;      // where the features of each slot begin in row_features_
  Vec<std::uint32_t> row_length_;
  std::size_t row_end_ = 0, n_stored_ = 0;  // where the used part of row_features_ ends; the number of stored non-zeros
  Vec<double> sq_, scale_;
  Vec<double> sums_;          // for kernel_row_of_slot()
  Vec<std::uint32_t> order_;  // for compact_rows()
  Vec<Narrow> moved_values_;         // for convert_to_wide()
};

}  // namespace budgetron
