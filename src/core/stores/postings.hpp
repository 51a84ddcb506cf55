// The lists of postings (slot, value) of an inverted index, as blocks of one memory pool. A block consists of a header, the slots and the
// values, so that a short list takes one or two cache lines. A freed block is reused for a list of the same size class.
// If no block of that class is free and the pool is full, the pool is compacted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "intrinsics.hpp"
#include "memory.hpp"

namespace budgetron {

template <class V>
class Postings {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  // Allocates space for max_postings postings with values of up to `widest` bytes. If max_postings == 0, the pool begins empty and grows
  // only by reserve() and reserve_bytes().
  Postings(Bytes& bytes, std::size_t max_postings, std::size_t widest) : pool_(bytes) {
    clear_free_lists();
    if (max_postings) pool_.resize(bytes_for(max_postings, widest));
  }
  // Takes over the memory of another pool, but not its lists.
  template <class U>
  void take_over(Postings<U>&& other) noexcept {
    pool_.swap(other.pool_);
    end_ = 0;
    clear_free_lists();
  }
  // Bytes that suffice for `max_postings` postings whose values have `size` bytes each. A list has at least two postings, because a single one
  // is stored in the cell of its feature (feature_index.hpp). After `pack`, the worst case is that all lists have three postings: the block of a
  // list then has a header and one unused entry, and takes 56 bytes if a value has 8 bytes, otherwise at most 40. The rest of the pool
  // makes packing rare.
  static constexpr std::size_t bytes_for(std::size_t max_postings, std::size_t size = sizeof(V)) { return max_postings * (size == 8 ? 24 : 16) + 64; }

  // Bytes of a list of n postings after `pack`. One more posting adds at most the bytes of a list of two.
  static constexpr std::size_t packed_bytes(std::size_t n) { return n ? units((n + 1) / 2 * 2) * kUnit : 0; }

  // Whether lists that take `packed` bytes after `pack` fit into the pool.
  bool has_room_for(std::size_t packed) const { return packed <= pool_.size(); }
  // Allocates space for lists that take `packed` bytes after `pack`, and for `more` bytes of new lists. At least half of `packed` stays free
  // in addition, so that packing is rare. If it throws, nothing has changed.
  void reserve(std::size_t packed, std::size_t more) {
    if (packed + packed / 2 + more > pool_.size()) reserve_bytes(2 * packed + more);
  }
  void reserve_bytes(std::size_t bytes) {
    if (bytes > pool_.size()) resize_exactly(pool_, std::max<std::size_t>(4096, bytes));
  }

  std::size_t capacity(std::uint32_t at) const { return header(at)->capacity; }
  std::uint32_t* slots(std::uint32_t at) { return reinterpret_cast<std::uint32_t*>(pool_.data() + at * kUnit + sizeof(Header)); }
  const std::uint32_t* slots(std::uint32_t at) const { return const_cast<Postings*>(this)->slots(at); }
  V* values(std::uint32_t at) { return reinterpret_cast<V*>(slots(at) + capacity(at)); }
  const V* values(std::uint32_t at) const { return const_cast<Postings*>(this)->values(at); }
  void prefetch(std::uint32_t at, std::size_t length) const {
    const unsigned char* block = pool_.data() + at * kUnit;
    budgetron::prefetch(block);
    budgetron::prefetch(block + sizeof(Header) + length * sizeof(std::uint32_t));
  }

  // Returns a block for at least `wanted` ≥ 2 postings of a feature. Returns kNone if there is no space unless `pack` is called.
  std::uint32_t allocate_block(std::int32_t feature, std::size_t wanted) {
    const int size_class = class_above(wanted);
    std::uint32_t at = free_[size_class];
    if (at != kNone) {
      free_[size_class] = *slots(at);
    } else {
      at = append_block(std::size_t{2} << size_class);
      if (at == kNone) return kNone;
    }
    header(at)->feature = feature;
    return at;
  }

