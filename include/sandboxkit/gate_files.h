#pragma once

#include "sandboxkit/gate.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit {

/// Reads a policy file, whose lists are added to the shipped ones:
/// `{"version": 1, "deny": [RULE], "except": [RULE], "exclude": [RULE], "roots": [{"path",
/// "access": "ro"|"rw"}], "variables": {"deny": [], "allow": []}, "egress": {...}}`; only `version`
/// is required. A RULE is `{"op": [NAME...], "target": PATTERN}`; `all` and `changes` are names for
/// many. `name` is the file's, for the rules' sources.
///
/// Limits: 1 MiB, 4096 entries a list. Errors: kInvalidArgument or kTooLarge with the field's path.
/// Blocking: never.
SANDBOXKIT_API Result<GatePolicy> parse_gate_policy(std::string_view json, const std::string& name);

/// A permanent grant with what its store tells of how it came to be.
struct KeptGrant {
  PermanentGrant grant;
  std::optional<WallTime> created{};
  /// Who gave it (`tty:u@host`), the hash of the request that was answered, and a person's words.
  std::string by{};
  std::string request{};
  std::string note{};
};

/// Everything in a store at one moment. Each change makes the next generation.
struct KeptGrants {
  std::uint64_t generation = 0;
  std::vector<KeptGrant> grants{};
};

inline constexpr std::size_t kMaxGrantsBytes = 8U << 20;
inline constexpr std::size_t kMaxKeptGrants = 10'000;

/// Reads the grants of a store: `{"version": 1, "generation": N, "grants": [...], "mac": TEXT}`.
/// The MAC is not checked here, as there is no key: `GrantStore` does.
///
/// Limits: `kMaxGrantsBytes`, `kMaxKeptGrants`. Errors: as above, and for an id that stands twice;
/// what has an error grants nothing at all.
SANDBOXKIT_API Result<KeptGrants> parse_kept_grants(std::string_view json);
/// The same without what is told of them.
SANDBOXKIT_API Result<std::vector<PermanentGrant>> parse_gate_grants(std::string_view json);

/// What `parse_kept_grants` reads, without `mac`; one grant a line. All texts must be UTF-8.
SANDBOXKIT_API std::string to_json(const KeptGrants& grants);

/// Reads `{"cwd": DIR, "why": TEXT, "items": [{"op": NAME, ...}]}`. An item has `path` (and `to`),
/// `command` or `argv`, `name`, or `host` and `port`, as its operation asks for; one that has
/// something else gets a `problem`, and the gate denies it.
///
/// Limits: 1 MiB. Errors: kInvalidArgument for what is no request at all.
SANDBOXKIT_API Result<GateRequest> parse_gate_request(std::string_view json);

/// A decision as one line of JSON: `{"decision", "branch", "rule", "source", "reason", "words",
/// "items": [{"op", "requested", "canonical", "decision", "branch", "rule", "reason", "via"}]}`.
/// Control and direction characters are escaped.
SANDBOXKIT_API std::string to_json(const GateDecision& decision);

/// RFC 3339 with any offset. Errors: kInvalidArgument.
SANDBOXKIT_API Result<WallTime> parse_gate_time(std::string_view text);

}  // namespace sandboxkit
