#pragma once

#include "sandboxkit/egress.h"

#include "control/services.h"
#include "json/value.h"

#include <optional>

namespace sandboxkit::control {

/// What a caller wants of a sandbox's egress.
struct EgressChange {
  EgressPolicy policy;
  /// Narrow the wall of the sandbox that runs; else the policy is for the next creation alone.
  bool now = false;
};

/// `{"allowed_domains", "allowed_networks"?, ..., "apply"?: "next_creation"|"now"}`.
/// Errors: kInvalidArgument with the field's path.
Result<EgressChange> egress_change_from(const json::Value& body);

/// Records the policy for the next creation and, when it is wanted now and narrows what is in
/// force, orders the worker to narrow the wall. Inside of the caller's transaction, with its line
/// in the audit log; the same change again does nothing. `row` names the sandbox and is what stands
/// afterwards. Errors: kNotFound; the store's.
Status request_egress(const Context& context, store::Tx& tx, const Caller& caller,
                      const EgressChange& change, store::SandboxRow& row,
                      std::optional<net::ApiResponse>& refusal);

/// What the worker tells of a wall and what the row says differ: the row learns of what is in
/// force, and a narrowing that is not is ordered (again).
Status align_wall(store::Tx& tx, store::SandboxRow& row, const SandboxReport& report, WallTime now);

/// `egress` of a create may be `{"recorded_of": "<id>"}`: the policy that was recorded for the next
/// creation of that sandbox. The body with the policy itself in it.
/// Errors: kNotFound; kConflict `no_recorded_egress`; kInvalidArgument.
Result<json::Value> with_recorded_egress(store::Store& store, const Caller& caller,
                                         json::Value body);

}  // namespace sandboxkit::control
