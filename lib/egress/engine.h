#pragma once

#include "sandboxkit/egress.h"

#include "egress/denied_log.h"
#include "egress/line_log.h"
#include "egress/proxy_limits.h"
#include "egress/refusal.h"
#include "egress/resolver.h"
#include "egress/secret_book.h"
#include "egress/tunnel.h"
#include "egress/upstream_pool.h"
#include "io/event_loop.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace sandboxkit::egress {

struct Stats {
  std::uint64_t connections = 0;
  std::uint64_t requests = 0;
  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;
  std::uint64_t refused = 0;  ///< Requests that could not be read, and limits.
  std::uint64_t failed = 0;   ///< Allowed, but the upstream could not be reached.
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
  std::uint64_t sni_other = 0;  ///< Tunnels whose hello named another host, let through.
};

/// Look-ups in the minute that runs.
struct LookupRate {
  std::chrono::steady_clock::time_point began{};
  std::size_t used = 0;
  /// Counts one more, unless the minute's share is used up.
  bool take(std::size_t per_minute, std::chrono::steady_clock::time_point now);
};

/// What every connection of one proxy shares. Loop's thread only.
struct Engine {
  io::EventLoop& loop;
  EgressPolicy policy;                           ///< Replaced by narrower ones alone.
  const std::map<std::string, IpAddress> hosts;  ///< Operator-pinned names.
  const Limits limits;
  Resolver& resolver;
  LineLog& log;
  Clock& clock;
  /// Whether an address is this machine's own: never dialled, whatever the policy says.
  const std::function<bool(const IpAddress&)> is_local;
  SecretBook secrets;
  DeniedLog denied{};
  Stats stats{};
  TunnelStock tunnels{};
  std::size_t upstreams = 0;  ///< That serve or are dialled; those that wait are in `parked`.
  UpstreamPool parked{};
  LookupRate lookups{};
};

/// What is queued for one side before the other one is read on.
inline constexpr std::size_t kMaxQueuedBytes = 64 * 1024;

/// Why no request is taken any more, once `max_bytes` is used up.
std::optional<Refusal> out_of_bytes(const Engine& engine);
/// Counts bytes of a body against `max_bytes`; false when that is used up.
bool spend(Engine& engine, std::size_t bytes);
/// Writes one line to the decision log.
void log_decision(Engine& engine, const EgressTarget& target, bool allowed,
                  const EgressVerdict& verdict, const std::string& address);
/// Writes that a hello named another host than the CONNECT, which the policy lets pass.
void log_other_name(Engine& engine, const EgressTarget& target, const std::string& server_name);
/// Counts and logs a denial, and words it for the client.
Refusal deny(Engine& engine, const EgressTarget& target, const EgressVerdict& verdict,
             const std::string& address = {});

}  // namespace sandboxkit::egress
