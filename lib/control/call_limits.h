#pragma once

#include "sandboxkit/controller.h"

#include "base/guarded.h"
#include "policy/rate_limit.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <unordered_set>

namespace sandboxkit::control {

/// How often a credential may call, and how often an address may be wrong.
///
/// An address that failed too often is refused before the store is asked, but for credentials that
/// were good before in this process: whoever shares an address with an attacker (a NAT, a proxy)
/// and is known goes on working, and nobody can make the store look for unknown ids without end.
/// Thread-safety: any thread.
class Limits {
 public:
  /// What a worker needs is known, so its bucket is no setting: a heartbeat every 200 ms at most,
  /// and its tunnel.
  static constexpr policy::RateLimit kWorker{20, 100};
  static constexpr std::size_t kSets = 8192;  ///< Of eight buckets each, in each table.
  static constexpr std::size_t kMaxKnown = 100'000;

  struct Excess {
    std::chrono::milliseconds wait{};
    const char* setting = "";
  };

  explicit Limits(const ControllerConfig& config);

  /// Before a look-up; `id` is the credential's public part, empty for text that has none.
  std::optional<Excess> before_look_up(const std::string& address, const std::string& id,
                                       WallTime now);
  void failed(const std::string& address, WallTime now);
  void succeeded(const std::string& id);
  /// Counts a call of a good credential.
  std::optional<Excess> take(const std::string& id, bool is_worker, WallTime now);

 private:
  Guarded<policy::RateTable> keys_;
  Guarded<policy::RateTable> workers_;
  Guarded<policy::RateTable> failures_;
  Guarded<std::unordered_set<std::string>> known_;
};

}  // namespace sandboxkit::control
