#pragma once

#include "base/bounded_queue.h"

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace sandboxkit::control {

/// A few threads for what may wait for the store, so that the event loop never does.
/// Thread-safety: any thread.
class Pool {
 public:
  Pool(std::size_t threads, std::size_t queue_limit);
  ~Pool();

  /// False when the queue is full or the pool is stopped; the work is not run then.
  bool post(std::function<void()> work);
  /// Runs what is queued, then joins the threads.
  void stop();

 private:
  BoundedQueue<std::function<void()>> queue_;
  std::vector<std::jthread> threads_;
};

}  // namespace sandboxkit::control
