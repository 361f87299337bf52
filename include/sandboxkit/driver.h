#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/ids.h"
#include "sandboxkit/result.h"
#include "sandboxkit/sandbox_spec.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace sandboxkit {

class ApprovalBoard;

/// What a driver proved about its engine. A capability is listed only after it was tried there.
struct DriverCapabilities {
  /// Driver and engine with versions, for people: `docker 20.10.24`.
  std::string engine;
  /// `egress` when a wall can be built, ...
  std::vector<std::string> capabilities{};
  std::vector<std::string> runtimes{};
  std::string arch{};
  double cpu_cores = 0;
  std::int64_t memory_mb = 0;
  std::vector<std::string> images{};
  /// Why something that was tried is no capability, for people: `egress: ...`.
  std::vector<std::string> problems{};
};

/// One sandbox to make true.
struct SandboxOrder {
  SandboxId sandbox;
  TenantId tenant;
  /// Rises with each (re)creation; two generations of a sandbox never run at once.
  std::int64_t generation = 1;
  SandboxSpec spec;
  WallTime expires_at{};
  /// Hash of the egress policy in canonical form; empty for an unwalled sandbox.
  std::string policy_hash{};
};

/// One sandbox as the engine has it.
struct SandboxReport {
  SandboxId sandbox;
  TenantId tenant;
  std::int64_t generation = 0;
  SandboxState state = SandboxState::kError;
  /// As it was labelled at the creation; a renewal is known to the worker's journal alone.
  WallTime expires_at{};
  std::string policy_hash{};
  /// How its wall is made: `internal-net` or `isolated-ns`; empty for an unwalled sandbox.
  std::string structure{};
  /// Why it is not running: `exit 137`, `out of memory`, `no wall`, ...
  std::string reason{};
};

struct SandboxStats {
  double cpu_seconds = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t memory_limit_bytes = 0;
  std::int64_t processes = 0;
};

/// One line of a sandbox's denied log: equal refusals are counted, not repeated.
struct DeniedEgress {
  std::string host;
  std::uint16_t port = 0;
  /// Stable name of an EgressReason.
  std::string reason{};
  std::int64_t count = 0;
  WallTime first{};
  WallTime last{};
};

/// Something ended or changed without being asked to.
struct DriverEvent {
  SandboxId sandbox;
  std::int64_t generation = 0;
  SandboxState state = SandboxState::kStopped;
  std::string reason{};
};

/// The seam between a worker and whatever runs sandboxes: containers, local boxes, a simulation.
///
/// Blocking: every call may wait for the engine, up to the driver's own deadline; a stop request
/// ends a create early and undoes what it had made.
/// Thread-safety: any thread.
class SANDBOXKIT_API Driver {
 public:
  virtual ~Driver() = default;

  /// Asks the engine and tries what is claimed. Errors: kUnavailable when it does not answer.
  virtual Result<DriverCapabilities> probe() = 0;

  /// Makes a sandbox and waits until its guest answers. For a walled one the wall stands before
  /// the first instruction. All or nothing: after an error nothing of it is left.
  /// Idempotent: the same sandbox and generation again is a success.
  /// Errors: kNotFound `image_not_found`, kUnavailable `engine_unavailable`, kCancelled,
  /// kDeadlineExceeded, kConflict `generation_conflict`, kResourceExhausted.
  virtual Status create(const SandboxOrder& order, std::stop_token stop) = 0;

  /// Removes the sandbox with its wall, whatever state it is in. Absent is a success.
  virtual Status remove(const SandboxId& sandbox) = 0;

  /// All sandboxes that carry this controller's and this worker's labels, half-made ones too.
  virtual Result<std::vector<SandboxReport>> list() = 0;

  /// Re-opens the way to the guests of sandboxes that run already (after a restart of the worker).
  /// Returns what runs; what cannot be kept (no wall, half made) is reported with its reason.
  virtual Result<std::vector<SandboxReport>> adopt() = 0;

  virtual Result<SandboxStats> stats(const SandboxId& sandbox) = 0;

  /// A new connection to the sandbox's guest, which speaks HTTP/1.1 on it.
  /// Ownership: the caller closes the descriptor (close-on-exec, blocking).
  /// Errors: kNotFound, kUnavailable `guest_unavailable`.
  virtual Result<int> connect_guest(const SandboxId& sandbox) = 0;

  /// What the wall refused so far, most recent last; at most 1,000 lines.
  virtual Result<std::vector<DeniedEgress>> denied(const SandboxId& sandbox) = 0;

  /// Narrows the wall of a sandbox that runs, for the rest of its life: what `policy` no longer
  /// allows is refused from the return on, and open tunnels to it are closed. Durable before it is
  /// in force, so that a proxy that starts again is as narrow. The same call again is a success;
  /// afterwards `list` and `adopt` report `policy_hash`.
  /// Errors: kNotFound; kConflict `cannot_retrofit` for an unwalled sandbox, `policy_widens` when
  /// the policy allows more than the one in force (nothing changed); kUnavailable.
  virtual Status narrow(const SandboxId& sandbox, const EgressPolicy& policy,
                        const std::string& policy_hash) = 0;

  /// Hands the secrets of a sandbox that runs to its proxy, in place of all that it had. They are
  /// kept in memory alone: after a restart of the worker they have to come again.
  /// Errors: kNotFound; kConflict `worker_capability_unavailable` when the driver lends none or the
  /// sandbox was made without these domains; kUnavailable.
  virtual Status lend(const SandboxId& sandbox, std::span<const LentSecret> secrets) = 0;

  /// Where questions of permission gates wait for a person; null for a driver that asks nobody. As
  /// long as the driver.
  virtual ApprovalBoard* approvals() { return nullptr; }

  /// Whom to tell about ends that nobody asked for. Called from a thread of the driver; set once,
  /// before the first create.
  virtual void on_event(std::function<void(const DriverEvent&)> handler) = 0;
};

}  // namespace sandboxkit
