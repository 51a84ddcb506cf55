// A table of rows of coefficients: one row per task and, in some rules, one common row per cluster, which the cluster's tasks share.
//
// Rows are found through a hash table of their names (see Name), and are linked in the order of their last update, as touch() records it. When
// the limit of rows is reached, the caller drops a row, usually the least recently updated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "memory.hpp"

namespace budgetron {

// Sorts the ids and returns how many distinct ones there are.
inline std::size_t count_distinct(Vec<std::int64_t>& ids) {
  std::sort(ids.begin(), ids.end());
  return static_cast<std::size_t>(std::unique(ids.begin(), ids.end()) - ids.begin());
}

class RowTable {
 public:
  // A row belongs to a task, or is the common row of a cluster.
  struct Name {
    std::int64_t id;
    bool common;
    bool operator==(const Name& other) const { return id == other.id && common == other.common; }
  };
  struct Row {
    Name name;
    std::int64_t cluster;
    std::int64_t stamp;    // n_seen at the last call of touch(); 0 before
    std::int64_t members;  // common rows: how many task rows the cluster has
    std::uint32_t newer, older;  // the linked list, in the order of the last update
    std::uint32_t current;       // for callers that log changes of all rows: 1 if this row includes the logged changes, otherwise 0
    std::uint32_t count;         // of updates, for callers that keep the rows that are updated most often
  };
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  // `limit` is the largest number of rows; 0: no limit. `seed` randomises the hash of the index, so that an adversary cannot easily choose names
  // that collide. Only speed depends on it.
  RowTable(Bytes& bytes, std::size_t width, std::size_t limit, std::uint64_t seed)
      : bytes_(bytes), width_(width), limit_(limit), seed_(seed), rows_(bytes), values_(bytes), spare_(bytes), index_(bytes, 64, kNone) {}

  std::size_t size() const { return rows_.size(); }
  bool limited() const { return limit_ != 0; }
  std::size_t limit() const { return limit_; }
  bool at_limit() const { return limit_ && rows_.size() >= limit_; }
  Row& row(std::size_t at) { return rows_[at]; }
  const Row& row(std::size_t at) const { return rows_[at]; }
  double* values(std::size_t at) { return values_[at].data(); }
  const double* values(std::size_t at) const { return values_[at].data(); }
  std::uint32_t oldest() const { return oldest_; }
  std::uint32_t newer(std::uint32_t at) const { return rows_[at].newer; }

  std::uint32_t find(Name name) const {
    return index_[bucket_of(name)];
  }

  // The number of buckets that `find` reads; for tests.
  std::size_t probes(Name name) const { return ((bucket_of(name) - home_of(name)) & (index_.size() - 1)) + 1; }

  // Allocates the memory for `more` calls of `add`, so that they cannot fail. Once the table is at its limit, the caller must drop a row before
  // each call. If reserve() throws, the rows are unchanged.
  void reserve(std::size_t more) {
    if (more == 0) return;
    const std::size_t added = limit_ ? std::min(more, limit_ - std::min(limit_, rows_.size())) : more;
    const std::size_t total = rows_.size() + added;
    spare_.reserve(added + 1);  // one more, for the values of a row that `drop` frees
    if (rows_.capacity() < total) rows_.reserve(std::max(total, std::min(2 * rows_.size(), limit_ ? limit_ : total * 2)));
    if (values_.capacity() < total) values_.reserve(rows_.capacity());
    std::size_t buckets = index_.size();
    while (total * 3 > buckets * 2) buckets *= 2;
    if (buckets != index_.size()) rebuild_index(buckets);
    while (spare_.size() < added) spare_.emplace_back(bytes_);
    for (auto& row : spare_) row.reserve(width_);
  }
  // Allows more rows, and reserves them. If it throws, the limit is unchanged.
  void raise_limit(std::size_t more) {
    limit_ += more;
    try {
      reserve(spare_.size() + more);
    } catch (...) {
      limit_ -= more;
      throw;
    }
  }
  // Frees the memory that reserve() allocated and `add` did not use.
  void end_reserve() noexcept { release(spare_); }

  // Adds a row of zeros; call reserve() first.
  std::uint32_t add(Name name, std::int64_t cluster) {
    const auto at = static_cast<std::uint32_t>(rows_.size());
    index_[bucket_of(name)] = at;
    rows_.push_back({name, cluster, 0, 0, kNone, kNone, 0, 0});
    values_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    values_.back().assign(width_, 0.0);
    link(at);
    return at;
  }

