#pragma once

#include "guest/exit_status.h"
#include "io/event_loop.h"
#include "io/fd.h"

#include <functional>
#include <map>

#include <sys/types.h>

namespace sandboxkit::guest {

/// Waits for every child of this process, adopted orphans included, and tells who asked.
///
/// SIGCHLD must be blocked in every thread before it is made (`prepare_signals`).
/// Thread-safety: the loop's thread.
class Reaper {
 public:
  explicit Reaper(io::EventLoop& loop);
  ~Reaper();
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  /// `on_exit` is called once, from the loop, also when the child is dead already.
  void watch(pid_t pid, std::function<void(ExitStatus)> on_exit);
  std::uint64_t reaped() const { return reaped_; }

 private:
  void collect();
  io::EventLoop& loop_;
  io::Fd signals_;
  std::map<pid_t, std::function<void(ExitStatus)>> watched_;
  std::uint64_t reaped_ = 0;
};

/// For the whole process, before it has threads: SIGCHLD is blocked for the reaper to read, and
/// SIGPIPE is ignored, because a child that closed its stdin must not end its guest.
void prepare_signals();

}  // namespace sandboxkit::guest
