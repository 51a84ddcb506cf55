// Stores dense rows in blocks of kLanes rows, one lane per row (simd.hpp). A block stores the values of the first feature for all its rows, then
// the values of the second feature, and so on. So the inner products of a query with all rows of a block need no sum over the lanes of a register.
// The price is that replacing a row takes d writes to separate places.
//
// Under the Gaussian kernel, a reference point c is subtracted from every row. The reason is that ‖x − y‖² is computed as
// ‖x‖² + ‖y‖² − 2⟨x, y⟩, whose rounding error grows with ‖x‖². For rows far from 0 but near each other, all digits would be lost, and the
// kernel would no longer be positive semidefinite. Subtracting c does not change distances. c is 0 until two consecutive rows are far from
// it (γ‖x − c‖² > kReach) and near each other; later moves need more rows (see update_reference()). So a single outlier never becomes c.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "simd/simd.hpp"
#include "kernel.hpp"
#include "stores/store.hpp"

namespace budgetron {

// A row counts as near c if γ‖x − c‖² is at most this. The exponent of the kernel then has an error of about kReach · 2⁻²⁴ in float, and
// kReach · 2⁻⁵³ in double.
template <class T>
constexpr double kReach = sizeof(T) == sizeof(float) ? 32.0 : 262144.0;

template <class T>
class DenseStore final : public Store {
 public:
  DenseStore(Bytes& bytes, std::size_t d, std::size_t capacity, bool growing, const Kernel& kernel = {})
      : counted_(bytes, sizeof(DenseStore)),
        d_(d),
        growing_(growing),
        shifted_lookahead_(growing ? 4 : std::max<std::size_t>(1, std::min<std::size_t>(4, capacity / 16))),
        blocks_(bytes),
        sq_(bytes),
        scale_(bytes),
        point_(bytes),
        candidate_(bytes),
        query_(bytes, d),
        dots_(bytes) {
    grow(capacity);
    if (kernel.kind != Kernel::Kind::gaussian) return;
    reach2_ = kReach<T> / kernel.gamma;
    point_.resize(d);
    candidate_.resize(d);
  }

  std::size_t size() const override { return size_; }

  void squares(const Rows& rows, std::size_t first, std::size_t count, double* out) const override {
    const T* x[kMaxLookahead];
    for (std::size_t q = 0; q < count; q += kMaxLookahead) {
      const std::size_t n_rows = std::min(kMaxLookahead, count - q);
      for (std::size_t i = 0; i < n_rows; ++i) x[i] = row_of(rows, first + q + i);
      squares_of(x, n_rows, out + q);
    }
  }

  void rough_squares(const Rows& rows, std::size_t first, std::size_t count, double* out) const override {
    for (std::size_t q = 0; q < count; ++q) {
      if constexpr (std::is_same_v<T, float>)
        out[q] = simd().rough_square_f32(row_of(rows, first + q), d_);
      else
        out[q] = simd().rough_square_f64(row_of(rows, first + q), d_);
    }
  }

  struct DenseProducts final : Products {
    explicit DenseProducts(Bytes& bytes) : counted(bytes, sizeof(DenseProducts)), dots(bytes), shifted(bytes) {}
    CountedSize counted;
    Vec<T> dots;
    std::size_t stride = 0;
    Vec<T> shifted;                           // the instances minus c, once c has moved
    std::array<const T*, kMaxLookahead> x{};  // the instances, shifted if c has moved
  };
  std::unique_ptr<Products> new_products(Bytes& bytes) const override {
    auto products = std::make_unique<DenseProducts>(bytes);
    resize(*products);
    return products;
  }

  std::size_t lookahead() const override { return moves_ ? shifted_lookahead_ : kMaxLookahead; }

  void compute(const Rows& rows, std::size_t first, std::size_t count, Products& out) const override {
    auto& products = static_cast<DenseProducts&>(out);
    for (std::size_t q = 0; q < count; ++q) {
      const T* x = row_of(rows, first + q);
      products.x[q] = x;
      if (!moves_) continue;
      T* z = products.shifted.data() + q * d_;
      for (std::size_t f = 0; f < d_; ++f) z[f] = x[f] - point_[f];
      products.x[q] = z;
    }
    squares_of(products.x.data(), count, products.squares.data());
    multiply(products, 0, count, 0, used_blocks());
  }

  void refresh(const Rows&, std::size_t, std::size_t from, std::size_t to, std::size_t slot, Products& out) const override {
    auto& products = static_cast<DenseProducts&>(out);
    if (slot == kAllSlots) {
      multiply(products, from, to, 0, used_blocks());
      return;
    }
    T* dots[kMaxLookahead];
    const std::size_t block = slot / kLanes<T>;
    for (std::size_t q = from; q < to; ++q) dots[q - from] = products.dots.data() + q * products.stride + block * kLanes<T>;
    const T* block_values = blocks_.data() + block * d_ * kLanes<T>;
    if constexpr (std::is_same_v<T, float>)
      simd().products_lane_f32(block_values, d_, slot % kLanes<T>, products.x.data() + from, to - from, dots);
    else
      simd().products_lane_f64(block_values, d_, slot % kLanes<T>, products.x.data() + from, to - from, dots);
  }

