// A learner with its locks. Every call either succeeds or leaves the learner unchanged, also if memory runs out. The only exception is a call of
// learn() that is interrupted (see there).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "fair_lock.hpp"
#include "learner/learner.hpp"

namespace budgetron {

class Model {
  // Holds the mutex `writing_`. `waiting_` counts the threads that wait for it.
  class Writing {
   public:
    explicit Writing(Model& model) : model_(model) {
      ++model_.waiting_;
      model_.writing_.lock();
      --model_.waiting_;
    }
    ~Writing() { model_.writing_.unlock(); }
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

   private:
    Model& model_;
  };

 public:
  explicit Model(const Config& config);

  // Learns all rows, or throws std::bad_alloc and learns none of them. All memory that the rows may need is allocated before the first row is
  // learned. If that could make the model much larger (see Learner::grows_little), a copy of the model learns the rows instead, allocates memory
  // as needed, and replaces the model at the end. After every kTurn rows or so, while rows remain, `between` is called, and `lock` (not
  // `writing_`) is released for that time, so that predictions can run. While a copy learns, `lock` is not held at all. If `between` throws, the
  // rows learned so far stay learned; if a copy was learning, it is discarded and no row is learned.
  void learn(const Rows& rows, const std::int32_t* labels, const std::int64_t* task_ids, const std::int64_t* clusters,
             const double* weights, double* margins, std::uint8_t* flags, const std::function<void()>& between = [] {});
  // The same for one row. Returns false, and learns nothing, if the row is invalid (see Learner::first_bad_row).
  bool learn_one(const Rows& row, std::int32_t label, Task task, double weight, double* margins, std::uint8_t* flags);
  // The margins of one row, without learning. Returns false if the row is invalid.
  bool margin_one(const Rows& row, Task task, double* margins);
  // Restores a saved state. If it throws, the model is unchanged.
  void load(const State& state, const Rows& rows);

  // Exclusive access, for all other calls that may change the learner. It waits until the current block has been learned completely. While
  // it is held, no other call reads or changes the learner.
  class Exclusive {
   public:
    explicit Exclusive(Model& model) : writing_(model), exclusive_(model.lock) {}

   private:
    Writing writing_;
    std::unique_lock<FairLock> exclusive_;
  };

  const Config& config() const { return config_; }  // needs no lock
  Learner& learner() { return *learner_; }
  const Learner& learner() const { return *learner_; }

  mutable FairLock lock;  // callers that change the learner hold it exclusively; callers that only read the learner hold it shared

 private:
  static constexpr std::size_t kTurn = 4096;

  void learn_locked(const Rows& rows, const std::int32_t* labels, const std::int64_t* task_ids, const std::int64_t* clusters,
                  const double* weights, double* margins, std::uint8_t* flags, const std::function<void()>& between);
  std::unique_ptr<Learner> copy_learner();

  const Config config_;
  std::mutex writing_;  // acquired before `lock`, and held until all rows of a block are learned
  std::atomic<int> waiting_{0};  // the number of threads that wait for `writing_` in order to change the model
  std::unique_ptr<Learner> learner_;
};

}  // namespace budgetron