  void free_block(std::uint32_t at) {
    const int size_class = class_below(capacity(at));
    header(at)->feature = kFree;
    *slots(at) = free_[size_class];
    free_[size_class] = at;
  }

  // Compacts the pool: trims every block to its list and moves the blocks together. Returns a block with the list of the feature `wanted`, which
  // was at `own`, and space for another posting. If `own` is kNone, the feature had no list, and the block is empty with space for two.
  // length_of(feature) returns the length of a list, or 0 if there is none. moved(feature, at) is called with the new position of each list.
  // There must be space, see has_room_for().
  template <class LengthOf, class Moved>
  std::uint32_t pack(std::int32_t wanted, std::uint32_t own, LengthOf length_of, Moved moved) {
    if (own != kNone) {  // move the list to the end of the pool, where it can grow
      unsigned char* block = pool_.data() + own * kUnit;
      std::rotate(block, block + units(capacity(own)) * kUnit, pool_.data() + end_ * kUnit);
    }
    std::size_t to = 0;
    const std::size_t wanted_capacity = (length_of(wanted) + 2) / 2 * 2;
    for (std::size_t from = 0; from < end_;) {
      const Header header_here = *header(static_cast<std::uint32_t>(from));
      const std::size_t next = from + units(header_here.capacity);
      if (header_here.feature != kFree) {
        const std::size_t n = length_of(header_here.feature);
        const auto target = static_cast<std::uint32_t>(to);
        std::memmove(pool_.data() + to * kUnit, pool_.data() + from * kUnit, (next - from) * kUnit);
        const V* old_values = values(target);
        header(target)->capacity = static_cast<std::uint32_t>(header_here.feature == wanted ? wanted_capacity : (n + 1) / 2 * 2);
        std::memmove(values(target), old_values, n * sizeof(V));
        moved(header_here.feature, target);
        to += units(header(target)->capacity);
      }
      from = next;
    }
    end_ = to;
    clear_free_lists();
    if (own != kNone) return static_cast<std::uint32_t>(end_ - units(wanted_capacity));
    const std::uint32_t at = append_block(wanted_capacity);
    header(at)->feature = wanted;
    return at;
  }

 private:
  template <class U>
  friend class Postings;

  static constexpr std::size_t kUnit = 8;  // blocks begin at multiples of this many bytes
  static constexpr std::int32_t kFree = -1;
  static constexpr int kClasses = 32;
  struct Header {
    std::int32_t feature;
    std::uint32_t capacity;  // even, so that values are aligned
  };

  Header* header(std::uint32_t at) { return reinterpret_cast<Header*>(pool_.data() + at * kUnit); }
  const Header* header(std::uint32_t at) const { return const_cast<Postings*>(this)->header(at); }
  static constexpr std::size_t units(std::size_t capacity) {
    return (sizeof(Header) + capacity * (sizeof(std::uint32_t) + sizeof(V)) + kUnit - 1) / kUnit;
  }
  // Blocks of size class c have space for 2 << c postings or more. A request is rounded up to a class; a freed block, which
  // `pack` may have trimmed, is rounded down.
  static int class_below(std::size_t capacity) { return floor_log2(capacity) - 1; }
  static int class_above(std::size_t wanted) { return wanted <= 2 ? 0 : floor_log2(wanted - 1); }

  std::uint32_t append_block(std::size_t capacity) {
    if ((end_ + units(capacity)) * kUnit > pool_.size() || end_ >= kNone) return kNone;
    const std::uint32_t at = static_cast<std::uint32_t>(end_);
    header(at)->capacity = static_cast<std::uint32_t>(capacity);
    end_ += units(capacity);
    return at;
  }
  void clear_free_lists() { std::fill(free_, free_ + kClasses, kNone); }

  std::size_t end_ = 0;  // where the used part of the pool ends, in units of kUnit bytes
  std::uint32_t free_[kClasses];  // free lists: the first free block of each size class; slots()[0] of a free block is the next one
  Vec<unsigned char> pool_;
};

}  // namespace budgetron
