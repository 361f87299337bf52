#pragma once

#include <string>

namespace sandboxkit::guest {

struct DaemonOptions {
  /// The worker's socket, which the guest dials.
  std::string socket_path = "/run/sandboxkit/guest.sock";
  /// Serves this one connected descriptor in place of the socket, and ends with it; -1: not.
  int serve_fd = -1;
};

/// Runs the guest until SIGTERM, SIGINT or the end of `serve_fd`. Returns the exit status.
int run_daemon(const DaemonOptions& options);

}  // namespace sandboxkit::guest