  // Marks the row as the most recently updated.
  void touch(std::uint32_t at, std::int64_t stamp) {
    rows_[at].stamp = stamp;
    if (at == newest_) return;
    unlink(at);
    link(at);
  }

  // Removes a row; the last row takes its index. After reserve(), the memory of its values is reused for a row that replaces it.
  void drop(std::uint32_t at) {
    unlink(at);
    erase_bucket(bucket_of(rows_[at].name));
    const auto last = static_cast<std::uint32_t>(rows_.size() - 1);
    if (at != last) {
      index_[bucket_of(rows_[last].name)] = at;
      rows_[at] = rows_[last];
      values_[at].swap(values_[last]);
      (rows_[at].older == kNone ? oldest_ : rows_[rows_[at].older].newer) = at;
      (rows_[at].newer == kNone ? newest_ : rows_[rows_[at].newer].older) = at;
    }
    rows_.pop_back();
    if (spare_.size() < spare_.capacity()) spare_.push_back(std::move(values_.back()));
    values_.pop_back();
  }

  // Makes every row narrower, in place. `narrow` must move the numbers that are kept, `width` of them, to the front of a row.
  template <class Narrow>
  void narrow(std::size_t width, Narrow narrow) noexcept {
    width_ = width;
    for (auto& row : values_) {
      narrow(row.data());
      row.resize(width);
      shrink(row);
    }
    for (auto& row : spare_) {  // otherwise rows that are added later would keep the memory of the old width
      row.resize(width);
      shrink(row);
      row.clear();
    }
  }

  // Makes every row wider. Allocates first: if it throws, the rows are as wide as before.
  void widen(std::size_t width) {
    for (auto& row : values_) row.reserve(width);
    for (auto& row : spare_) row.reserve(width);
    width_ = width;
    for (auto& row : values_) row.resize(width);
  }

 private:
  void link(std::uint32_t at) {
    rows_[at].older = newest_;
    rows_[at].newer = kNone;
    (newest_ == kNone ? oldest_ : rows_[newest_].newer) = at;
    newest_ = at;
  }
  void unlink(std::uint32_t at) {
    const Row& row = rows_[at];
    (row.older == kNone ? oldest_ : rows_[row.older].newer) = row.newer;
    (row.newer == kNone ? newest_ : rows_[row.newer].older) = row.older;
  }

  // The bucket where the search for a name begins.
  std::size_t home_of(Name name) const {
    const std::uint64_t h = keyed_hash(static_cast<std::uint64_t>(name.id) * 2 + name.common, seed_);
    return static_cast<std::size_t>(h >> 16) & (index_.size() - 1);
  }
  // The bucket of a name, or the empty one where the search for it ends.
  std::size_t bucket_of(Name name) const {
    std::size_t b = home_of(name);
    while (index_[b] != kNone && !(rows_[index_[b]].name == name)) b = (b + 1) & (index_.size() - 1);
    return b;
  }
  // Empties a bucket. Moves back those later entries of the same run of full buckets that linear probing would no longer find.
  void erase_bucket(std::size_t hole) {
    const std::size_t mask = index_.size() - 1;
    for (std::size_t b = (hole + 1) & mask; index_[b] != kNone; b = (b + 1) & mask) {
      const std::size_t home = home_of(rows_[index_[b]].name);
      if (((b - home) & mask) >= ((b - hole) & mask)) {
        index_[hole] = index_[b];
        hole = b;
      }
    }
    index_[hole] = kNone;
  }
  void rebuild_index(std::size_t buckets) {
    Vec<std::uint32_t> wider(bytes_, buckets, kNone);
    index_.swap(wider);
    for (std::size_t at = 0; at < rows_.size(); ++at) index_[bucket_of(rows_[at].name)] = static_cast<std::uint32_t>(at);
  }

  Bytes& bytes_;
  std::size_t width_, limit_;
  std::uint64_t seed_;
  Vec<Row> rows_;
  Vec<Vec<double>> values_;
  Vec<Vec<double>> spare_;  // values of future rows, allocated by reserve()
  Vec<std::uint32_t> index_;  // the hash table: open addressing with linear probing; its size is a power of two
  std::uint32_t oldest_ = kNone, newest_ = kNone;
};

}  // namespace budgetron
