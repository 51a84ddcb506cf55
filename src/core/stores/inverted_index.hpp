// An inverted index: for each feature, the list of its postings (slot, value), where a slot is the place of a stored row (store.hpp). The inner
// products of a row with all stored rows need only the postings of the row's features. A feature that occurs in many slots has a dense column
// instead of a list.
//
// V is the type of a stored value: the caller's type, or int16 while all stored values are small integers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "stores/feature_index.hpp"
#include "simd/simd.hpp"
#include "stores/postings.hpp"

namespace budgetron {

template <class V>
class InvertedIndex {
 public:
  using Value = V;

  // If max_postings > 0, the constructor allocates space for that many postings with values of up to `widest` bytes, and nothing is
  // allocated later except a limited number of dense columns. If max_postings == 0, the index grows; see reserve().
  InvertedIndex(Bytes& bytes, std::size_t slots, std::size_t max_postings, std::size_t widest, std::uint64_t seed)
      : bytes_(bytes),
        counted_(bytes, sizeof(InvertedIndex)),
        slots_(slots),
        max_postings_(max_postings),
        index_(bytes, max_postings, seed),
        postings_(bytes, max_postings, widest),
        columns_(bytes),
        free_columns_(bytes) {}

  // An empty index, for take_over().
  explicit InvertedIndex(Bytes& bytes) : InvertedIndex(bytes, 0, 0, sizeof(V), 0) {}

  // Takes over the memory of another index, but not its postings.
  template <class U>
  void take_over(InvertedIndex<U>&& other) noexcept {
    slots_ = other.slots_;
    max_postings_ = other.max_postings_;
    reserved_ = other.reserved_;
    index_.take_over(std::move(other.index_));
    postings_.take_over(std::move(other.postings_));
  }

  // Allocates space for `more` postings in lists. If it throws, the stored postings are unchanged.
  void reserve(std::size_t more) {
    if (max_postings_) return;
    index_.reserve(more);
    reserved_ = more * Postings<V>::packed_bytes(2);
    postings_.reserve(packed_, reserved_);
  }

  // The same in preparation for take_over(): an index with values of type U will take over this memory. Space is also allocated for the postings
  // that this index has now, because they will be added to the new index. `postings` is their number.
  template <class U>
  void reserve_to_become(std::size_t postings, std::size_t more) {
    if (max_postings_) return;
    index_.reserve(more);
    reserved_ = more * Postings<U>::packed_bytes(2);
    postings_.reserve_bytes(Postings<U>::bytes_for(postings) + reserved_);
  }

  void add(std::int32_t feature, std::size_t slot, V value) { add(feature, index_.home(feature), slot, value); }
  void add(std::int32_t feature, const FeatureCell* home, std::size_t slot, V value) {
    FeatureCell* cell = index_.find(feature, home);
    if (!cell) {
      index_.add(feature, home)->set_single(slot, value);
      return;
    }
    if (cell->single()) {
      const std::size_t other = cell->at;
      const V other_value = cell->template single_value<V>();
      cell->set_list(block_for(*cell, 2), 0, false);
      append(*cell, other, other_value);
    } else if (!cell->dense() && (cell->length() + 1) * kDenseShare > slots_ && cell->length() >= 16) {
      make_dense(*cell);
    }
    if (cell->dense()) {
      columns_[cell->at].set(slot, value);
      cell->set_length(cell->length() + 1);
      return;
    }
    if (cell->length() == postings_.capacity(cell->at)) cell->at = block_for(*cell, cell->length() + 1);
    append(*cell, slot, value);
  }

  void erase(std::int32_t feature, const FeatureCell* home, std::size_t slot) {
    FeatureCell* cell = index_.find(feature, home);
    if (cell->single()) {
      index_.remove(cell);
      return;
    }
    const std::size_t new_length = cell->length() - 1;
    if (cell->dense()) {
      columns_[cell->at].values[slot] = V{};
      cell->set_length(new_length);
      // A column becomes a list again at half the share at which a list becomes a column. Otherwise a feature near that share would
      // alternate between the two.
      if (new_length <= 1 || new_length * 2 * kDenseShare < slots_) make_sparse(*cell);
      return;
    }
    std::uint32_t* slots = postings_.slots(cell->at);
    V* values = postings_.values(cell->at);
    const std::size_t p = simd().find(slots, new_length, static_cast<std::uint32_t>(slot));  // `new_length` if the slot is the last one
    slots[p] = slots[new_length];
    values[p] = values[new_length];
    cell->set_length(new_length);
    update_packed(new_length + 1, new_length);
    if (new_length == 1) {
      const std::uint32_t block = cell->at;
      cell->set_single(slots[0], values[0]);
      postings_.free_block(block);
      update_packed(1, 0);
    }
  }

