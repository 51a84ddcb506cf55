// A table of cells that are found by a hash. A full table keeps the hashes that occur often.
//
// A hash selects a bucket of eight cells. Within the bucket, a cell is found by its tag, 12 more bits of the hash, so two hashes are confused
// only if bucket and tag agree. A cell also has a count, from 0 to 15. Each occurrence of its hash adds 1. An occurrence of a hash without a
// cell subtracts 1 from the lowest count of its bucket. If that count is 0, the hash takes the cell instead.
//
// A lookup compares all tags of a bucket without branches, because the processor could not predict them: most words of a text are rare.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "intrinsics.hpp"
#include "memory.hpp"

namespace budgetron {

class Cells {
 public:
  using Cell = std::uint32_t;
  static constexpr Cell kNone = static_cast<Cell>(-1);  // for a hash that has no cell
  static constexpr std::size_t kWays = 8;               // cells per bucket
  static constexpr std::uint64_t kTags = 4096, kMaxCount = 15;

  // `stride` is how many numbers a cell has; at first they are 0. `cells` is rounded down to whole buckets, but to at least one.
  Cells(Bytes& bytes, std::size_t cells, std::size_t stride)
      : buckets_(std::max<std::size_t>(cells / kWays, 1)), stride_(stride), numbers_(bytes, buckets_ * kWays * stride), labels_(bytes, buckets_ * kWays / kLanes) {}

  float* numbers(Cell cell) { return numbers_.data() + cell * stride_; }
  const float* numbers(Cell cell) const { return numbers_.data() + cell * stride_; }
  std::uint64_t count(Cell cell) const { return label(cell) & kMaxCount; }

  // The cell of a hash, or kNone.
  Cell find(std::uint64_t h) const {
    const std::size_t bucket = bucket_of(h);
    const std::uint64_t wanted = tag_of(h) * (kMaxCount + 1) * kEachLane;
    // A bucket has at most one cell with the tag. One bit marks its lane: at an even position for the first word, at an odd position for the second.
    const std::uint64_t found = equal_lanes(labels_[2 * bucket], wanted) >> 1 | equal_lanes(labels_[2 * bucket + 1], wanted);
    if (found == 0) return kNone;
    const auto bit = static_cast<std::size_t>(floor_log2(found));
    return static_cast<Cell>(bucket * kWays + bit / kLaneBits + kLanes * (bit & 1));
  }

  // The same, given the cell that the hash had before others may have taken it.
  Cell find(std::uint64_t h, Cell before) const { return before != kNone && label(before) / (kMaxCount + 1) == tag_of(h) ? before : find(h); }

  // Counts an occurrence of a hash. Returns its cell, which may be new, or kNone if it gets none. `before` is the cell of the hash before this row
  // was counted, or kNone. Sets `evicted` if another hash loses its cell. As long as `evicted` is not set, a `before` other than kNone is still the
  // cell; then hash(), which computes the hash, is not called.
  template <class Hash>
  Cell count_occurrence(Hash hash, Cell before, bool& evicted) {
    if (before != kNone && !evicted) {
      add_to_count(before, count(before) < kMaxCount ? 1 : 0);
      return before;
    }
    const std::uint64_t h = hash();
    Cell cell = find(h, before);
    if (cell != kNone) {
      add_to_count(cell, count(cell) < kMaxCount ? 1 : 0);
      return cell;
    }
    cell = lowest(bucket_of(h));
    const std::uint64_t old = label(cell);
    if ((old & kMaxCount) > 0) {
      add_to_count(cell, static_cast<std::uint64_t>(-1));
      return kNone;
    }
    prefetch_numbers(cell);
    if (old != 0) {
      evicted = true;
      std::fill_n(numbers(cell), stride_, 0.0f);
    }
    word(cell) += (tag_of(h) * (kMaxCount + 1) + 1 - old) << shift(cell);
    return cell;
  }

