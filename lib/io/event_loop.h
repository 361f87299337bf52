#pragma once

#include "sandboxkit/result.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace sandboxkit::io {

/// One thread's epoll loop: descriptors, timers, and work posted by other threads.
///
/// Thread-safety: `post` and `stop` from any thread; all else on the loop's thread (or before
/// `run`). Callbacks run on the loop's thread and may add and remove anything, themselves included.
class EventLoop {
 public:
  using TimerId = std::uint64_t;
  using Duration = std::chrono::milliseconds;

  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Level-triggered; `events` are EPOLLIN, EPOLLOUT. The callback gets what epoll reported.
  void add(int fd, std::uint32_t events, std::function<void(std::uint32_t)> callback);
  void modify(int fd, std::uint32_t events);
  /// Safe from inside of the descriptor's own callback. The descriptor is not closed.
  void remove(int fd);

  TimerId run_after(Duration delay, std::function<void()> callback);
  void cancel(TimerId timer);  ///< An id that ran already is ignored.
  /// Runs `callback` when the loop is destroyed, so that what lives by itself in it can let go.
  TimerId run_at_end(std::function<void()> callback);

  /// Runs `work` on the loop's thread, soon.
  void post(std::function<void()> work);

  /// Serves until `stop`. Work that was posted before `stop` still runs.
  void run();
  void stop();
  /// Serves what is ready now and returns; waits at most `max_wait`. For tests and small programs.
  void run_once(Duration max_wait);
  bool on_loop_thread() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandboxkit::io
