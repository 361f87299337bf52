#pragma once

#include "sandboxkit/egress.h"

#include "egress/proxy_limits.h"
#include "policy/egress_address.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::egress {

struct ListenAddress {
  std::string address;
  std::uint16_t port;
};

/// What one proxy serves: the file `policy.json`, which the host writes before the proxy starts and
/// which is read once.
struct Config {
  ListenAddress listen;
  std::optional<ListenAddress> dns_listen;
  EgressPolicy policy;
  /// Numeric, `address[:port]`; empty means the machine's own (/etc/resolv.conf).
  std::vector<std::string> dns_servers;
  /// Names whose address the operator states: not resolved, and free of the refusal of address
  /// classes. The policy must still allow the name.
  std::map<std::string, IpAddress> hosts;
  /// `host:port` where secrets are lent: names only, the secrets come over the host's connection.
  std::vector<std::string> lent{};
  std::string policy_hash;
  /// Addresses of the worker's machine and networks of its containers: not what a policy is about,
  /// so no policy may lift these.
  std::vector<policy::AddressBlock> refused_networks{};
  Limits limits{};
};

/// Strict JSON; `listen`, `allowed_domains` and `policy_hash` must be there: a list that got lost
/// must not read as any list at all. Errors: kInvalidArgument with the field's path,
/// `unknown_field`, `invalid_json`.
Result<Config> parse_config(std::string_view json);
/// Reads the file at `path` and, when one lies beside it, `narrowed.json`: what the host narrowed
/// the policy to since. One that does not narrow the policy is refused: no proxy starts wider than
/// the last one was. Errors: as above; kConflict `policy_widens`.
Result<Config> load_config(const std::string& path);

inline constexpr const char* kNarrowedFile = "narrowed.json";

/// `{"allowed_domains", "allowed_networks", ..., "policy_hash"}`: a policy as the API takes one,
/// and its hash. What the host narrows to, in its file and over its connection.
struct NarrowedPolicy {
  EgressPolicy policy;
  std::string policy_hash;
};
Result<NarrowedPolicy> parse_narrowed(std::string_view json);
std::string write_narrowed(const NarrowedPolicy& narrowed);
/// Whether one policy may take the place of another in a proxy that runs.
/// Errors: kConflict `policy_widens` with the entries that allow more.
Status check_narrows(const EgressPolicy& policy, const EgressPolicy& in_force);

}  // namespace sandboxkit::egress
