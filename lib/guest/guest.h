#pragma once

#include "io/event_loop.h"
#include "io/fd.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sandboxkit::guest {

struct GuestOptions {
  std::vector<std::string> container_env{};  ///< `NAME=value`, for every process.
  std::string passwd_path = "/etc/passwd";
  std::string group_path = "/etc/group";
};

/// The daemon inside of a sandbox: serves the routes of the architecture's section 5 on connections
/// that the worker hands over, starts processes, and waits for every child.
///
/// SIGCHLD must be blocked in all threads before it is made. Thread-safety: the loop's thread.
/// Ownership: what its connections need lives until the last of them ends; the loop outlives both.
class Guest {
 public:
  Guest(io::EventLoop& loop, GuestOptions options);
  ~Guest();
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

  /// Serves HTTP/1.1 on the connection; past kMaxConnections it is closed.
  void serve(io::Fd connection, std::function<void()> on_closed = {});
  /// Ends all processes (as PID 1: of the whole sandbox), then calls `on_stopped`.
  void stop(std::function<void()> on_stopped);
  std::uint64_t reaped() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with the connections that it serves
};

}  // namespace sandboxkit::guest
