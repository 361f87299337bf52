#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/driver.h"
#include "sandboxkit/events.h"
#include "sandboxkit/result.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace sandboxkit {

struct WorkerConfig {
  /// `http://host:port` of the controller.
  std::string controller_url;
  /// A folder that the worker owns (mode 0700): its credential and its journal lie there.
  std::string state_dir;
  std::int64_t max_sandboxes = 100;
  /// Creates at once; more only add latency. 0: one a core.
  std::int64_t max_starting = 0;
  std::map<std::string, std::string> labels{};
  std::chrono::milliseconds heartbeat_interval{10'000};
  std::chrono::milliseconds reconcile_interval{30'000};
  /// A create that is under way when the tunnel has been down for this long is undone; the
  /// controller, which waits longer, orders it again or takes it back.
  std::chrono::milliseconds start_lease{20'000};
  /// Objects that nobody explains are removed after this long.
  std::chrono::milliseconds orphan_grace{60'000};
  /// Where `/metrics`, `/healthz` and `/readyz` are served, without a credential. Empty: nowhere.
  /// Any address but a loopback one is warned about.
  std::string metrics_address{};
  std::uint16_t metrics_port = 0;
};

/// Who a worker is after it joined. Lies in `state_dir/worker.json` (mode 0600).
struct WorkerIdentity {
  WorkerId worker;
  ControllerId controller;
  /// The workspace's id, or "" for the unscoped fleet. The worker refuses other tenants' orders.
  std::string tenant{};
  std::string credential{};
  /// While a renewed credential has not been used yet: the one before it.
  std::string previous_credential{};
};

/// Exchanges a join token for a credential of this one worker, or reads the stored one.
///
/// `name` may be empty: the machine's host name is taken.
/// Errors: kUnauthenticated for a token that is unknown, used up or expired; kUnavailable.
/// Blocking: up to 30 s.
SANDBOXKIT_API Result<WorkerIdentity> join_or_load(const WorkerConfig& config,
                                                   const std::string& join_token,
                                                   const std::string& name);

/// Keeps a machine's sandboxes as the controller orders them; has no listening port.
///
/// Thread-safety: `stop` from any thread; the rest from the owner's.
class SANDBOXKIT_API Worker {
 public:
  /// Adopts what runs already. The driver must carry the identity's ids.
  static Result<std::unique_ptr<Worker>> create(WorkerConfig config, WorkerIdentity identity,
                                                std::unique_ptr<Driver> driver, Clock& clock,
                                                EventSink& events);
  ~Worker();

  /// Of the metrics; 0 when they are off. Any thread.
  std::uint16_t metrics_port() const;

  /// Serves until `stop`; reconnects with jitter while the controller is away. Blocking.
  Status run();
  void stop();

 private:
  struct Impl;
  explicit Worker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandboxkit
