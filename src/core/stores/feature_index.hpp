// FeatureIndex finds the postings of a feature: one pair (slot, value) per stored row that has the feature. It is a hash table with open
// addressing, linear probing and backward-shift deletion. A feature that occurs in a stored row has one cell of 16 bytes, so a lookup usually
// costs one cache miss.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "intrinsics.hpp"
#include "memory.hpp"

namespace budgetron {

// The cell of one feature. A single posting (slot, value) is stored in the cell itself; two or more are in a block (postings.hpp) or a
// dense column (inverted_index.hpp).
class FeatureCell {
 public:
  static constexpr std::uint32_t kEmpty = std::numeric_limits<std::uint32_t>::max();

  std::uint32_t at = 0;  // the slot of the single posting, or the number of the block or column

  bool empty() const { return tag_ == kEmpty; }
  bool single() const { return tag_ & 1; }
  // dense() and length() are undefined for a single posting, whose value is stored in their place.
  bool dense() const { return dense_; }
  std::uint32_t length() const { return length_; }
  void set_length(std::size_t length) { length_ = static_cast<std::uint32_t>(length); }
  std::int32_t feature() const { return static_cast<std::int32_t>(tag_ >> 1); }
  bool is_for(std::int32_t feature) const { return tag_ >> 1 == static_cast<std::uint32_t>(feature) && !empty(); }

  void set_feature(std::int32_t feature) { tag_ = static_cast<std::uint32_t>(feature) << 1; }
  void clear() { tag_ = kEmpty; }

  template <class V>
  void set_single(std::size_t slot, V value) {
    static_assert(sizeof(V) <= 2 * sizeof length_);
    tag_ |= 1;
    at = static_cast<std::uint32_t>(slot);
    std::memcpy(&length_, &value, std::min(sizeof(V), sizeof length_));
    if constexpr (sizeof(V) > sizeof length_)
      std::memcpy(&dense_, reinterpret_cast<const char*>(&value) + sizeof length_, sizeof(V) - sizeof length_);
  }
  template <class V>
  V single_value() const {
    V value;
    std::memcpy(&value, &length_, std::min(sizeof(V), sizeof length_));
    if constexpr (sizeof(V) > sizeof length_)
      std::memcpy(reinterpret_cast<char*>(&value) + sizeof length_, &dense_, sizeof(V) - sizeof length_);
    return value;
  }
  void set_list(std::size_t number, std::size_t length, bool dense) {
    tag_ &= ~std::uint32_t{1};
    at = static_cast<std::uint32_t>(number);
    length_ = static_cast<std::uint32_t>(length);
    dense_ = dense;
  }

 private:
  std::uint32_t tag_ = kEmpty;  // feature · 2, + 1 for a single posting
  std::uint32_t length_ = 0, dense_ = 0;  // for a single posting, these eight bytes hold its value instead
};

class FeatureIndex {
 public:
  // Allocates space for `max_features` features; if that is 0, the table grows as needed. `seed` randomises the hash, so that an adversary
  // cannot easily choose features that collide. It affects only speed.
  FeatureIndex(Bytes& bytes, std::size_t max_features, std::uint64_t seed)
      : bytes_(bytes), growing_(max_features == 0), multiplier_(keyed_hash(0, seed) | 1),
        cells_(bytes, max_features ? max_features + max_features / 4 + 1 : 128) {}

  // The cell where the search for a feature begins. It stays the same until reserve() or take_over().
  const FeatureCell* home(std::int32_t feature) const { return cells_.data() + home_of(feature); }
  // Returns home(), and prefetches it.
  const FeatureCell* prefetch(std::int32_t feature) const {
    const FeatureCell* cell = home(feature);
    budgetron::prefetch(cell);
    return cell;
  }

