// The rows of weights of tasks and clusters, and which of them an example uses.
//
// On an explicit graph, an example of task i uses the row of task i and the rows of the tasks in row i of R. R is a sparse factor of A⁻¹, where A is
// the interaction matrix of the tasks (R Rᵀ ≈ A⁻¹ up to a constant factor). With clusters, an example uses the common row of its cluster and the row
// of its task. Otherwise it uses only the row of its task.
//
// A row holds the numbers that each part stores for a task, one part after the other. A task without a row has the prior of every part, except in
// a part that has a short row for it (short_rows.hpp).
//
// If the limit of rows is reached, rows that were updated often are kept, because they have learned most. A row counts its updates, up to 15. When a
// task needs a row, the count of the least recently updated row decides. If it is 0, that row is evicted and the task gets a row. Otherwise the count
// falls by 1, the row moves to the end of the queue, and the task gets no row this time: what it learns from the example is lost, except for shared
// weights, hashed own weights and short rows. With slightly more tasks than rows, evicting the least recently updated row each time would lose the
// weights of all tasks again and again.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>

#include "learner/learner.hpp"
#include "memory.hpp"
#include "rules/budgetron/parts/part.hpp"
#include "stores/row_table.hpp"

namespace budgetron {

using Parts = Vec<std::unique_ptr<Part>>;

class TaskRows {
 public:
  static constexpr std::uint32_t kMaxCount = 15;
  static constexpr std::size_t kRowOverhead = 112;  // bytes of a row in addition to its numbers: headers and its entry in the hash table

  TaskRows(Bytes& bytes, const Config& config)
      : factor_(dynamic_cast<const Factored*>(config.similarity.get())),
        clustered_(config.parameters.flag("clustered", false)),
        cluster_share_(config.parameters.real("cluster_share", 0.5)),
        may_grow_(config.parameters.flag("rows_may_grow", false)),
        rows_(bytes, 0, config.parameters.count("max_task_rows", 0), config.hash_seed) {}

  std::size_t width() const { return width_; }
  std::size_t row_bytes() const { return width_ * sizeof(double) + kRowOverhead; }
  bool limited() const { return rows_.limited(); }
  std::size_t size() const { return rows_.size(); }
  std::size_t max_related() const { return factor_ ? factor_->longest_row() : clustered_ ? 2 : 1; }

  // Sets where the numbers of each part begin in a row.
  void lay_out(const Parts& parts) {
    set_row_offsets(parts);
    rows_.widen(width_);
  }

  // Removes the numbers of a part from every row. Returns the bytes that this frees in the plan, which has reserved them for as many rows as the
  // limit allows; 0 if spare bytes may not become rows.
  std::size_t drop_part(const Parts& remaining, std::size_t at, std::size_t width) noexcept {
    const std::size_t old_width = width_;
    set_row_offsets(remaining);
    if (width == 0) return 0;
    rows_.narrow(width_, [&](double* row) { std::copy(row + at + width, row + old_width, row + at); });
    return may_grow_ ? rows_.limit() * width * sizeof(double) : 0;
  }

  bool wants_more() const { return may_grow_ && width_ && rows_.at_limit(); }

  // Uses spare bytes for more rows, if all rows are in use; returns the bytes that remain. The new rows are allocated here, because
  // reserve() has allocated no more than the old limit for the examples of the current block.
  std::size_t take(std::size_t spare) {
    if (!wants_more()) return spare;
    const std::size_t more = spare / row_bytes();
    rows_.raise_limit(more);
    return spare - more * row_bytes();
  }

