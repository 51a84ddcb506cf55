// Which pairs of features a sparse row has.
//
// Where features are categories, such as the words of an advertisement and the hour, their effects often depend on each other. A belief on
// pairs of features can learn this. A row of n features has n(n-1)/2 pairs, so only short rows have pairs, and only their frequent features
// take part: pairs of rare features would take cells and learn nothing.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "memory.hpp"
#include "rules/budgetron/features/hashing.hpp"
#include "rules/budgetron/parts/cells.hpp"
#include "rules/budgetron/parts/part.hpp"

namespace budgetron {

class Pairs {
 public:
  // Rows with more than `longest` features have no pairs. If it is 0, there is no belief on pairs.
  explicit Pairs(std::size_t longest) : longest_(longest) {}

  bool any() const { return longest_ > 0; }
  // The largest number of pairs of a row.
  static std::size_t most(std::size_t longest) { return longest ? longest * (longest - 1) / 2 : 0; }

  // Calls use(i, j) with the indices of the two entries of each pair. The last entry is the constant, which is in no pair.
  template <class Use>
  void for_each(const Cells& cells, const Vec<TableEntry>& entries, Use use) const {
    const std::size_t n = entries.size() - 1;
    if (n > longest_) return;
    const auto is_frequent = [&](std::size_t k) { return entries[k].cell != Cells::kNone && cells.count(entries[k].cell) == Cells::kMaxCount; };
    for (std::size_t i = 1; i < n; ++i)
      for (std::size_t j = 0; is_frequent(i) && j < i; ++j)
        if (is_frequent(j)) use(i, j);
  }

  // Writes the pairs of a row, with their cells and values.
  void find(const Cells& cells, const Vec<TableEntry>& entries, Vec<PairEntry>& pairs) const {
    pairs.clear();
    for_each(cells, entries, [&](std::size_t i, std::size_t j) {
      const std::uint64_t h = mix64(entries[i].hash + entries[j].hash);  // a sum, because the order of the features does not matter
      cells.prefetch_bucket(h);
      pairs.push_back({h, Cells::kNone, (entries[i].phi[1] > 0) == (entries[j].phi[1] > 0) ? 1.0f : -1.0f});
    });
    const float norm = std::sqrt(static_cast<float>(pairs.size()));
    for (PairEntry& pair : pairs) {
      pair.phi /= norm;
      pair.cell = cells.find(pair.hash);
      if (pair.cell != Cells::kNone) cells.prefetch_numbers(pair.cell);
    }
  }

  // Counts the pairs of a row, and updates their cells. `stale`: since find(), a pair may have lost its cell to a feature of the row.
  static void count(Cells& cells, Vec<PairEntry>& pairs, bool stale) {
    bool evicted = false;
    for (PairEntry& pair : pairs) {
      const Cells::Cell before = stale ? cells.find(pair.hash, pair.cell) : pair.cell;
      pair.cell = cells.count_occurrence([&] { return pair.hash; }, before, evicted);
    }
    for (PairEntry& pair : pairs) pair.cell = evicted ? cells.find(pair.hash, pair.cell) : pair.cell;
  }

 private:
  std::size_t longest_;
};

}  // namespace budgetron