  void resize(Products& out) const override {
    auto& products = static_cast<DenseProducts&>(out);
    if (products.shifted.empty()) products.shifted.resize(point_.empty() ? 0 : shifted_lookahead_ * d_);
    if (products.stride == sq_.size()) return;
    products.dots.resize(kMaxLookahead * sq_.size());
    products.stride = sq_.size();
  }

  void kernel_row(const Kernel& kernel, const Products& products, std::size_t at, double sq,
                  double* row) const override {
    const auto& dense = static_cast<const DenseProducts&>(products);
    kernel.row(dense.dots.data() + at * dense.stride, sq_.data(), scale_.data(), sq, size_, row);
  }

  void kernel_row_of_slot(const Kernel& kernel, std::size_t slot, bool exact, double* row) override {
    for (std::size_t f = 0; f < d_; ++f) query_[f] = *cell(slot, f);
    if (exact && kernel.kind == Kernel::Kind::gaussian) {
      for (std::size_t block = 0; block < used_blocks(); ++block) {
        double sums[kLanes<T>] = {};
        for (std::size_t f = 0; f < d_; ++f)
          for (std::size_t lane = 0; lane < kLanes<T>; ++lane) {
            const double difference = static_cast<double>(cell(block * kLanes<T>, f)[lane]) - static_cast<double>(query_[f]);
            sums[lane] += difference * difference;
          }
        for (std::size_t j = block * kLanes<T>; j < std::min(size_, (block + 1) * kLanes<T>); ++j)
          row[j] = std::exp(-kernel.gamma * sums[j % kLanes<T>]);
      }
      return;
    }
    const T* query = query_.data();
    T* out = dots_.data();
    multiply_blocks(blocks_.data(), used_blocks(), &query, 1, &out);
    kernel.row(dots_.data(), sq_.data(), scale_.data(), static_cast<double>(sq_[slot]), size_, row);
  }

  bool fits(const Instance&) const override { return true; }
  bool fits_alone(const Instance&) const override { return true; }
  std::size_t n_to_evict(const Instance&, const Vec<std::size_t>&) const override { return 0; }

  std::size_t reserve_bytes(const Rows&, std::size_t, std::size_t) const override { return 0; }

  void reserve(std::size_t slots, const Rows&, std::size_t, std::size_t) override {
    if (growing_ && slots > sq_.size()) grow(slots);
  }

  void append(const Instance& x, const Kernel& kernel) override {
    write(size_++, x, kernel);
  }

  void replace(std::size_t slot, const Instance& x, const Kernel& kernel) override { write(slot, x, kernel); }

  void remove(std::size_t slot) override {
    const std::size_t last = --size_;
    for (std::size_t f = 0; f < d_; ++f) *cell(slot, f) = *cell(last, f);
    sq_[slot] = sq_[last];
    scale_[slot] = scale_[last];
  }

  void read(std::size_t slot, double* out) const override {
    for (std::size_t f = 0; f < d_; ++f) out[f] = static_cast<double>(*cell(slot, f));
  }
  void read(const Instance& x, double* out) const override {
    const T* values = row_of(*x.rows, x.at);
    for (std::size_t f = 0; f < d_; ++f) out[f] = static_cast<double>(moves_ ? values[f] - point_[f] : values[f]);
  }
  void overwrite(std::size_t slot, const double* row, const Kernel& kernel) override {
    for (std::size_t f = 0; f < d_; ++f) query_[f] = *cell(slot, f) = static_cast<T>(row[f]);
    const T* values = query_.data();
    double square;
    squares_of(&values, 1, &square);
    sq_[slot] = static_cast<T>(square);
    scale_[slot] = kernel.scale(square);
  }

  bool update_reference(const Rows& rows, std::size_t at, double sq) override {
    if (!(sq > reach2_)) {
      streak_ = 0;
      return false;
    }
    const T* x = row_of(rows, at);
    if (streak_ > 0 && distance2(x, candidate_.data()) <= reach2_) {
      ++streak_;
    } else {
      std::copy_n(x, d_, candidate_.begin());
      streak_ = 1;
    }
    // The first move of c needs two consecutive rows, the next moves need 4, 8, … 1024. Otherwise a stream that alternates between two
    // regions would move c, and have the Gram matrix rebuilt, again and again.
    if (streak_ < std::int64_t{2} << std::min<std::int64_t>(moves_, 9)) return false;
    for (std::size_t slot = 0; slot < size_; ++slot) {
      for (std::size_t f = 0; f < d_; ++f) {
        const double shift = static_cast<double>(point_[f]) - static_cast<double>(candidate_[f]);
        query_[f] = *cell(slot, f) = static_cast<T>(static_cast<double>(*cell(slot, f)) + shift);
      }
      const T* values = query_.data();
      double square;
      squares_of(&values, 1, &square);
      sq_[slot] = static_cast<T>(square);
    }
    std::copy(candidate_.begin(), candidate_.end(), point_.begin());
    streak_ = 0;
    ++moves_;
    return true;
  }

