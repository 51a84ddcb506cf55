// Base class of linear learners, which have one vector of weights per task and output and store no examples.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "learner/registry.hpp"
#include "stores/row_table.hpp"

namespace budgetron {

class PrimalLearner : public Learner {
 public:
  explicit PrimalLearner(const Config& config)
      : Learner(config), width_(config.n_outputs * config.d), rows_(bytes_, width_, 0, config.hash_seed) {}

  State query(const Query& query) override {
    if (query.name == "explain") return explain(query);
    return Learner::query(query);
  }
  void task_weights(Task, double*) const override {}
  void coefficients(double*) const override {}

 protected:
  bool stores() const override { return false; }
  bool rule_grows_little(std::size_t n, const std::int64_t* task_ids) const override {
    const std::size_t few = std::max<std::size_t>(64, rows_.size());
    if (n <= few) return true;
    Bytes temporary;  // so that the count below does not change the bytes of the model
    return count_new(0, n, task_ids, temporary) <= few;
  }
  void end_reserve() noexcept override { rows_.end_reserve(); }

  void grow(std::size_t) override {}
  void slot_removed(std::size_t, std::size_t) override {}

  // How many tasks of these examples have no row of weights yet.
  std::size_t count_new_tasks(std::size_t from, std::size_t to, const std::int64_t* task_ids) {
    if (to - from == 1) return row_of(task_ids[from]) == RowTable::kNone;
    return count_new(from, to, task_ids, bytes_);
  }

  std::uint32_t row_of(std::int64_t task_id) const { return rows_.find({task_id, false}); }

  // Calls use(column, value) for every value of x that is not 0.
  template <class Use>
  void for_each_value(const Instance& x, Use use) const {
    const Rows& r = *x.rows;
    if (config_.sparse) {
      for (auto e = r.indptr[x.at]; e < r.indptr[x.at + 1]; ++e) {
        const double value = config_.single ? static_cast<double>(r.data_f32[e]) : r.data_f64[e];
        if (value != 0) use(static_cast<std::size_t>(r.indices[e]), value);
      }
    } else if (config_.single) {
      const float* values = r.dense_f32 + x.at * config_.d;
      for (std::size_t n = 0; n < config_.d; ++n)
        if (values[n] != 0) use(n, static_cast<double>(values[n]));
    } else {
      const double* values = r.dense_f64 + x.at * config_.d;
      for (std::size_t n = 0; n < config_.d; ++n)
        if (values[n] != 0) use(n, values[n]);
    }
  }
  double product(const double* w, const Instance& x) const {
    double sum = 0;
    for_each_value(x, [&](std::size_t n, double value) { sum += w[n] * value; });
    return sum;
  }
  double square(const Instance& x) const {
    double sum = 0;
    for_each_value(x, [&](std::size_t, double value) { sum += value * value; });
    return sum;
  }
  // Calls use(output, y) for the outputs that a step raises or lowers.
  template <class Use>
  void for_each_output(const Step& step, Use use) const {
    use(step.plus, step.sign);
    if (step.minus < config_.n_outputs) use(step.minus, -step.sign);
  }

  void save_rows(State& state) const {
    auto& vectors = state.reals["vectors"];
    auto& tasks = state.integers["task"];
    auto& clusters = state.integers["task_cluster"];
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      tasks.push_back(rows_.row(r).name.id);
      clusters.push_back(rows_.row(r).cluster);
      vectors.insert(vectors.end(), rows_.values(r), rows_.values(r) + width_);
    }
  }
  // Fills an empty table, or overwrites the rows of a table that already has one row per task of a graph. `reserve(n)` allocates the rule's other
  // arrays for n tasks.
  template <class Reserve>
  void load_rows(const State& state, Reserve reserve) {
    const auto& tasks = state.integers.at("task");
    const auto& clusters = state.integers.at("task_cluster");
    const auto& vectors = state.reals.at("vectors");
    if (size() != 0 || clusters.size() != tasks.size() || vectors.size() != tasks.size() * width_)
      throw std::invalid_argument("saved model: wrong number of clusters or weights");
    const bool fixed = rows_.size() != 0;
    if (fixed && tasks.size() != rows_.size()) throw std::invalid_argument("saved model: its tasks are not those of its graph");
    if (!fixed) {
      rows_.reserve(tasks.size());
      reserve(tasks.size());
    }
    for (std::size_t r = 0; r < tasks.size(); ++r) {
      const std::uint32_t row = row_of(tasks[r]);
      if (fixed && row != r) throw std::invalid_argument("saved model: its tasks are not in the order of its graph");
      if (!fixed && row != RowTable::kNone) throw std::invalid_argument("saved model: a task occurs twice");
      if (!fixed) rows_.add({tasks[r], false}, clusters[r]);
      std::copy_n(vectors.begin() + static_cast<std::ptrdiff_t>(r * width_), width_, rows_.values(r));
    }
  }

  const std::size_t width_;  // outputs × columns
  RowTable rows_;            // one vector per task

 private:
  // Computes the margin of each example, and one term per value: the margin of a row with only this value. The answer has the format
  // of Budgetron's answer: terms (shared, own, related) × outputs × (values, constant). Only the own terms of values can differ from 0.
  State explain(const Query& query) const {
    State answer;
    auto& margins = answer.reals["margins"];
    auto& columns = answer.reals["columns"];
    // Empty, but present: there are no Fourier features, and no parts.
    answer.reals["fourier"];
    answer.integers["part"];
    answer.integers["part_frequencies"];
    std::vector<double> dense(config_.sparse ? 0 : config_.d);
    std::vector<float> dense32(dense.size());
    score_each(query, [&](std::size_t i, const Instance& x, Scratch& s) {
      const std::size_t first = columns.size(), outputs = config_.n_outputs;
      const auto begin = config_.sparse ? x.rows->indptr[i] : 0;
      const auto n = config_.sparse ? static_cast<std::size_t>(x.rows->indptr[i + 1] - begin) : config_.d;
      margins.insert(margins.end(), s.margins.begin(), s.margins.end());
      columns.resize(first + 3 * outputs * (n + 1));
      for (std::size_t at = 0; at < n; ++at) {
        Rows one_value = *x.rows;  // a row with only this value
        one_value.count = 1;
        const std::int64_t ends[2] = {begin + static_cast<std::int64_t>(at), begin + static_cast<std::int64_t>(at) + 1};
        one_value.indptr = ends;
        if (!config_.sparse) {
          if (config_.single) dense32[at] = x.rows->dense_f32[i * config_.d + at];
          else dense[at] = x.rows->dense_f64[i * config_.d + at];
          one_value.dense_f32 = dense32.data();
          one_value.dense_f64 = dense.data();
        }
        score({&one_value, 0, 0.0}, {query.task_ids[i], query.clusters[i]}, s);
        for (std::size_t o = 0; o < outputs; ++o) columns[first + (outputs + o) * (n + 1) + at] = s.margins[o];
        if (!config_.sparse) dense[at] = dense32[at] = 0;
      }
    });
    return answer;
  }

  std::size_t count_new(std::size_t from, std::size_t to, const std::int64_t* task_ids, Bytes& bytes) const {
    Vec<std::int64_t> ids(bytes);
    for (std::size_t i = from; i < to; ++i)
      if (row_of(task_ids[i]) == RowTable::kNone) ids.push_back(task_ids[i]);
    return count_distinct(ids);
  }
};

}  // namespace budgetron
