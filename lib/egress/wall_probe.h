#pragma once

#include <string>
#include <vector>

namespace sandboxkit::egress {

/// Tries the ways around a wall from where it runs, as the worker does once in a throw-away
/// container for each engine: a TCP connection to each `address:port` (an answer of any kind
/// counts, a refused connection too: the packet arrived), an outside name at the engine's own name
/// server 127.0.0.11, and a raw packet socket. Prints one line
/// `{"reached": ["tcp 172.17.0.1:22", "dns 127.0.0.11", "packet_socket"], "tried": [...],
/// "interfaces": ["eth0", "lo"]}`, the last of those that are up.
/// Returns 0 when it could try all, 2 when an argument is no numeric `address:port`.
/// Blocking: at most 1.5 s for each thing that does not answer.
int run_wall_probe(const std::vector<std::string>& targets);

}  // namespace sandboxkit::egress