  void prefetch_bucket(std::uint64_t h) const { prefetch(labels_.data() + 2 * bucket_of(h)); }
  void prefetch_numbers(Cell cell) const {  // they may lie in two cache lines
    prefetch(numbers(cell));
    prefetch(numbers(cell) + stride_ - 1);
  }

  std::size_t bytes() const { return numbers_.size() * sizeof(float) + labels_.size() * sizeof(std::uint64_t); }

  void save(std::vector<double>& numbers, std::vector<std::int64_t>& labels) const {
    numbers.assign(numbers_.begin(), numbers_.end());
    labels.resize(buckets_ * kWays);
    for (std::size_t cell = 0; cell < labels.size(); ++cell) labels[cell] = static_cast<std::int64_t>(label(static_cast<Cell>(cell)));
  }
  void load(const std::vector<double>& numbers, const std::vector<std::int64_t>& labels) {
    if (numbers.size() != numbers_.size() || labels.size() != buckets_ * kWays) throw std::invalid_argument("saved model: wrong size of the table");
    std::transform(numbers.begin(), numbers.end(), numbers_.begin(), [](double x) { return static_cast<float>(x); });
    std::fill(labels_.begin(), labels_.end(), std::uint64_t{0});
    for (std::size_t cell = 0; cell < labels.size(); ++cell)
      word(static_cast<Cell>(cell)) |= (static_cast<std::uint64_t>(labels[cell]) & kLaneMask) << shift(static_cast<Cell>(cell));
  }

 private:
  // The label of a cell is tag · 16 + count, in a lane of 16 bits. A word has four lanes, so that four labels are compared at once.
  static constexpr std::size_t kLaneBits = 16, kLanes = 4;
  static constexpr std::uint64_t kLaneMask = 0xFFFF, kEachLane = 0x0001000100010001, kTagBits = 0xFFF0FFF0FFF0FFF0, kTopBits = 0x8000800080008000;

  // `wanted` has one tag, and the count 0, in all lanes. Returns the highest bit of each lane of `labels` that has this tag. After the xor, such a
  // lane is 0 and all others are at least 16. So subtracting 1, and a borrow of at most 1 from the lane below, sets the highest bit of such lanes
  // only.
  static std::uint64_t equal_lanes(std::uint64_t labels, std::uint64_t wanted) {
    const std::uint64_t difference = (labels & kTagBits) ^ wanted;
    return (difference - kEachLane) & ~difference & kTopBits;
  }

  // The first cell of the bucket with the lowest count.
  Cell lowest(std::size_t bucket) const {
    std::uint64_t least = ~std::uint64_t{0};  // the minimum of count · 8 + k over the cells k of the bucket
    for (std::size_t part = 0; part < 2; ++part) {
      const std::uint64_t labels = labels_[2 * bucket + part];
      for (std::size_t lane = 0; lane < kLanes; ++lane) least = std::min(least, (labels >> kLaneBits * lane & kMaxCount) * kWays + (kLanes * part + lane));
    }
    return static_cast<Cell>(bucket * kWays + least % kWays);
  }

  std::size_t bucket_of(std::uint64_t h) const { return static_cast<std::size_t>((h >> 32) * buckets_ >> 32); }
  // At least 1, since cells that were never used have tag 0.
  static std::uint64_t tag_of(std::uint64_t h) { return std::max<std::uint64_t>(h & (kTags - 1), 1); }
  static unsigned shift(Cell cell) { return static_cast<unsigned>(kLaneBits * (cell % kLanes)); }
  std::uint64_t& word(Cell cell) { return labels_[cell / kLanes]; }
  std::uint64_t label(Cell cell) const { return labels_[cell / kLanes] >> shift(cell) & kLaneMask; }
  void add_to_count(Cell cell, std::uint64_t change) { word(cell) += change << shift(cell); }

  std::size_t buckets_, stride_;
  Vec<float> numbers_;
  Vec<std::uint64_t> labels_;
};

}  // namespace budgetron
