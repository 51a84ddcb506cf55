// A learner behind its locks. Every call either succeeds or leaves the learner as it was, also where memory runs out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "fair_lock.hpp"
#include "rules/learner.hpp"

namespace budgetron {

class Model {
 public:
  explicit Model(const Config& config);

  // Learns all rows, or throws std::bad_alloc and has learned none. All that the rows may need is allocated before the first
  // of them is learned. Where that could be more than the model holds, a copy of the model learns the rows instead and takes
  // its place at the end. Predictions get their turn every kTurn rows; `between` is called there without a lock. Where it
  // throws, the rows before stay learned.
  void learn(const Rows& rows, const std::int32_t* labels, const std::int64_t* keys, const std::int64_t* clusters,
             const double* weights, double* margins, std::uint8_t* flags, const std::function<void()>& between = [] {});
  // The same for one row, unless it must be refused (see Learner::first_bad_row): then false.
  bool learn_one(const Rows& row, std::int32_t label, Task task, double weight, double* margins, std::uint8_t* flags);
  // Takes up a saved state. Where it throws, the model is as it was.
  void load(const State& state, const Rows& rows);

  // Exclusive access, for every other call that may change the learner: no other call is active, and no block is half learned.
  class Exclusive {
   public:
    explicit Exclusive(Model& model) : writing_(model.writing_), alone_(model.lock) {}

   private:
    std::lock_guard<std::mutex> writing_;
    std::unique_lock<FairLock> alone_;
  };

  const Config& config() const { return config_; }  // needs no lock
  Learner& learner() { return *learner_; }
  const Learner& learner() const { return *learner_; }

  mutable FairLock lock;  // exclusive for learning; predictions share it, locked by the caller

 private:
  static constexpr std::size_t kTurn = 4096;

  void learn_held(const Rows& rows, const std::int32_t* labels, const std::int64_t* keys, const std::int64_t* clusters,
                  const double* weights, double* margins, std::uint8_t* flags, const std::function<void()>& between);
  std::unique_ptr<Learner> copied();

  const Config config_;
  std::mutex writing_;  // taken before `lock`: held through a whole block
  std::unique_ptr<Learner> learner_;
};

}  // namespace budgetron
