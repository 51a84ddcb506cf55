// A reader-writer lock that is granted in the order of the requests. std::shared_mutex may prefer readers: on Linux a
// steady stream of readers can starve a writer.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace budgetron {

// A ticket lock. A reader admits the next ticket as soon as it has the lock, so consecutive readers hold it together. A
// writer waits for the readers before it and admits the next ticket when it unlocks. So a waiting writer precedes every
// later reader, and a reader waits only for writers that came before it. Works with std::unique_lock and
// std::shared_lock. It is not re-entrant.
class FairLock {
 public:
  void lock() {
    std::unique_lock<std::mutex> hold(mutex_);
    const std::uint64_t ticket = next_++;
    changed_.wait(hold, [&] { return serving_ == ticket && readers_ == 0; });
  }

  void unlock() {
    const std::lock_guard<std::mutex> hold(mutex_);
    serve_next();
  }

  void lock_shared() {
    std::unique_lock<std::mutex> hold(mutex_);
    const std::uint64_t ticket = next_++;
    changed_.wait(hold, [&] { return serving_ == ticket; });
    ++readers_;
    serve_next();
  }

  void unlock_shared() {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (--readers_ == 0 && serving_ != next_) changed_.notify_all();
  }

  // The number of tickets in use: one per waiting thread, and one for a writer that holds the lock.
  std::uint64_t queued() {
    const std::lock_guard<std::mutex> hold(mutex_);
    return next_ - serving_;
  }

 private:
  void serve_next() {
    if (++serving_ != next_) changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ = 0, serving_ = 0;  // the next ticket to issue, and the ticket that may lock now
  std::uint64_t readers_ = 0;             // readers that hold the lock
};

}  // namespace budgetron
