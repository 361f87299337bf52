#pragma once

#include <functional>
#include <thread>

#include <signal.h>

namespace sandboxkit::daemons {

/// Before any thread starts, so that all inherit the mask and one thread takes the signals.
sigset_t block_stop_signals();

/// SIGINT and SIGTERM: the first asks for a stop, the second ends the process at once.
///
/// What lies on disk is whole after either: a controller's store and a worker's journal are made
/// for a crash.
class StopWatch {
 public:
  /// `stop` is called once, on a thread of ours, while this object lives.
  StopWatch(const sigset_t& signals, std::function<void()> stop);
  ~StopWatch();
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

 private:
  std::thread thread_;
};

}  // namespace sandboxkit::daemons