  // Finds the coefficients and ids of the tasks whose own weights this task uses. The squares of the two coefficients with clusters add up to
  // 1, so that a task has the same prior variance as without clusters. A task that is in no cluster has its own id as the number of its
  // cluster. It has own weights only, because the weights of the cluster would be at the same hashes.
  void find_related(Task task, Related* out, std::size_t& n) const {
    n = 0;
    if (factor_) {
      const auto id = static_cast<std::size_t>(task.id);
      for (auto k = static_cast<std::size_t>(factor_->starts[id]); k < static_cast<std::size_t>(factor_->starts[id + 1]); ++k)
        out[n++] = {factor_->values[k], factor_->tasks[k], nullptr, factor_->tasks[k] == task.id};
      return;
    }
    const bool has_cluster = clustered_ && task.cluster != task.id;
    if (has_cluster) out[n++] = {std::sqrt(cluster_share_), task.cluster, nullptr, false};
    out[n++] = {has_cluster ? std::sqrt(1.0 - cluster_share_) : 1.0, task.id, nullptr, true};
  }

  // Finds the rows of an example. For rows that do not exist yet, it writes what the parts know of the task to `priors`. Scoring only reads the
  // rows, but learning writes to them through the same pointers. That is why const is cast away here.
  void find(Task task, const Parts& parts, Related* related, double* priors, Seen& seen) const {
    if (width_ == 0) return;
    std::size_t missing = 0;
    const auto row_of = [&](RowTable::Name name) {
      const auto at = rows_.find(name);
      if (at != RowTable::kNone) return const_cast<double*>(rows_.values(at));
      double* row = priors + missing++ * width_;
      for (const auto& part : parts) part->begin_row(row, name.id);
      return row;
    };
    seen.mine = nullptr;
    for (std::size_t j = 0; j < seen.n_related; ++j) {
      related[j].row = row_of(name_of(j, seen));
      if (related[j].id == task.id && !name_of(j, seen).common) seen.mine = related[j].row;
    }
    if (!seen.mine) seen.mine = row_of({task.id, false});
  }

  // Called before learning, after find(). Stores the rows that do not exist yet, if it can, and marks all rows of the example as updated. Existing
  // rows are marked first, so that a new row of this example evicts none of them.
  void add_missing(Task task, const Parts& parts, Related* related, Seen& seen, std::int64_t now) {
    if (width_ == 0) return;
    for_each_row(task, related, seen, [&](RowTable::Name name, double*) {
      const auto at = rows_.find(name);
      if (at == RowTable::kNone) return;
      rows_.touch(at, now);
      rows_.row(at).count = std::min(rows_.row(at).count + 1, kMaxCount);
    });
    for_each_row(task, related, seen, [&](RowTable::Name name, double*& row) {
      if (rows_.find(name) != RowTable::kNone) return;
      if (rows_.at_limit()) {
        const auto oldest = rows_.oldest();
        if (rows_.row(oldest).count > 0) {
          --rows_.row(oldest).count;
          rows_.touch(oldest, now);
          return;
        }
        for (const auto& part : parts) part->end_row(rows_.values(oldest), rows_.row(oldest).name.id);
        rows_.drop(oldest);
      }
      const auto at = rows_.add(name, 0);
      std::copy_n(row, width_, rows_.values(at));
      if (seen.mine == row) seen.mine = rows_.values(at);
      row = rows_.values(at);
      rows_.touch(at, now);
      rows_.row(at).count = 1;
    });
  }

  // Called after learning. Rows in `priors` are not stored; a part may keep what it has learned in a short row.
  void end_missing(Task task, const Parts& parts, Related* related, const Vec<double>& priors, Seen& seen) {
    if (width_ == 0) return;
    for_each_row(task, related, seen, [&](RowTable::Name name, double* row) {
      if (!std::less<>()(row, priors.data()) && std::less<>()(row, priors.data() + priors.size()))
        for (const auto& part : parts) part->end_row(row, name.id);
    });
  }