  // The row in slot `from` moves to slot `to`, which must be free.
  void move(std::int32_t feature, std::size_t from, std::size_t to) {
    FeatureCell* cell = index_.find(feature);
    if (cell->single()) {
      cell->at = static_cast<std::uint32_t>(to);
    } else if (cell->dense()) {
      Vec<V>& values = columns_[cell->at].values;
      values[to] = values[from];
      values[from] = V{};
    } else {
      std::uint32_t* slots = postings_.slots(cell->at);
      slots[simd().find(slots, cell->length(), static_cast<std::uint32_t>(from))] = static_cast<std::uint32_t>(to);
    }
  }

  V value_at(std::int32_t feature, std::size_t slot) const {
    const FeatureCell* cell = index_.find(feature);
    if (cell->single()) return cell->template single_value<V>();
    if (cell->dense()) return columns_[cell->at].values[slot];
    return postings_.values(cell->at)[simd().find(postings_.slots(cell->at), cell->length(), static_cast<std::uint32_t>(slot))];
  }

  // Calls use(i, home) for each of n features in order; `use` calls add() or erase(). Prefetches the memory that they read: the cell of a
  // feature 12 steps in advance, and its postings 6 steps in advance.
  template <class Use>
  void for_each(const std::int32_t* features, std::size_t n, Use use) const {
    const FeatureCell* homes[kRing];
    for (std::size_t i = 0; i < n + 2 * kPrefetchDistance; ++i) {
      if (i < n) homes[i % kRing] = index_.prefetch(features[i]);
      if (i >= kPrefetchDistance && i - kPrefetchDistance < n) {
        const FeatureCell* cell = index_.find(features[i - kPrefetchDistance], homes[(i - kPrefetchDistance) % kRing]);
        if (cell && !cell->single() && !cell->dense()) postings_.prefetch(cell->at, cell->length());
      }
      if (i >= 2 * kPrefetchDistance) use(i - 2 * kPrefetchDistance, homes[(i - 2 * kPrefetchDistance) % kRing]);
    }
  }

  // sums_j += Σ_f x_f · value of f in slot j, for j < size. Features are added in order, so the sums do not depend on which
  // features have lists and which have columns.
  template <class X>
  void products(const std::int32_t* features, const X* x, std::size_t n, std::size_t size, double* sums) const {
    Run<V> runs[kGroup];
    in_groups(features, n, [&](const FeatureCell* const* cells, std::size_t from, std::size_t count) {
      std::size_t filled = 0;
      for (std::size_t i = 0; i < count; ++i)
        if (cells[i]) run_of(*cells[i], static_cast<double>(x[from + i]), size, runs[filled++]);
      if constexpr (std::is_same_v<V, double>)
        simd().scatter_f64(runs, filled, sums);
      else if constexpr (std::is_same_v<V, float>)
        simd().scatter_f32(runs, filled, sums);
      else
        simd().scatter_i16(runs, filled, sums);
    });
  }

