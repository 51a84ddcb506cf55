// A reader-writer lock that serves in the order of arrival. std::shared_mutex may prefer readers: on Linux, readers that
// keep coming hold a writer up for as long as they come.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace budgetron {

// Everyone takes a ticket. A reader lets the next in as soon as it has entered, so readers that stand side by side in
// the queue hold the lock together. A writer enters when the readers before it have left, and lets nobody in until it
// leaves. So a waiting writer goes before every reader that comes later, and no reader waits behind more writers than
// came before it. Works with std::unique_lock and std::shared_lock. A thread must not take it twice.
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

  // How many have taken a ticket and not been served to the end: those who wait, and a writer that has the lock.
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
  std::uint64_t next_ = 0, serving_ = 0;  // tickets: the next to be given, and the one whose turn it is
  std::uint64_t readers_ = 0;             // that hold the lock
};

}  // namespace budgetron