  // The largest number of rows that learning these examples can add.
  std::size_t count_missing(std::size_t from, std::size_t to, const std::int64_t* ids, const std::int64_t* clusters) const {
    if (width_ == 0) return 0;
    Bytes temporary;
    Vec<std::int64_t> absent(temporary), absent_clusters(temporary);
    Vec<Related> related(temporary, max_related());
    for (std::size_t i = from; i < to; ++i) {
      std::size_t n = 0;
      find_related({ids[i], clusters[i]}, related.data(), n);
      for (std::size_t j = 0; j < n; ++j) {
        const bool common = clustered_ && !related[j].own;
        if (rows_.find({related[j].id, common}) == RowTable::kNone) (common ? absent_clusters : absent).push_back(related[j].id);
      }
      if (rows_.find({ids[i], false}) == RowTable::kNone) absent.push_back(ids[i]);
    }
    return count_distinct(absent) + count_distinct(absent_clusters);
  }

  void reserve(std::size_t more) { rows_.reserve(more); }
  void end_reserve() noexcept { rows_.end_reserve(); }
  void forget(std::int64_t id) {
    const auto row = rows_.find({id, false});
    if (row != RowTable::kNone) rows_.drop(row);
    rows_.end_reserve();
  }

  // Saves the rows in the order of the queue, oldest first.
  void save(State& state) const {
    state.integers["row_limit"] = {static_cast<std::int64_t>(rows_.limit())};
    auto& ids = state.integers["row_id"];
    auto& common = state.integers["row_common"];
    auto& counts = state.integers["row_count"];
    auto& values = state.reals["row_values"];
    for (auto at = rows_.oldest(); at != RowTable::kNone; at = rows_.newer(at)) {
      ids.push_back(rows_.row(at).name.id);
      common.push_back(rows_.row(at).name.common);
      counts.push_back(rows_.row(at).count);
      values.insert(values.end(), rows_.values(at), rows_.values(at) + width_);
    }
  }

  void load(const State& state, std::int64_t now) {
    const auto require = [](bool condition) {
      if (!condition) throw std::invalid_argument("saved model: the rows of its tasks are inconsistent");
    };
    const auto& ids = state.integers.at("row_id");
    const auto& common = state.integers.at("row_common");
    const auto& counts = state.integers.at("row_count");
    const auto& values = state.reals.at("row_values");
    const std::int64_t limit = state.integers.at("row_limit").at(0);
    require(common.size() == ids.size() && counts.size() == ids.size() && values.size() == ids.size() * width_ && limit >= 0);
    const auto new_limit = static_cast<std::size_t>(limit);
    if (may_grow_ && new_limit > rows_.limit()) rows_.raise_limit(new_limit - rows_.limit());
    rows_.reserve(ids.size());
    for (std::size_t k = 0; k < ids.size(); ++k) {
      require(!rows_.at_limit() && rows_.find({ids[k], common[k] != 0}) == RowTable::kNone);
      const auto at = rows_.add({ids[k], common[k] != 0}, 0);
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(k * width_), width_, rows_.values(at));
      rows_.touch(at, now);
      require(counts[k] >= 0 && counts[k] <= kMaxCount);
      rows_.row(at).count = static_cast<std::uint32_t>(counts[k]);
    }
  }

 private:
  void set_row_offsets(const Parts& parts) noexcept {
    width_ = 0;
    for (const auto& part : parts) {
      part->row_offset = width_;
      width_ += part->row_width();
    }
  }
  // Calls `use` with the name and the row of every task, and of the cluster, whose row an example uses.
  template <class Use>
  void for_each_row(Task task, Related* related, Seen& seen, Use use) const {
    bool mine = false;
    for (std::size_t j = 0; j < seen.n_related; ++j) {
      const RowTable::Name name = name_of(j, seen);
      mine |= name.id == task.id && !name.common;
      use(name, related[j].row);
    }
    if (!mine) use(RowTable::Name{task.id, false}, seen.mine);
  }
  RowTable::Name name_of(std::size_t related, const Seen& e) const { return {e.related[related].id, clustered_ && !e.related[related].own}; }

  const Factored* factor_;  // R; null unless the graph is explicit
  const bool clustered_;
  const double cluster_share_;  // the share of the variance of own weights that the tasks of a cluster have in common
  const bool may_grow_;         // whether spare bytes may become rows
  RowTable rows_;
  std::size_t width_ = 0;
};

}  // namespace budgetron