  // Like products(), but overwrites `sums`, and accepts only integers that are small enough for int32 sums (see SparseStore::kLargestSum).
  // `temporary` is working memory for `size` integers. Integer sums are exact, so the order of the features does not matter. Dense columns are
  // therefore collected, and added in 16-bit lanes as long as their sums cannot exceed 16 bits.
  template <class X>
  void integer_products(const std::int32_t* features, const X* x, std::size_t n, std::size_t size, std::int32_t* temporary,
                      double* sums) const {
    static_assert(std::is_same_v<V, std::int16_t>);
    std::fill(temporary, temporary + size, 0);
    IntegerRun runs[kGroup], columns[kGroup];
    std::size_t dense = 0;
    std::int64_t total_bound = 0;
    in_groups(features, n, [&](const FeatureCell* const* cells, std::size_t from, std::size_t count) {
      std::size_t filled = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const FeatureCell* cell = cells[i];
        if (!cell) continue;
        const auto value = static_cast<std::int32_t>(x[from + i]);
        if (cell->single()) {
          temporary[cell->at] += value * cell->template single_value<V>();
        } else if (cell->dense()) {
          const Column& column = columns_[cell->at];
          const std::int64_t bound = std::int64_t{std::abs(value)} * column.largest;
          const IntegerRun run{nullptr, column.values.data(), size, value};
          if (bound > kLargestInt16) {  // its products alone may exceed 16 bits: add it in 32 bits
            runs[filled++] = run;
            continue;
          }
          if (dense == kGroup || total_bound + bound > kLargestInt16) {
            simd().columns_integers(columns, dense, size, temporary);
            dense = 0;
            total_bound = 0;
          }
          columns[dense++] = run;
          total_bound += bound;
        } else {
          runs[filled++] = {postings_.slots(cell->at), postings_.values(cell->at), cell->length(), value};
        }
      }
      simd().scatter_integers(runs, filled, temporary);
    });
    simd().columns_integers(columns, dense, size, temporary);
    simd().to_doubles(temporary, size, sums);
  }

  // Allocates first: if it throws, nothing has changed.
  void grow(std::size_t slots) {
    for (auto& column : columns_) column.values.reserve(slots);
    for (auto& column : columns_) column.values.resize(slots);
    slots_ = slots;
  }

 private:
  template <class U>
  friend class InvertedIndex;

  // A list of at least 16 postings becomes a column when more than 1/kDenseShare of the slots have the feature. For int16 values a column is
  // faster at a smaller share already, because more values fit into a register.
  static constexpr std::size_t kDenseShare = sizeof(V) == 2 ? 8 : 4;
  static constexpr std::size_t kGroup = 32, kPrefetchDistance = 6, kRing = 16;  // kRing > 2 · kPrefetchDistance
  static constexpr std::int64_t kLargestInt16 = std::numeric_limits<std::int16_t>::max();

  struct Column {
    Column(Bytes& bytes, std::size_t slots) : values(bytes, slots) {}
    Vec<V> values;
    std::int32_t largest = 0;  // int16 values: an upper bound of |value|, not lowered by `erase`
    void set(std::size_t slot, V value) {
      values[slot] = value;
      if constexpr (std::is_integral_v<V>) largest = std::max(largest, std::abs(std::int32_t{value}));
    }
  };

  // Calls use(cells, from, count) for groups of features, after prefetching their postings. A feature without postings has a null
  // cell.
  template <class Use>
  void in_groups(const std::int32_t* features, std::size_t n, Use use) const {
    // While one group is looked up, the cells of the next group are prefetched. Each feature is hashed only once: cells[] first holds the cell
    // where its search begins, and then the cell that the search has found.
    const FeatureCell* groups[2][kGroup];
    const auto prefetch_group = [&](std::size_t from, const FeatureCell** cells) {
      for (std::size_t i = from; i < std::min(n, from + kGroup); ++i) cells[i - from] = index_.prefetch(features[i]);
    };
    prefetch_group(0, groups[0]);
    for (std::size_t from = 0; from < n; from += kGroup) {
      const std::size_t count = std::min(kGroup, n - from);
      const FeatureCell** cells = groups[from / kGroup % 2];
      prefetch_group(from + kGroup, groups[(from / kGroup + 1) % 2]);
      for (std::size_t i = 0; i < count; ++i) {
        cells[i] = index_.find(features[from + i], cells[i]);
        if (cells[i] && !cells[i]->single() && !cells[i]->dense()) postings_.prefetch(cells[i]->at, cells[i]->length());
      }
      use(cells, from, count);
    }
  }

  void run_of(const FeatureCell& cell, double x, std::size_t size, Run<V>& run) const {
    run.x = x;
    if (cell.single()) {
      run.own_slot = cell.at;
      run.own_value = cell.template single_value<V>();
      run.slots = &run.own_slot;
      run.values = &run.own_value;
      run.length = 1;
    } else if (cell.dense()) {
      run.slots = nullptr;
      run.values = columns_[cell.at].values.data();
      run.length = size;
    } else {
      run.slots = postings_.slots(cell.at);
      run.values = postings_.values(cell.at);
      run.length = cell.length();
    }
  }

