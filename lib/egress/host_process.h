#pragma once

#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::egress {

/// One sandbox's proxy as a process of the worker's host: what it is born with.
struct HostProcess {
  /// Holds `policy.json` and the log; the process sees no other folder afterwards.
  std::string config_dir;
  /// The socket that listens inside of the sandbox, whose guest passed it out.
  int listener_fd = -1;
  /// The worker's questions come over it (io::GuestLink::adopt); its end is this process's end.
  int control_fd = -1;
  /// It stays the user that started it, who is not root: for a box of that user. Landlock closes
  /// every file to it then, where the kernel has that.
  bool same_user = false;
};

/// Reads `--listener-fd N --control-fd N --config-dir DIR [--same-user]`, in that order; nullopt
/// for other words.
std::optional<HostProcess> read_host_process(const std::vector<std::string>& words);

/// Runs the proxy of one sandbox on the worker's host: reads its configuration, gives up every
/// right that root has, and only then looks at a byte of the sandbox. Ends when the worker's end of
/// the control descriptor closes: without a worker there is no way out. Decisions go to
/// `decisions.0.log` and `decisions.1.log` in `config_dir`, of 4 MiB each, which take turns; when
/// they cannot be written they are lost and the wall stands. Problems go to standard error.
/// Blocking: until it ends. Call it once, before any thread is started. Exit codes: as run_sidecar.
int run_host_process(const HostProcess& process);

}  // namespace sandboxkit::egress
