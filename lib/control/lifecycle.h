#pragma once

#include "sandboxkit/controller.h"

#include "store/store.h"
#include "wire/messages.h"
#include "wire/trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sandboxkit::control {

/// How rows change. Each function works inside of the caller's transaction and touches nothing
/// else.

/// The reason that an aborted create leaves; its removal ends as `error`, not as `deleted`.
inline constexpr const char* kCreateTimeout = "create_timeout";
/// Tombstone of what a drain stopped at its deadline.
inline constexpr const char* kReasonDrained = "drained";

/// Wants a sandbox gone: `stopping`, queued orders dropped (a remove supersedes a pending create),
/// the remove queued with the trace of the call that asked, if one did. False when the row changed
/// under us.
Result<bool> begin_removal(store::Tx& tx, store::SandboxRow& row, const std::string& reason,
                           WallTime now, const wire::Trace& trace = {});

/// What a row that is `stopping` is once its sandbox is gone.
const char* state_when_removed(const store::SandboxRow& row);

/// Writes an end. False when the row changed under us.
Result<bool> end_sandbox(store::Tx& tx, store::SandboxRow& row, const std::string& state,
                         const std::string& reason, WallTime now);

/// What a report of a worker brought about.
struct ReportOutcome {
  std::vector<store::SandboxRow> changed{};
  /// Sandboxes that must not run: orders for the worker, without a row to wait for.
  std::vector<wire::Delivery> strays{};
  /// What the heartbeat says does not fit: only the tunnel's inventory may decide it.
  bool doubtful = false;
};

/// Settles what a heartbeat says of a worker's sandboxes: ends of current generations, and the
/// return of lost ones. A lost one whose place others took meanwhile stays lost.
Result<ReportOutcome> settle_heartbeat(store::Tx& tx, const ControllerConfig& config,
                                       const std::string& worker,
                                       const std::vector<wire::HeartbeatSandbox>& reports,
                                       WallTime now);

/// Settles an inventory. `before` are the worker's rows as they were when the inventory was asked
/// for: only those may become `lost` for being absent.
Result<ReportOutcome> settle_inventory(store::Tx& tx, const ControllerConfig& config,
                                       const std::string& worker,
                                       const std::vector<SandboxReport>& reports,
                                       const std::vector<store::SandboxRow>& before, WallTime now);

/// A worker is gone for good (lost, or removed by its owner): its sandboxes end.
Result<std::vector<store::SandboxRow>> lose_sandboxes(store::Tx& tx, const std::string& worker,
                                                      const std::string& reason, WallTime now);

/// The deadline of a worker's drain has come: what it still runs is stopped, reason `drained`.
/// What is stopping already is left alone. The changed rows.
Result<std::vector<store::SandboxRow>> drain_sandboxes(store::Tx& tx, const std::string& worker,
                                                       WallTime now);

}  // namespace sandboxkit::control