  void append(FeatureCell& cell, std::size_t slot, V value) {
    postings_.slots(cell.at)[cell.length()] = static_cast<std::uint32_t>(slot);
    postings_.values(cell.at)[cell.length()] = value;
    cell.set_length(cell.length() + 1);
    update_packed(cell.length() - 1, cell.length());
  }

  // Returns a block with space for `wanted` postings, and moves the list of the cell there if it has one.
  std::uint32_t block_for(const FeatureCell& cell, std::size_t wanted) {
    const std::int32_t feature = cell.feature();
    const std::uint32_t at = postings_.allocate_block(feature, wanted);
    if (at == Postings<V>::kNone) {
      const auto length_of = [&](std::int32_t f) -> std::size_t {
        const FeatureCell* list_cell = index_.find(f);
        return list_cell->single() ? 0 : list_cell->length();
      };
      return postings_.pack(feature, cell.single() ? Postings<V>::kNone : cell.at, length_of,
                            [&](std::int32_t f, std::uint32_t to) { index_.find(f)->at = to; });
    }
    if (cell.single()) return at;
    std::copy_n(postings_.slots(cell.at), cell.length(), postings_.slots(at));
    std::copy_n(postings_.values(cell.at), cell.length(), postings_.values(at));
    postings_.free_block(cell.at);
    return at;
  }

  // Updates packed_ after a list has changed its length.
  void update_packed(std::size_t from, std::size_t to) { packed_ += Postings<V>::packed_bytes(to) - Postings<V>::packed_bytes(from); }

  // In an index of fixed size, all columns together may have at most max_postings_ / 8 values.
  std::size_t max_columns() const {
    return max_postings_ ? max_postings_ / (8 * std::max<std::size_t>(slots_, 1)) : std::numeric_limits<std::uint32_t>::max();
  }

  // Converts a list to a column. If no column is available, it stays a list.
  void make_dense(FeatureCell& cell) {
    std::uint32_t column;
    if (!free_columns_.empty()) {
      column = free_columns_.back();
      free_columns_.pop_back();
      std::fill(columns_[column].values.begin(), columns_[column].values.end(), V{});
      columns_[column].largest = 0;
    } else if (columns_.size() < max_columns()) {
      column = static_cast<std::uint32_t>(columns_.size());
      try {
        free_columns_.reserve(columns_.size() + 1);  // so that make_sparse() need not allocate
        columns_.emplace_back(bytes_, slots_);
      } catch (const std::bad_alloc&) {
        return;  // slower, but correct
      }
    } else {
      return;
    }
    const std::uint32_t* slots = postings_.slots(cell.at);
    const V* values = postings_.values(cell.at);
    for (std::size_t i = 0; i < cell.length(); ++i) columns_[column].set(slots[i], values[i]);
    postings_.free_block(cell.at);
    update_packed(cell.length(), 0);
    cell.set_list(column, cell.length(), true);
  }

  // Converts a column to a list. If there is no space for the list, it stays a column.
  void make_sparse(FeatureCell& cell) {
    const std::uint32_t column = cell.at;
    const std::size_t length = cell.length();
    // The space that reserve() has set aside for the rows of this call must remain.
    if (!max_postings_ && !postings_.has_room_for(packed_ + Postings<V>::packed_bytes(length) + reserved_)) return;
    const std::uint32_t block = length > 1 ? postings_.allocate_block(cell.feature(), length) : Postings<V>::kNone;
    if (length > 1 && block == Postings<V>::kNone) return;
    if (length) cell.set_list(block, 0, false);
    for (std::size_t s = 0; s < slots_ && length; ++s) {
      const V value = columns_[column].values[s];
      if (value == V{}) continue;
      if (length == 1)
        cell.set_single(s, value);
      else
        append(cell, s, value);
    }
    free_columns_.push_back(column);
    if (!length) index_.remove(&cell);
  }

  Bytes& bytes_;
  CountedSize counted_;
  std::size_t slots_, max_postings_;
  FeatureIndex index_;
  Postings<V> postings_;
  std::size_t packed_ = 0;   // bytes that all lists would take after Postings::pack
  std::size_t reserved_ = 0;  // bytes that reserve() has set aside for the rows of the current call
  Vec<Column> columns_;
  Vec<std::uint32_t> free_columns_;
};

}  // namespace budgetron
