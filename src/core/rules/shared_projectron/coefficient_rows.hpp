// The rows of the matrix C of a SharedProjectron (task_coefficients.hpp), and the evictions that most rows do not include yet (EvictionLog).
//
// evict() logs an eviction; when the log is full, it is applied to all rows together. A row that is updated in between is brought up to date
// first. It is then `current`: it includes the logged evictions, and further evictions change it at once.
//
// The last bits of a row depend on when the log was applied to it, so a saved model has the log, and the rows as they are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "rules/shared_projectron/eviction_log.hpp"
#include "stores/row_table.hpp"

namespace budgetron {

class CoefficientRows {
 public:
  CoefficientRows(Bytes& bytes, std::size_t n_outputs, std::size_t capacity, std::size_t max_rows, std::uint64_t seed)
      : table_(bytes, n_outputs * capacity, max_rows, seed), n_outputs_(n_outputs), stride_(capacity), log_(bytes), current_(bytes) {}

  RowTable& table() { return table_; }
  const RowTable& table() const { return table_; }
  std::size_t stride() const { return stride_; }
  double* values(std::size_t at, std::size_t output) { return table_.values(at) + output * stride_; }
  const double* values(std::size_t at, std::size_t output) const { return table_.values(at) + output * stride_; }

  // Space for more slots. If it throws, the rows are unchanged.
  void grow(std::size_t capacity) {
    table_.widen(n_outputs_ * capacity);  // nothing below can fail
    for (std::size_t at = 0; at < table_.size(); ++at)  // from the last output back, so that nothing is overwritten
      for (std::size_t o = n_outputs_; o-- > 1;) {
        double* row = table_.values(at);
        std::copy_backward(row + o * stride_, row + o * stride_ + stride_, row + o * capacity + stride_);
        std::fill(row + o * stride_, row + std::min(o * capacity, o * stride_ + stride_), 0.0);
      }
    stride_ = capacity;
  }

  // Memory for the log, which evict() needs. If it throws, the rows are unchanged.
  void allocate_log() {
    log_.allocate(stride_);
    current_.reserve(kMaxCurrent);
  }

  // Calls use(output, row) with row `at`, brought up to date. `space` has room for n numbers, one output of a row.
  template <class Use>
  void read(std::uint32_t at, std::size_t n, double* space, Use use) const {
    for (std::size_t o = 0; o < n_outputs_; ++o) {
      const double* row = values(at, o);
      if (!is_up_to_date(at)) {
        std::copy_n(row, n, space);
        log_.replay(n, &space, 1);
        row = space;
      }
      use(o, row);
    }
  }

  // Call it before a row is updated.
  void bring_up_to_date(std::uint32_t at, std::size_t n) {
    if (is_up_to_date(at)) return;
    if (current_.size() >= max_current()) return apply_log(n);
    for (std::size_t o = 0; o < n_outputs_; ++o) {
      double* row = values(at, o);
      log_.replay(n, &row, 1);
    }
    set_current(at);
  }

  // C_lj += γ_j C_lr in every row l; slot r gets γ_r C_lr.
  void evict(std::size_t r, const double* gamma, std::size_t n) {
    for (const auto at : current_)
      for (std::size_t o = 0; o < n_outputs_; ++o) evict(r, gamma, n, values(at, o));
    log_.append(r, gamma, n);
    if (log_.full()) apply_log(n);
  }
  // The same in one row.
  static void evict(std::size_t r, const double* gamma, std::size_t n, double* row) {
    simd().evict_slot(r, gamma, n, kTiny, row);
  }

  // Brings all rows up to date, and empties the log.
  void apply_log(std::size_t n) {
    if (log_.empty()) return;
    constexpr std::size_t kBlock = 256;  // within a block, rows are prefetched before they are changed
    double* block[kBlock];
    std::size_t count = 0;
    for (std::uint32_t at = 0; at < table_.size(); ++at) {
      if (is_up_to_date(at)) continue;
      for (std::size_t o = 0; o < n_outputs_; ++o) {
        block[count++] = values(at, o);
        if (count < kBlock) continue;
        log_.replay(n, block, count);
        count = 0;
      }
    }
    log_.replay(n, block, count);
    log_.clear();
    for (const auto at : current_) table_.row(at).current = 0;
    current_.clear();
  }

  // Call it when a slot is removed, after its eviction with γ_r = 0, which sets its coefficients to 0. The last slot takes its index.
  void slot_removed(std::size_t slot, std::size_t last) {
    apply_log(last + 1);  // the log refers to slots by number
    for (std::size_t at = 0; at < table_.size(); ++at)
      for (std::size_t o = 0; o < n_outputs_; ++o) {
        double* row = values(at, o);
        row[slot] = row[last];
        row[last] = 0.0;
      }
  }

  // Removes a row; the last row takes its index.
  void drop(std::uint32_t at) {
    const auto last = static_cast<std::uint32_t>(table_.size() - 1);
    current_.erase(std::remove(current_.begin(), current_.end(), at), current_.end());
    std::replace(current_.begin(), current_.end(), last, at);
    table_.drop(at);
  }

  void save(State& state, std::size_t n, bool with_log) const {
    auto& task_ids = state.integers["table_key"];
    auto& clusters = state.integers["table_cluster"];
    auto& stamps = state.integers["table_stamp"];
    auto& common = state.integers["table_common"];
    auto& table = state.reals["table"];
    for (std::size_t at = 0; at < table_.size(); ++at) {
      const auto& row = table_.row(at);
      task_ids.push_back(row.name.id);
      clusters.push_back(row.cluster);
      stamps.push_back(row.stamp);
      common.push_back(row.name.common);
      for (std::size_t o = 0; o < n_outputs_; ++o) table.insert(table.end(), values(at, o), values(at, o) + n);
    }
    if (!with_log) return;
    log_.save(state, n);
    auto& current = state.integers["table_current"];
    for (std::size_t at = 0; at < table_.size(); ++at) current.push_back(table_.row(at).current);
  }

  static bool has_log(const State& state) { return state.integers.count("table_log_slot") != 0; }
  // Loads the log. The rows must be loaded already, and allocate_log() called.
  void load_log(const State& state, std::size_t n) {
    const auto& current = state.integers.at("table_current");
    if (current.size() != table_.size() || std::count(current.begin(), current.end(), 1) > static_cast<std::ptrdiff_t>(kMaxCurrent))
      throw std::invalid_argument("saved model: wrong number of rows that include the logged evictions");
    log_.load(state.integers.at("table_log_slot"), state.reals.at("table_log"), n);
    for (std::uint32_t at = 0; at < table_.size(); ++at)
      if (current[at] == 1) set_current(at);
  }
  void release_log() noexcept {
    log_.release();
    release(current_);
  }

 private:
  // Every eviction changes all current rows. So the log is applied when too large a share of the rows is current.
  static constexpr std::size_t kMaxCurrent = 128;
  std::size_t max_current() const { return std::clamp<std::size_t>(table_.size() / 32, 4, kMaxCurrent); }

  bool is_up_to_date(std::uint32_t at) const { return log_.empty() || table_.row(at).current; }
  void set_current(std::uint32_t at) {
    table_.row(at).current = 1;
    current_.push_back(at);
  }

  RowTable table_;
  const std::size_t n_outputs_;
  std::size_t stride_;  // of the outputs of a row
  EvictionLog log_;
  Vec<std::uint32_t> current_;  // the indices of the current rows
};

}  // namespace budgetron
