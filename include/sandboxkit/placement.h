#pragma once

#include "sandboxkit/ids.h"
#include "sandboxkit/result.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sandboxkit {

class FleetIndex;

/// Whom a worker serves. No default: a lost field must not read as "everyone".
class SANDBOXKIT_API WorkerScope {
 public:
  static WorkerScope only(TenantId tenant) { return WorkerScope(std::move(tenant)); }
  static WorkerScope every_tenant() { return WorkerScope(std::nullopt); }

  /// The tenant rule: `worker.tenant == tenant || worker.tenant == ""`.
  bool serves(const TenantId& tenant) const { return !tenant_ || *tenant_ == tenant; }
  bool is_unscoped() const { return !tenant_.has_value(); }
  /// The workspace's id, or "" for the unscoped fleet.
  std::string tenant_or_empty() const { return tenant_ ? tenant_->str() : std::string(); }

 private:
  explicit WorkerScope(std::optional<TenantId> tenant) : tenant_(std::move(tenant)) {}
  std::optional<TenantId> tenant_;
};

enum class WorkerState : std::uint8_t {
  kReady,
  kCordoned,
  kDraining,
  kUnhealthy,    ///< It speaks, and complains: its engine does not answer, for instance.
  kUnreachable,  ///< It is silent.
  kLost,
};

SANDBOXKIT_API const char* name_of(WorkerState state);
SANDBOXKIT_API Result<WorkerState> worker_state_from(std::string_view name);
/// Every state's name, for messages: `ready, cordoned, ...`.
SANDBOXKIT_API std::string worker_state_names();

/// One worker as the scheduler sees it: a value, taken at one moment.
struct WorkerView {
  WorkerId id;
  WorkerScope scope;
  WorkerState state = WorkerState::kReady;
  /// What the worker proved that it can enforce or offer: `egress`, `gpu`, `preview`, ...
  std::set<std::string> capabilities{};
  std::map<std::string, std::string> labels{};
  /// What its owner set it apart for: only requests that tolerate all of them may use it.
  std::set<std::string> taints{};
  /// Runtimes of its engine; a request without a runtime fits any.
  std::set<std::string> runtimes{"runc"};
  std::string arch = "amd64";
  double cpu_cores = 1;
  std::int64_t memory_mb = 1024;
  double used_cpu_cores = 0;
  std::int64_t used_memory_mb = 0;
  std::int64_t sandboxes = 0;
  std::int64_t max_sandboxes = 100;
  std::int64_t starting = 0;
  std::int64_t max_starting = 4;
  std::set<std::string> images{};
  /// Warm, unassigned sandboxes by image.
  std::map<std::string, std::int64_t> warm{};
};

enum class PlacementStrategy : std::uint8_t { kSpread, kPack };

/// How the fleet may be filled. One place for every ratio.
struct PlacementPolicy {
  /// Reserved cores may reach `cpu_overcommit` times the worker's cores; memory likewise.
  double cpu_overcommit = 4;
  double memory_overcommit = 1;
  PlacementStrategy strategy = PlacementStrategy::kSpread;
  /// How many feasible workers are scored (the power of K), drawn by the seed: first those that
  /// are better placed whatever their load (own, warm, image). 0 scores all of them, and so does
  /// packing.
  std::size_t candidates = 8;
  /// What a refusal for lack of room tells the caller to wait.
  std::chrono::seconds retry_after{5};
};

/// What a create needs from a worker.
struct PlacementRequest {
  TenantId tenant;
  std::string image;
  double cpu_cores = 1;
  std::int64_t memory_mb = 512;
  /// True for a walled sandbox: only workers with the capability `egress` fit.
  bool needs_egress_wall = false;
  std::set<std::string> capabilities{};
  std::string runtime{};
  std::string arch{};
  std::map<std::string, std::string> labels{};
  /// Taints that it may be placed on. It asks for none of them.
  std::set<std::string> tolerations{};
  /// Set when the create asked for a strategy of its own.
  std::optional<PlacementStrategy> strategy{};
};

