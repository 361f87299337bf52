#pragma once

#include "base/bounded_queue.h"

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace sandboxkit {

/// A fixed number of threads over a queue that refuses instead of growing.
/// Thread-safety: any thread; `stop` once, from the owner's.
class ThreadPool {
 public:
  ThreadPool(std::size_t threads, std::size_t queue_limit) : queue_(queue_limit) {
    for (std::size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this] {
        while (auto work = queue_.pop()) {
          (*work)();
        }
      });
    }
  }
  ~ThreadPool() { stop(); }

  /// False when the queue is full or the pool is stopped.
  bool submit(std::function<void()> work) { return queue_.try_push(std::move(work)); }

  /// Finishes what is under way; what is queued is not begun any more.
  void stop_now() {
    queue_.close_and_drop();
    threads_.clear();
  }
  /// Finishes what is queued, then ends.
  void stop() {
    queue_.close();
    threads_.clear();
  }

 private:
  BoundedQueue<std::function<void()>> queue_;
  std::vector<std::jthread> threads_;
};

}  // namespace sandboxkit
