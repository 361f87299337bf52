#pragma once

#include "sandboxkit/egress.h"
#include "sandboxkit/result.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit {

/// What a decision says, for people and for programs, without a controller.
struct OfflineDecision {
  bool allowed = false;
  /// One JSON object on one line.
  std::string json{};
  /// The same in a sentence.
  std::string words{};
};

/// Two documents and how often to place.
struct OfflinePlacement {
  /// `{"workers": [...], "overcommit": {"cpu": 4, "memory": 1}, "seed": 1}`; see `sandboxkit place
  /// --help` for the members and their defaults.
  std::string_view fleet;
  /// `{"tenant", "image", "cpu_cores", "memory_mb", "egress", "runtime", "labels", "policy"}`.
  std::string_view create;
  /// Each placement is made on the fleet that the one before left.
  std::size_t repeat = 1;
};

/// Places creates on a fleet as the controller would. The draw among equals comes from the fleet's
/// seed and from how many sandboxes it holds, so placing twice is placing once on what came out.
/// Errors: kInvalidArgument with the field's path (`fleet: workers[2].workspace ...`).
/// Blocking: never. Thread-safety: any thread.
SANDBOXKIT_API Result<std::vector<OfflineDecision>> place_offline(
    const OfflinePlacement& placement);

/// One question to a policy.
struct OfflineEgressQuestion {
  /// `https://host[:port]/...`, `http://host[:port]/...` or `host:port`.
  std::string target;
  /// The address that the name resolves to, when that is to be judged as well.
  std::optional<std::string> resolved{};
  /// The server name of the TLS hello (empty: none); it must be the host, as strict TLS has it.
  std::optional<std::string> tls_server_name{};
};

/// Reads `{"allowed_domains": [...], "allowed_networks": [...], "strict_tls": false}`; each may be
/// absent, and without the lists nothing is allowed.
/// Errors: kInvalidArgument with the field's path. Blocking: never.
SANDBOXKIT_API Result<EgressPolicy> parse_egress_policy(std::string_view json);

/// Decides as the wall would, without resolving anything.
/// The JSON is `{"target", "decision": "allow"|"deny", "rule", "reason"}`.
/// Blocking: never. Thread-safety: any thread.
SANDBOXKIT_API OfflineDecision check_egress_offline(const EgressPolicy& policy,
                                                    const OfflineEgressQuestion& question);

}  // namespace sandboxkit