  void set_gamma(double gamma) override { reach2_ = kReach<T> / gamma; }

  Reference reference() const override {
    if (!moves_ && !streak_) return {};
    return {{point_.begin(), point_.end()}, {candidate_.begin(), candidate_.end()}, streak_, moves_};
  }

  void set_reference(const Reference& saved) override {
    if (saved.point.size() != point_.size() || saved.candidate.size() != candidate_.size() || saved.streak < 0 || saved.moves < 0)
      throw std::invalid_argument("load: the reference point of the saved model has the wrong number of features, or a negative count");
    for (std::size_t f = 0; f < point_.size(); ++f) {
      point_[f] = static_cast<T>(saved.point[f]);
      candidate_[f] = static_cast<T>(saved.candidate[f]);
    }
    streak_ = saved.streak;
    moves_ = saved.moves;
  }

  Dump dump() const override {
    Dump dump;
    dump.values.resize(size_ * d_);
    for (std::size_t j = 0; j < size_; ++j)
      for (std::size_t f = 0; f < d_; ++f) dump.values[j * d_ + f] = static_cast<double>(*cell(j, f));
    return dump;
  }

 private:
  void squares_of(const T* const* x, std::size_t count, double* out) const {
    if constexpr (std::is_same_v<T, float>)
      simd().squares_f32(x, count, d_, out);
    else
      simd().squares_f64(x, count, d_, out);
  }

  double distance2(const T* a, const T* b) const {
    double sums[4] = {};  // four independent sums hide the latency of an addition
    for (std::size_t f = 0; f < d_; ++f) {
      const double difference = static_cast<double>(a[f]) - static_cast<double>(b[f]);
      sums[f % 4] += difference * difference;
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  void multiply_blocks(const T* store, std::size_t blocks, const T* const* x, std::size_t count,
                       T* const* out) const {
    if constexpr (std::is_same_v<T, float>)
      simd().products_f32(store, blocks, d_, x, count, out);
    else
      simd().products_f64(store, blocks, d_, x, count, out);
  }

  void multiply(DenseProducts& products, std::size_t from, std::size_t to, std::size_t block, std::size_t blocks) const {
    T* out[kMaxLookahead];
    for (std::size_t q = from; q < to; ++q) out[q - from] = products.dots.data() + q * products.stride + block * kLanes<T>;
    multiply_blocks(blocks_.data() + block * d_ * kLanes<T>, blocks, products.x.data() + from, to - from, out);
  }

  std::size_t used_blocks() const { return (size_ + kLanes<T> - 1) / kLanes<T>; }

  void grow(std::size_t slots) {
    const std::size_t rounded = (slots + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
    blocks_.resize(rounded * d_);
    scale_.resize(rounded, 1.0);
    dots_.resize(rounded);
    sq_.resize(rounded);  // last, because its size is the capacity of the store, and another array may fail to grow
  }

  T* cell(std::size_t slot, std::size_t f) {
    return blocks_.data() + (slot / kLanes<T> * d_ + f) * kLanes<T> + slot % kLanes<T>;
  }
  const T* cell(std::size_t slot, std::size_t f) const { return const_cast<DenseStore*>(this)->cell(slot, f); }

  void write(std::size_t slot, const Instance& x, const Kernel& kernel) {
    const T* values = row_of(*x.rows, x.at);
    if (moves_)
      for (std::size_t f = 0; f < d_; ++f) *cell(slot, f) = values[f] - point_[f];
    else
      for (std::size_t f = 0; f < d_; ++f) *cell(slot, f) = values[f];
    sq_[slot] = static_cast<T>(x.sq);  // no rounding: the sum was computed in T
    scale_[slot] = kernel.scale(x.sq);
  }

  // A learner without a kernel has a DenseStore<double> of width 0, whatever the kind of its rows. This function may then return a null
  // pointer, which is never read.
  const T* row_of(const Rows& rows, std::size_t at) const {
    if constexpr (std::is_same_v<T, float>)
      return rows.dense_f32 + at * d_;
    else
      return rows.dense_f64 + at * d_;
  }

  CountedSize counted_;
  std::size_t d_, size_ = 0;
  bool growing_;
  std::size_t shifted_lookahead_;  // lookahead() once c has moved: smaller, because every shifted instance is a copy in memory
  Vec<T> blocks_;      // the rows minus c, in blocks of lanes
  Vec<T> sq_;          // ‖x − c‖² of each slot; its size is the capacity
  Vec<double> scale_;  // Kernel::scale of each slot
  Vec<T> point_, candidate_;  // c (0 until its first move), and the point that c may move to; empty unless the kernel is Gaussian
  Vec<T> query_, dots_;       // working memory of kernel_row_of_slot(), overwrite() and update_reference()
  double reach2_ = std::numeric_limits<double>::infinity();  // a row is far from c if ‖x − c‖² exceeds this
  std::int64_t streak_ = 0, moves_ = 0;                      // see Reference
};

}  // namespace budgetron
