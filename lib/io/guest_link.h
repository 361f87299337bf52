#pragma once

#include "io/event_loop.h"
#include "io/fd.h"

#include <functional>
#include <memory>
#include <string>

#include <sys/types.h>

namespace sandboxkit::io {

/// The way between a host and a helper in a container (guest or egress proxy).
///
/// The host owns a listening socket in a folder that is mounted read-only; the helper dials it and
/// the kernel says who dialled (SO_PEERCRED: the pid must be the container's first process). Over
/// that one control connection the host passes one end of a fresh socket pair for each connection
/// that it wants; the helper serves HTTP/1.1 on it. So the host never connects to anything that the
/// sandbox could replace, and a sandbox that dials or swaps the socket gains nothing.
///
/// Wire: one byte per message, host to helper: 'C' with exactly one descriptor (SCM_RIGHTS).
/// Helper to host: 'L' with exactly one descriptor, at most once, before 'R', and only where the
/// host expects a listening socket from inside; 'R' once, when it is ready to serve. Anything else
/// ends the link.

/// Host side of one sandbox's helper.
/// Thread-safety: `connect` and `ready` from any thread; the rest on the loop's thread.
class GuestLink {
 public:
  /// Looks at the listening socket that a helper passed and takes it; false ends the link. Called
  /// on the loop's thread. What comes is the sandbox's: not to be trusted before it was looked at.
  using ListenerTaker = std::function<bool(Fd)>;

  /// Listens at `socket_path`. Only a peer whose pid is `expected_pid()` is taken (it is asked when
  /// somebody dials; 0 means: refuse for now). While a link stands, further dials are not accepted.
  /// With `take_listener` a helper has to pass a listening socket before it is ready, and without
  /// it none may.
  static Result<std::shared_ptr<GuestLink>> listen(EventLoop& loop, const std::string& socket_path,
                                                   std::function<pid_t()> expected_pid,
                                                   ListenerTaker take_listener = {});
  /// The host's end of a socket pair whose other end a process of ours was born with. Such a link
  /// stands once and does not come again.
  static std::shared_ptr<GuestLink> adopt(EventLoop& loop, Fd control);
  virtual ~GuestLink() = default;

  virtual bool ready() const = 0;
  /// A new connection to the helper: a blocking, close-on-exec descriptor.
  /// Errors: kUnavailable `guest_unavailable` when no link stands or it is congested.
  virtual Result<Fd> connect() = 0;
  /// Called on the loop's thread when the link comes up (true) and goes down (false).
  virtual void on_change(std::function<void(bool)> handler) = 0;
  /// Dials that were refused for their pid.
  virtual std::uint64_t refused_dials() const = 0;
  /// Ends the link and removes the socket file.
  virtual void close() = 0;
};

/// Helper side: dials `socket_path` until it works (50 ms .. 1 s between tries), says 'R', and
/// hands over each connection that comes. Dials again when the link is lost.
class GuestDialer {
 public:
  /// `listener`, when it is a descriptor, is passed to the host each time before 'R'; it is only
  /// borrowed.
  static std::shared_ptr<GuestDialer> start(EventLoop& loop, std::string socket_path,
                                            std::function<void(Fd)> on_connection,
                                            int listener = -1);
  /// Serves the end of a socket pair that this process was born with; `on_lost` is called when the
  /// host's end closed or said nonsense.
  static std::shared_ptr<GuestDialer> adopt(EventLoop& loop, Fd control,
                                            std::function<void(Fd)> on_connection,
                                            std::function<void()> on_lost);
  virtual ~GuestDialer() = default;
  virtual bool connected() const = 0;
  virtual void stop() = 0;
};

}  // namespace sandboxkit::io
