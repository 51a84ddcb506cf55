// Sparse rows as an inverted index: for each live feature its postings (slot, value), so that a new row costs
// the postings it touches, not all that is stored. Features that a quarter of the slots share are kept as dense
// columns instead. Only live features have a header.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "hot.hpp"
#include "kernel.hpp"
#include "store.hpp"

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
        lists_(bytes),
        index_(bytes),
        posting_slot_(bytes),
        posting_value_(bytes),
        row_features_(bytes),
        row_begin_(bytes, capacity),
        row_length_(bytes, capacity),
        columns_(bytes),
        free_columns_(bytes),
        sq_(bytes, capacity),
        scale_(bytes, capacity, 1.0) {
    if (pool_) {
      posting_slot_.resize(pool_ + pool_ / 3 + 1);
      posting_value_.resize(pool_ + pool_ / 3 + 1);
      row_features_.resize(pool_ + pool_ / 8 + 1);
      lists_.reserve(pool_);
      std::size_t buckets = 16;
      while (buckets * 2 < pool_ * 3) buckets *= 2;
      index_.assign(buckets, kNone);
    } else {
      index_.assign(64, kNone);
    }
  }

  std::size_t size() const override { return size_; }

  double square(const Rows& rows, std::size_t at) const override {
    const auto begin = static_cast<std::size_t>(rows.indptr[at]), end = static_cast<std::size_t>(rows.indptr[at + 1]);
    if constexpr (std::is_same_v<T, float>)
      return hot().sparse_square_f32(rows.data_f32 + begin, end - begin);
    else
      return hot().sparse_square_f64(rows.data_f64 + begin, end - begin);
  }

  struct SparseProducts final : Products {
    explicit SparseProducts(Bytes& bytes) : sums(bytes) {}
    Vec<double> sums;
  };
  std::unique_ptr<Products> new_products(Bytes& bytes) const override {
    auto products = std::make_unique<SparseProducts>(bytes);
    products->sums.assign(capacity_, 0.0);
    return products;
  }

  std::size_t lookahead() const override { return 1; }

  void compute(const Rows& rows, std::size_t first, std::size_t, Products& out) const override {
    auto& sums = static_cast<SparseProducts&>(out).sums;
    if (sums.size() < capacity_) sums.resize(capacity_);
    const auto begin = static_cast<std::size_t>(rows.indptr[first]);
    const auto end = static_cast<std::size_t>(rows.indptr[first + 1]);
    add_products(rows.indices + begin, data_of(rows) + begin, end - begin, sums.data());
  }

  void refresh(const Rows&, std::size_t, std::size_t, std::size_t, const std::vector<std::size_t>&,
               Products&) const override {}  // one instance at a time: nothing was computed ahead

  void kernel_row(const Kernel& kernel, const Products& products, std::size_t, double sq,
                  double* row) const override {
    kernel.row(static_cast<const SparseProducts&>(products).sums.data(), sq_.data(), scale_.data(), sq, size_, row);
  }

  void kernel_row_of_slot(const Kernel& kernel, std::size_t slot, double* row) const override {
    const std::size_t n = row_length_[slot];
    std::vector<std::int32_t> features(row_features_.begin() + static_cast<std::ptrdiff_t>(row_begin_[slot]),
                                       row_features_.begin() + static_cast<std::ptrdiff_t>(row_begin_[slot] + n));
    std::vector<T> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = value_at(features[i], slot);
    std::vector<double> sums(capacity_);
    add_products(features.data(), values.data(), n, sums.data());
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
    for (std::size_t i = 0; i < row_length_[last]; ++i) {
      List& list = lists_[index_[bucket_of(row_features_[row_begin_[last] + i])]];
      if (list.dense()) {
        columns_[list.begin][slot] = columns_[list.begin][last];
        columns_[list.begin][last] = T{};
      } else {
        posting_slot_[find_posting(list, last)] = static_cast<std::uint32_t>(slot);
      }
    }
    row_begin_[slot] = row_begin_[last];
    row_length_[slot] = row_length_[last];
    sq_[slot] = sq_[last];
    scale_[slot] = scale_[last];
  }

  void release() override {
    while (size_) remove(size_ - 1);
    free_all(lists_, posting_slot_, posting_value_, row_features_, row_begin_, row_length_, columns_, free_columns_, sq_, scale_);
    posting_end_ = row_end_ = 0;
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
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  // The postings of one live feature: [begin, begin + length) of the pool, room for `capacity`;
  // or, with capacity == kNone, the dense column number `begin`.
  struct List {
    std::int32_t feature;
    std::uint32_t begin, length, capacity;
    bool dense() const { return capacity == kNone; }
  };

  static const T* data_of(const Rows& rows) {
    if constexpr (std::is_same_v<T, float>)
      return rows.data_f32;
    else
      return rows.data_f64;
  }
  static std::size_t length_of(const Instance& x) {
    return static_cast<std::size_t>(x.rows->indptr[x.at + 1] - x.rows->indptr[x.at]);
  }
  static const std::int32_t* indices_of(const Instance& x) { return x.rows->indices + x.rows->indptr[x.at]; }

  void add_products(const std::int32_t* features, const T* values, std::size_t n, double* sums) const {
    std::fill(sums, sums + size_, 0.0);
    constexpr std::size_t kGroup = 32;  // look up a group of features first, so that their postings are on the way
    const List* found[kGroup];
    for (std::size_t from = 0; from < n; from += kGroup) {
      const std::size_t count = std::min(kGroup, n - from);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t at = index_[bucket_of(features[from + i])];
        found[i] = at == kNone ? nullptr : &lists_[at];
        if (found[i] && !found[i]->dense()) {
          __builtin_prefetch(&posting_slot_[found[i]->begin]);
          __builtin_prefetch(&posting_value_[found[i]->begin]);
        }
      }
      for (std::size_t i = 0; i < count; ++i) {
        if (!found[i]) continue;
        const double x = static_cast<double>(values[from + i]);
        if constexpr (std::is_same_v<T, float>) {
          if (found[i]->dense())
            hot().column_f32(columns_[found[i]->begin].data(), size_, x, sums);
          else
            hot().scatter_f32(&posting_slot_[found[i]->begin], &posting_value_[found[i]->begin], found[i]->length, x,
                              sums);
        } else {
          if (found[i]->dense())
            hot().column_f64(columns_[found[i]->begin].data(), size_, x, sums);
          else
            hot().scatter_f64(&posting_slot_[found[i]->begin], &posting_value_[found[i]->begin], found[i]->length, x,
                              sums);
        }
      }
    }
  }

  // ---- the index: open addressing with linear probing, deletion by shifting back

  std::size_t home_of(std::int32_t feature) const {
    std::uint64_t h = static_cast<std::uint32_t>(feature);
    h *= 0x9E3779B97F4A7C15ull;
    return static_cast<std::size_t>(h >> 32) & (index_.size() - 1);
  }
  std::size_t bucket_of(std::int32_t feature) const {
    std::size_t b = home_of(feature);
    while (index_[b] != kNone && lists_[index_[b]].feature != feature) b = (b + 1) & (index_.size() - 1);
    return b;
  }
  void rebuild_index(std::size_t buckets) {
    index_.assign(buckets, kNone);
    for (std::size_t l = 0; l < lists_.size(); ++l) index_[bucket_of(lists_[l].feature)] = static_cast<std::uint32_t>(l);
  }
  void forget_feature(std::int32_t feature) {
    std::size_t hole = bucket_of(feature);
    const std::uint32_t gone = index_[hole];
    for (std::size_t b = (hole + 1) & (index_.size() - 1); index_[b] != kNone; b = (b + 1) & (index_.size() - 1)) {
      const std::size_t home = home_of(lists_[index_[b]].feature);
      if (((b - home) & (index_.size() - 1)) >= ((b - hole) & (index_.size() - 1))) {
        index_[hole] = index_[b];
        hole = b;
      }
    }
    index_[hole] = kNone;
    const std::uint32_t last = static_cast<std::uint32_t>(lists_.size() - 1);
    if (gone != last) {
      index_[bucket_of(lists_[last].feature)] = gone;
      lists_[gone] = lists_[last];
    }
    lists_.pop_back();
  }

  // ---- rows and postings

  T value_at(std::int32_t feature, std::size_t slot) const {
    const List& list = lists_[index_[bucket_of(feature)]];
    return list.dense() ? columns_[list.begin][slot] : posting_value_[find_posting(list, slot)];
  }
  std::size_t find_posting(const List& list, std::size_t slot) const {
    std::size_t p = list.begin;
    while (posting_slot_[p] != slot) ++p;
    return p;
  }

  void insert(std::size_t slot, const Instance& x, const Kernel& kernel) {
    const std::size_t n = length_of(x);
    const std::int32_t* features = indices_of(x);
    const T* values = data_of(*x.rows) + x.rows->indptr[x.at];
    row_begin_[slot] = room_for_row(n);
    for (std::size_t i = 0; i < n; ++i) {
      if (values[i] == T{}) continue;  // an explicit zero is no entry
      row_features_[row_end_++] = features[i];
      add_posting(features[i], slot, values[i]);
    }
    row_length_[slot] = static_cast<std::uint32_t>(row_end_ - row_begin_[slot]);
    live_ += row_length_[slot];
    sq_[slot] = x.sq;
    scale_[slot] = kernel.scale(x.sq);
  }

  void erase(std::size_t slot) {
    const std::size_t n = row_length_[slot];
    for (std::size_t i = 0; i < n; ++i) {
      const std::int32_t feature = row_features_[row_begin_[slot] + i];
      List& list = lists_[index_[bucket_of(feature)]];
      if (list.dense()) {
        columns_[list.begin][slot] = T{};
      } else {
        const std::size_t p = find_posting(list, slot), last = list.begin + list.length - 1;
        posting_slot_[p] = posting_slot_[last];
        posting_value_[p] = posting_value_[last];
        --in_postings_;
      }
      if (--list.length == 0) {
        if (list.dense()) free_columns_.push_back(list.begin);
        forget_feature(feature);
      } else if (list.dense() && list.length * 8 < capacity_) {
        make_sparse(list);
      }
    }
    live_ -= n;
    row_length_[slot] = 0;
  }

  void add_posting(std::int32_t feature, std::size_t slot, T value) {
    std::size_t bucket = bucket_of(feature);
    if (index_[bucket] == kNone) {
      if (!pool_ && (lists_.size() + 1) * 3 > index_.size() * 2) {
        rebuild_index(index_.size() * 2);
        bucket = bucket_of(feature);
      }
      index_[bucket] = static_cast<std::uint32_t>(lists_.size());
      lists_.push_back({feature, static_cast<std::uint32_t>(posting_end_), 0, 0});
    }
    std::size_t at = index_[bucket];
    if (!lists_[at].dense() && (lists_[at].length + 1) * 4 > capacity_ && lists_[at].length >= 16) make_dense(lists_[at]);
    if (!lists_[at].dense() && lists_[at].length == lists_[at].capacity) at = widen(at);
    List& list = lists_[at];
    if (list.dense()) {
      columns_[list.begin][slot] = value;
    } else {
      posting_slot_[list.begin + list.length] = static_cast<std::uint32_t>(slot);
      posting_value_[list.begin + list.length] = value;
      ++in_postings_;
    }
    ++list.length;
  }

  // Gives the list room for at least one more posting, at the end of the pool; returns its new number.
  std::size_t widen(std::size_t at) {
    const std::int32_t feature = lists_[at].feature;
    const std::size_t wanted = std::max<std::size_t>(1, lists_[at].length * 2);
    if (posting_end_ + wanted > posting_slot_.size()) {
      if (!pool_ && (in_postings_ + wanted) * 2 > posting_slot_.size()) {
        const std::size_t larger = std::max<std::size_t>(256, (in_postings_ + wanted) * 2);
        posting_slot_.resize(larger);
        posting_value_.resize(larger);
      }
      compact_postings(feature);
      return index_[bucket_of(feature)];
    }
    List& list = lists_[at];
    std::copy_n(posting_slot_.begin() + list.begin, list.length, posting_slot_.begin() + static_cast<std::ptrdiff_t>(posting_end_));
    std::copy_n(posting_value_.begin() + list.begin, list.length, posting_value_.begin() + static_cast<std::ptrdiff_t>(posting_end_));
    list.begin = static_cast<std::uint32_t>(posting_end_);
    list.capacity = static_cast<std::uint32_t>(wanted);
    posting_end_ += wanted;
    return at;
  }

  // Moves all postings to the front of the pool, in place, the lists' spare room dropped; `feature` comes last and
  // gets the room of one more. Sorting the headers themselves needs no memory of its own.
  void compact_postings(std::int32_t feature) {
    std::sort(lists_.begin(), lists_.end(), [](const List& a, const List& b) { return a.begin < b.begin; });
    std::size_t end = 0;
    List* wanted = nullptr;
    for (List& list : lists_) {
      if (list.dense()) continue;
      move_postings(list, end);
      list.capacity = list.length;
      end += list.length;
      if (list.feature == feature) wanted = &list;
    }
    if (wanted->begin + wanted->length != end) {  // rotate the wanted list to the end
      const std::size_t begin = wanted->begin, length = wanted->length;
      std::rotate(posting_slot_.begin() + static_cast<std::ptrdiff_t>(begin),
                  posting_slot_.begin() + static_cast<std::ptrdiff_t>(begin + length),
                  posting_slot_.begin() + static_cast<std::ptrdiff_t>(end));
      std::rotate(posting_value_.begin() + static_cast<std::ptrdiff_t>(begin),
                  posting_value_.begin() + static_cast<std::ptrdiff_t>(begin + length),
                  posting_value_.begin() + static_cast<std::ptrdiff_t>(end));
      for (List& list : lists_)
        if (!list.dense() && &list != wanted && list.begin > begin) list.begin -= static_cast<std::uint32_t>(length);
      wanted->begin = static_cast<std::uint32_t>(end - length);
    }
    wanted->capacity = wanted->length + 1;
    posting_end_ = end + 1;
    rebuild_index(index_.size());
  }

  void move_postings(List& list, std::size_t to) {
    std::memmove(posting_slot_.data() + to, posting_slot_.data() + list.begin, list.length * sizeof(std::uint32_t));
    std::memmove(posting_value_.data() + to, posting_value_.data() + list.begin, list.length * sizeof(T));
    list.begin = static_cast<std::uint32_t>(to);
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

  // ---- dense columns

  std::size_t column_limit() const { return pool_ ? pool_ / (8 * std::max<std::size_t>(capacity_, 1)) : kNone - 1; }

  void make_dense(List& list) {
    std::uint32_t column;
    if (!free_columns_.empty()) {
      column = free_columns_.back();
      free_columns_.pop_back();
    } else if (columns_.size() < column_limit()) {
      column = static_cast<std::uint32_t>(columns_.size());
      columns_.emplace_back(bytes_, capacity_);
    } else {
      return;
    }
    std::fill(columns_[column].begin(), columns_[column].end(), T{});
    for (std::size_t i = 0; i < list.length; ++i)
      columns_[column][posting_slot_[list.begin + i]] = posting_value_[list.begin + i];
    in_postings_ -= list.length;
    list.begin = column;
    list.capacity = kNone;
  }

  void make_sparse(List& list) {
    const std::uint32_t column = list.begin;
    if (posting_end_ + list.length > posting_slot_.size()) return;  // no room just now: it stays dense
    const std::size_t begin = posting_end_;
    for (std::size_t s = 0; s < size_; ++s)
      if (columns_[column][s] != T{}) {
        posting_slot_[posting_end_] = static_cast<std::uint32_t>(s);
        posting_value_[posting_end_++] = columns_[column][s];
      }
    list.begin = static_cast<std::uint32_t>(begin);
    list.length = list.capacity = static_cast<std::uint32_t>(posting_end_ - begin);
    in_postings_ += list.length;
    free_columns_.push_back(column);
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
    for (auto& column : columns_) column.resize(capacity_);
  }

  Bytes& bytes_;
  std::size_t capacity_, size_ = 0;
  bool growing_;
  std::size_t pool_;
  Vec<List> lists_;
  Vec<std::uint32_t> index_;
  Vec<std::uint32_t> posting_slot_;
  Vec<T> posting_value_;
  std::size_t posting_end_ = 0, in_postings_ = 0;
  Vec<std::int32_t> row_features_;
  Vec<std::size_t> row_begin_;
  Vec<std::uint32_t> row_length_;
  std::size_t row_end_ = 0, live_ = 0;
  Vec<Vec<T>> columns_;
  Vec<std::uint32_t> free_columns_;
  Vec<double> sq_, scale_;
};

}  // namespace budgetron
