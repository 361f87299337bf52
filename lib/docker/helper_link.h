#pragma once

#include "sandboxkit/result.h"

#include "io/event_loop.h"
#include "io/fd.h"

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include <sys/types.h>

namespace sandboxkit::docker {

/// The way to the helper in one container (guest or sidecar): io::GuestLink for callers on any
/// thread, with the pid that may dial.
///
/// Thread-safety: any thread but the hub's own.
class HelperLink {
 public:
  virtual ~HelperLink() = default;

  /// The container's first process; before it is known every dial is refused. Means nothing to a
  /// helper that is a process of ours.
  virtual void expect_pid(pid_t pid) = 0;
  virtual bool ready() const = 0;
  /// Waits until the helper is connected; false after `limit` or when stopped.
  virtual bool wait_ready(std::chrono::milliseconds limit, std::stop_token stop) = 0;
  /// A new connection. Errors: kUnavailable `guest_unavailable`.
  virtual Result<io::Fd> connect() = 0;
  /// Called on the hub's thread whenever the helper comes up; at once when it is up already. The
  /// newest handler is the one that is called.
  virtual void on_up(std::function<void()> handler) = 0;
  /// Ends the link and removes its socket. The destructor does not.
  virtual void close() = 0;
};

/// The thread that serves the links.
/// Thread-safety: any thread. The hub outlives its links.
class LinkHub {
 public:
  LinkHub();
  ~LinkHub();
  LinkHub(const LinkHub&) = delete;
  LinkHub& operator=(const LinkHub&) = delete;

  /// With `take_listener` (called on the hub's thread) the helper passes a listening socket first.
  Result<std::shared_ptr<HelperLink>> open(const std::string& socket_path,
                                           std::function<bool(io::Fd)> take_listener = {});
  io::EventLoop& loop() { return loop_; }
  /// Runs `work` on the hub's thread and waits for its end.
  void run(const std::function<void()>& work);

 private:
  io::EventLoop loop_;
  std::thread thread_;
};

}  // namespace sandboxkit::docker
