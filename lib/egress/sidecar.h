#pragma once

#include <string>

namespace sandboxkit::egress {

inline constexpr const char* kDefaultConfigDir = "/run/sandboxkit-egress";

/// Exit codes of the sidecar.
inline constexpr int kExitStopped = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitConfig = 2;  ///< No socket was opened.

/// The whole sidecar: reads `policy.json` in `config_dir`, listens, then dials `egress.sock` there
/// and answers the host's questions, until SIGTERM or SIGINT. Decisions go to standard output,
/// problems to standard error. Blocking: until it is stopped. Call it once, before any thread is
/// started.
///
/// With `awaits_policy` it waits for a `policy.json` that is not there yet, and opens no socket
/// before it has read one. It reads it once: a later file changes nothing.
int run_sidecar(const std::string& config_dir, bool awaits_policy = false);

/// Keeps its namespaces for others and does nothing, until SIGTERM or SIGINT.
int run_holder();

}  // namespace sandboxkit::egress
