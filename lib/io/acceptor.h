#pragma once

#include "io/event_loop.h"
#include "io/fd.h"

#include <functional>
#include <memory>

namespace sandboxkit::io {

/// Accepts connections from a listening socket in a loop. When the process or the machine has no
/// descriptor left, it rests for a moment instead of spinning on a socket that stays readable.
/// Thread-safety: the loop's thread.
class Acceptor {
 public:
  static constexpr EventLoop::Duration kRest{100};

  /// `on_connection` gets each connection: non-blocking, close-on-exec.
  static std::shared_ptr<Acceptor> start(EventLoop& loop, Fd listener,
                                         std::function<void(Fd)> on_connection);
  ~Acceptor();

  /// A paused acceptor leaves new connections in the kernel's backlog.
  void pause();
  void resume();
  /// Closes the listening socket.
  void close();
  int fd() const;

 private:
  struct Impl;
  explicit Acceptor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandboxkit::io