/// Why a worker was passed over. The first filter that refuses it counts. The order of the
/// enumerators is the order of the filters: what can never change comes before what may.
enum class Filter : std::uint8_t {
  kTenant,
  kCapability,
  kRuntime,
  kArch,
  kTaint,  ///< Lasting, like a label: an owner may take it off, but waiting alone does not help.
  kLabels,
  kSize,  ///< The request is larger than the whole worker, overcommit included.
  kState,
  kSandboxCap,
  kCpu,
  kMemory,
  kStartSlots,
};

SANDBOXKIT_API const char* name_of(Filter filter);

enum class RefusalCode : std::uint8_t {
  /// No worker that this tenant may use, in whatever state it is, could ever run it: waiting does
  /// not help. So too when no worker has joined and the request asks for something special.
  kCapabilityUnavailable,
  /// Workers exist that could, none can now; or none has joined yet and the request would fit any.
  kNoCapacity,
};

/// `worker_capability_unavailable`, `no_capacity`.
SANDBOXKIT_API const char* name_of(RefusalCode code);
/// 409 and 503.
SANDBOXKIT_API int status_of(RefusalCode code);

/// One scored candidate; higher is better. The parts say why, in the order of their weight.
struct Score {
  WorkerId worker;
  bool own = false;
  bool warm = false;
  bool image_present = false;
  /// The largest share (of cores, memory, sandbox slots) of what the policy lets this worker give
  /// that would be in use, 0..1.
  double load = 0;
  /// 8 for own, 4 for warm, 2 for the image, and at most 1 for the load.
  double total = 0;
};

/// Only `Scheduler` makes one; nothing starts without one.
class SANDBOXKIT_API Placement {
 public:
  const WorkerId& worker() const { return worker_; }
  const std::vector<Score>& scores() const { return scores_; }

 private:
  friend class Scheduler;
  Placement(WorkerId worker, std::vector<Score> scores)
      : worker_(std::move(worker)), scores_(std::move(scores)) {}
  WorkerId worker_;
  std::vector<Score> scores_;
};

/// Why nothing was placed. Counts speak of the tenant's own and of unscoped workers only: what
/// other tenants have is not in them, so a refusal can be shown to the tenant.
struct Refusal {
  RefusalCode code;
  std::map<Filter, std::int64_t> counts{};
  std::optional<std::chrono::seconds> retry_after{};
  /// What is missing everywhere, where that is the reason (`egress`, `runtime:runsc`, `arch:arm64`,
  /// `label:zone=eu`, `cpu_cores`, `memory_mb`), or `toleration:NAME` when every worker carries
  /// that taint; empty when each part is offered, but never together.
  std::string missing{};
};

using Decision = std::variant<Placement, Refusal>;

/// The decision in one or more sentences for people. Never speaks of other tenants' workers.
SANDBOXKIT_API std::string explain(const PlacementRequest& request, const Decision& decision);

/// Chooses a worker. The only maker of a `Placement`.
///
/// Pure: no I/O, no clock, no randomness but the seed; the order of `fleet` does not matter.
/// Thread-safety: const members may be called from any thread.
class SANDBOXKIT_API Scheduler {
 public:
  explicit Scheduler(PlacementPolicy policy) : policy_(policy) {}

  Decision schedule(const PlacementRequest& request, std::span<const WorkerView> fleet,
                    std::uint64_t seed) const;

  /// The same decision over an index of the fleet; see there for what it looks at.
  Decision schedule(const PlacementRequest& request, const FleetIndex& fleet,
                    std::uint64_t seed) const;

  /// The first filter that refuses this worker now; nothing when the request fits. What a caller
  /// checks a chosen worker with once more, on numbers that are newer than the decision's.
  std::optional<Filter> refusal_of(const PlacementRequest& request, const WorkerView& worker) const;

  const PlacementPolicy& policy() const { return policy_; }

 private:
  /// `usable`: exactly the workers that the request's tenant may use.
  Decision schedule_among(const PlacementRequest& request,
                          std::span<const WorkerView* const> usable, std::uint64_t seed) const;
  static Placement placement_of(std::vector<Score> scores);

  PlacementPolicy policy_;
};

}  // namespace sandboxkit