  const FeatureCell* find(std::int32_t feature) const { return find(feature, home(feature)); }
  const FeatureCell* find(std::int32_t feature, const FeatureCell* cell) const {
    const FeatureCell* const end = cells_.data() + cells_.size();
    while (!cell->is_for(feature)) {
      if (cell->empty()) return nullptr;
      if (++cell == end) cell = cells_.data();
    }
    return cell;
  }
  FeatureCell* find(std::int32_t feature, const FeatureCell* home) {
    return const_cast<FeatureCell*>(static_cast<const FeatureIndex*>(this)->find(feature, home));
  }
  FeatureCell* find(std::int32_t feature) { return find(feature, home(feature)); }

  // The number of cells that `find` reads for a feature that has one; for tests.
  std::size_t probes(std::int32_t feature) const {
    return distance(home_of(feature), static_cast<std::size_t>(find(feature) - cells_.data())) + 1;
  }

  // Allocates space for `more` further features. If it throws, the index is unchanged.
  void reserve(std::size_t more) {
    // At most half of the cells may be in use by the features that are stored now, and at most three quarters if all `more` features are new.
    // Usually few are new.
    const std::size_t size = std::max(2 * count_, (count_ + more) / 3 * 4 + 4);
    if (!growing_ || size <= cells_.size()) return;
    // The table grows by at least a half, so that a cell is moved at most three times on average. With growth by a quarter it would be up to
    // five times, and learning text with a new model was 10 % slower.
    Vec<FeatureCell> old(bytes_, std::max(size, cells_.size() / 2 * 3));
    old.swap(cells_);
    for (const FeatureCell& cell : old)
      if (!cell.empty()) *free_cell(home(cell.feature())) = cell;
  }

  // Takes over the memory of another index, but not its features.
  void take_over(FeatureIndex&& other) noexcept {
    cells_.swap(other.cells_);
    growing_ = other.growing_;
    multiplier_ = other.multiplier_;
    count_ = 0;
    for (FeatureCell& cell : cells_) cell.clear();
  }
  // Adds a cell for a feature that has none; call reserve() first.
  FeatureCell* add(std::int32_t feature, const FeatureCell* home) {
    ++count_;
    FeatureCell* cell = free_cell(home);
    cell->set_feature(feature);
    return cell;
  }

  // Removes a cell. Other cells may move, so pointers to them become invalid.
  void remove(FeatureCell* removed) {
    // Backward shift: a later cell of the same run of used cells moves into the hole, unless its home lies after the hole. The place
    // that it leaves is then the new hole.
    std::size_t hole = static_cast<std::size_t>(removed - cells_.data());
    for (std::size_t b = next(hole); !cells_[b].empty(); b = next(b))
      if (distance(home_of(cells_[b].feature()), b) >= distance(hole, b)) {
        cells_[hole] = cells_[b];
        hole = b;
      }
    cells_[hole].clear();
    --count_;
  }

 private:
  // Half of keyed_hash(): a secret odd factor and one round of mixing. With the factor alone, features in arithmetic progression would have
  // hashes in arithmetic progression. With the full keyed_hash(), computed again for each search, learning text took 28 % longer.
  std::size_t home_of(std::int32_t feature) const {
    std::uint64_t h = static_cast<std::uint32_t>(feature) * multiplier_;
    h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93ull;
    return static_cast<std::size_t>(((h >> 32) * cells_.size()) >> 32);
  }
  std::size_t next(std::size_t b) const { return b + 1 == cells_.size() ? 0 : b + 1; }
  std::size_t distance(std::size_t from, std::size_t to) const { return to >= from ? to - from : to + cells_.size() - from; }
  FeatureCell* free_cell(const FeatureCell* home) {
    std::size_t b = static_cast<std::size_t>(home - cells_.data());
    while (!cells_[b].empty()) b = next(b);
    return &cells_[b];
  }
  Bytes& bytes_;
  bool growing_;
  std::uint64_t multiplier_;  // odd, so that different features have different products
  std::size_t count_ = 0;
  Vec<FeatureCell> cells_;
};

}  // namespace budgetron
