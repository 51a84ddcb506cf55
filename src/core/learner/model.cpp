#include "learner/model.hpp"

#include <algorithm>
#include <cstddef>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "learner/registry.hpp"

namespace budgetron {

Model::Model(const Config& config) : config_(config), learner_(make_learner(config)) {}

void Model::learn(const Rows& rows, const std::int32_t* labels, const std::int64_t* task_ids, const std::int64_t* clusters,
                  const double* weights, double* margins, std::uint8_t* flags, const std::function<void()>& between) {
  const Writing writing(*this);
  learn_locked(rows, labels, task_ids, clusters, weights, margins, flags, between);
}

bool Model::learn_one(const Rows& row, std::int32_t label, Task task, double weight, double* margins, std::uint8_t* flags) {
  const Writing writing(*this);
  if (learner_->first_bad_row(row) != row.count) return false;  // reads only the row and the settings, so `writing` suffices without `lock`
  learn_locked(row, &label, &task.id, &task.cluster, &weight, margins, flags, {});
  return true;
}

bool Model::margin_one(const Rows& row, Task task, double* margins) {
  // Allocating working memory takes longer than a small prediction. So this uses the working memory of learn() if no other thread
  // uses it or waits to learn. If it ignored waiting threads, threads that predict in a loop could keep them waiting forever.
  std::unique_lock<std::mutex> writing(writing_, std::defer_lock);
  const bool is_short = !config_.sparse || row.indptr[1] - row.indptr[0] <= Learner::kShortRow;
  const bool may_use_scratch = is_short && waiting_ == 0 && writing.try_lock();
  const std::shared_lock<FairLock> hold(lock);
  if (learner_->first_bad_row(row) != row.count) return false;
  if (may_use_scratch)
    learner_->margins_of_short(row, task, margins);
  else
    learner_->margins(row, 0, 1, &task.id, &task.cluster, margins);
  return true;
}

void Model::learn_locked(const Rows& rows, const std::int32_t* labels, const std::int64_t* task_ids, const std::int64_t* clusters,
                       const double* weights, double* margins, std::uint8_t* flags, const std::function<void()>& between) {
  const std::size_t n = rows.count;
  std::unique_lock<FairLock> exclusive(lock);
  if (n <= 1 || learner_->grows_little(rows, task_ids)) {
    learner_->reserve(rows, 0, n, task_ids, clusters);
    struct End {  // its destructor also runs if `between` throws
      Learner& learner;
      ~End() { learner.end_reserve(); }
    } end{*learner_};
    for (std::size_t from = 0; from < n; from += kTurn) {
      if (from > 0) {
        exclusive.unlock();
        try {
          between();
        } catch (...) {
          exclusive.lock();
          throw;
        }
        exclusive.lock();
      }
      learner_->learn(rows, from, std::min(n, from + kTurn), labels, task_ids, clusters, weights, margins, flags);
    }
    return;
  }
  auto copy = copy_learner();
  exclusive.unlock();  // predictions use the unchanged model while the copy learns
  const std::size_t step = copy->lookahead();
  for (std::size_t from = 0; from < n; from += step) {
    const std::size_t to = std::min(n, from + step);
    copy->reserve(rows, from, to, task_ids, clusters);
    copy->learn(rows, from, to, labels, task_ids, clusters, weights, margins, flags);
    copy->end_reserve();
    if (to < n && to % kTurn < step) between();  // about once per kTurn rows
  }
  exclusive.lock();
  learner_.swap(copy);
}

void Model::load(const State& state, const Rows& rows) {
  auto loaded = make_learner(config_);
  loaded->load(state, rows);
  const Exclusive hold(*this);
  learner_.swap(loaded);
}

// Copies the learner by saving and loading its state. The copy continues exactly like the original, to the last bit.
std::unique_ptr<Learner> Model::copy_learner() {
  auto copy = make_learner(config_);
  if (learner_->n_seen() == 0) return copy;
  State state;
  learner_->save(state);
  const Store::Dump dump = learner_->store().dump();
  const std::vector<float> single(dump.values.begin(), dump.values.end());
  const std::vector<std::int32_t> indices(dump.indices.begin(), dump.indices.end());
  Rows rows;
  rows.count = learner_->size();
  rows.d = config_.d;
  rows.dense_f64 = rows.data_f64 = dump.values.data();
  rows.dense_f32 = rows.data_f32 = single.data();
  rows.indptr = dump.indptr.data();
  rows.indices = indices.data();
  copy->load(state, rows);
  return copy;
}

}  // namespace budgetron
