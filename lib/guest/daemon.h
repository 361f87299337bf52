#pragma once

#include <string>

namespace sandboxkit::guest {

struct DaemonOptions {
  /// The worker's socket, which the guest dials.
  std::string socket_path = "/run/sandboxkit/guest.sock";
  /// `address:port`: opens this listening socket in the sandbox before anything else runs there and
  /// passes it to the worker, whose proxy accepts on it: the only way out of a sandbox that has no
  /// interface but loopback. The guest itself never accepts. Empty: none.
  std::string proxy_listener{};
  /// Serves this one connected descriptor in place of the socket, and ends with it; -1: not.
  int serve_fd = -1;
  /// Takes its connections over this descriptor in place of the socket: an end of a socket pair of
  /// which the worker has the other (io::GuestDialer::adopt). Ends with it; -1: not.
  int link_fd = -1;
};

/// Runs the guest until SIGTERM, SIGINT or the end of `serve_fd` or `link_fd`. Returns the exit
/// status.
int run_daemon(const DaemonOptions& options);

}  // namespace sandboxkit::guest
