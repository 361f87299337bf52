#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/driver.h"
#include "sandboxkit/ids.h"
#include "sandboxkit/sandbox_spec.h"

#include "json/value.h"
#include "wire/trace.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::wire {

/// Our own messages as JSON, in one place, so that both ends read what the other writes.
///
/// Readers are strict and bounded: an unknown member, a member of the wrong kind, a text that is
/// too long or has control characters, and a list that is too long are refused with the field's
/// path (kInvalidArgument). What a writer writes its reader takes; texts for people (a `reason`)
/// are cleaned and cut by the writer. Times are RFC 3339 in UTC with milliseconds. All of it is
/// pure.

inline constexpr std::size_t kMaxReportedSandboxes = 10'000;
inline constexpr std::size_t kMaxReasonBytes = 512;
inline constexpr std::size_t kMaxDeniedLines = 1'000;
inline constexpr std::size_t kMaxWorkerNameBytes = 128;
inline constexpr std::size_t kMaxWorkerListItems = 1'000;  ///< Images; others are shorter.
inline constexpr std::size_t kMaxWorkerTextBytes = 255;

/// For bodies that may list all sandboxes of a worker (inventory, heartbeat).
inline constexpr json::Limits kInventoryLimits{
    .max_bytes = 8 << 20, .max_depth = 8, .max_values = 200'000};

// --- What a create asks for (docs/architecture.md, section 3)
// -------------------------------------

/// The create's body, the stored spec, and the spec of a delivery. Validated. `egress` that is
/// absent or null is unwalled; an object is walled and must hold `allowed_domains`.
Result<SandboxSpec> spec_from_json(const json::Value& value);
/// Every member is written, defaults too, and `spec_from_json` reads it back exactly; all but
/// `secrets`, which stands in no store and in no answer: who may have them appends them.
json::Value spec_to_json(const SandboxSpec& spec);

/// `[{"name", "domain", "header": "..." | "basic": true | "query": "...", "value_from": {"value":
/// "..."}, "expires_at"?}]`: with the values, so for a worker alone.
json::Value lent_secrets_to_json(const std::vector<LentSecret>& secrets);
/// Field paths start with `path` (`secrets`). Each one is validated; whether a sandbox can have
/// them is `validate` of its spec.
Result<std::vector<LentSecret>> lent_secrets_from_json(const json::Value& value,
                                                       const std::string& path);
/// What everybody may see of one: its value is not in it.
json::Object secret_view(const LentSecret& lent);
/// The new value of a secret: `{"value_from": {"value": "..."}, "expires_at"?}`. The rest is what
/// `lent` says already.
Result<LentSecret> rotated_from_json(const json::Value& value, LentSecret lent);

/// `{"allowed_domains": [...], "allowed_networks": [...], "strict_tls"?: true}`, or null when
/// unwalled.
json::Value egress_to_json(const Egress& egress);
/// Field paths start with `path` (`egress`). Null is unwalled.
Result<Egress> egress_from_json(const json::Value& value, const std::string& path);

// --- Deliveries (section 4)
// -----------------------------------------------------------------------

enum class DeliveryKind : std::uint8_t { kCreate, kRemove, kRenew, kNarrow, kLend };

const char* name_of(DeliveryKind kind);  ///< `create`, `remove`, `renew`, `narrow`, `lend`.
Result<DeliveryKind> delivery_kind_from(std::string_view name);

/// One order of the controller to a worker.
struct Delivery {
  std::int64_t seq = 0;
  DeliveryKind kind = DeliveryKind::kRemove;
  SandboxId sandbox;
  TenantId tenant;
  std::int64_t generation = 1;
  WallTime expires_at{};                 ///< create and renew.
  std::string policy_hash{};             ///< create, empty for an unwalled sandbox; narrow.
  std::optional<SandboxSpec> spec{};     ///< create.
  std::optional<EgressPolicy> egress{};  ///< narrow.
  std::vector<LentSecret> secrets{};     ///< lend: all that the sandbox has, with their values.
  Trace trace{};                         ///< Not in the message: the request's fields carry it.
};

json::Value to_json(const Delivery& delivery);
Result<Delivery> delivery_from_json(const json::Value& value);

/// `{"state": "running"}`: what a worker answers once the delivery has its effect.
json::Value delivery_answer_to_json(SandboxState state);
Result<SandboxState> delivery_answer_from_json(const json::Value& value);

// --- What a worker says of its sandboxes
// ----------------------------------------------------------

json::Value to_json(const SandboxReport& report);
Result<SandboxReport> sandbox_report_from_json(const json::Value& value);

/// `{"sandboxes": [...]}`, the answer to `GET /v1/inventory`.
json::Value inventory_to_json(const std::vector<SandboxReport>& sandboxes);
Result<std::vector<SandboxReport>> inventory_from_json(const json::Value& value);

json::Value to_json(const SandboxStats& stats);
Result<SandboxStats> stats_from_json(const json::Value& value);

/// `{"denied": [...]}`.
json::Value denied_to_json(const std::vector<DeniedEgress>& denied);
Result<std::vector<DeniedEgress>> denied_from_json(const json::Value& value);

// --- What a worker says of itself
// -----------------------------------------------------------------

struct WorkerFacts {
  /// What its driver proved.
  DriverCapabilities driver;
  std::int64_t max_sandboxes = 0;
  std::int64_t max_starting = 0;
  std::map<std::string, std::string> labels{};
  /// What it complains of (its engine does not answer, its disk is full); "" when it is well. It
  /// gets no new work then.
  std::string problem{};
};

/// One line of a heartbeat's list: the inventory without what cannot change.
struct HeartbeatSandbox {
  SandboxId sandbox;
  std::int64_t generation = 0;
  SandboxState state = SandboxState::kError;
  WallTime expires_at{};
  std::string reason{};
  std::string structure{};
};

/// `POST /v1/worker/heartbeat`. Read it with `kInventoryLimits`.
struct Heartbeat {
  WorkerFacts facts;
  std::vector<HeartbeatSandbox> sandboxes{};
  /// The worker can take another credential, when the controller finds that it is time.
  bool renew = false;
};

json::Value to_json(const Heartbeat& heartbeat);
Result<Heartbeat> heartbeat_from_json(const json::Value& value);

struct HeartbeatAnswer {
  std::chrono::milliseconds interval{};
  /// The worker's next credential, only when it asked; empty: it keeps the one that it has.
  std::string credential{};
};

/// `{"interval_ms": n, "credential"?: "wk_..."}`.
json::Value to_json(const HeartbeatAnswer& answer);
Result<HeartbeatAnswer> heartbeat_answer_from_json(const json::Value& value);

/// `POST /v1/worker/join`: `name` and whatever of a heartbeat's facts is known already.
struct JoinRequest {
  std::string name{};
  WorkerFacts facts;
};

json::Value to_json(const JoinRequest& request);
Result<JoinRequest> join_request_from_json(const json::Value& value);

struct JoinAnswer {
  WorkerId worker;
  ControllerId controller;
  std::string workspace{};  ///< "" for the unscoped fleet.
  std::string credential{};
};

json::Value to_json(const JoinAnswer& answer);
Result<JoinAnswer> join_answer_from_json(const json::Value& value);

}  // namespace sandboxkit::wire
