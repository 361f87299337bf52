#pragma once

#include "sandboxkit/placement.h"

#include "control/services.h"
#include "net/api_server.h"

#include <cstdint>
#include <optional>
#include <string>

namespace sandboxkit::control {

/// A create whose input was checked. Nothing in it comes from the body but the spec.
struct CreateOrder {
  Caller caller;
  TenantId tenant;
  SandboxSpec spec;
  std::string id;               ///< Of the sandbox, if one is made.
  std::string idempotency_key;  ///< Empty: none.
  std::string request_hash;
  std::uint64_t seed = 0;
};

/// What the one transaction of a create decided.
struct CreateDecision {
  /// Set: the create is refused, nothing was written.
  std::optional<net::ApiResponse> refusal;
  store::SandboxRow row{};
  /// The row stood already: same idempotency key, or same live name and spec.
  bool existing = false;
};

/// One transaction {idempotency key, name, admission, Scheduler, sandbox row, delivery, audit}.
/// Errors: those of the store; the caller answers them as they are.
Result<CreateDecision> decide_create(Context& context, const CreateOrder& order);

/// What a spec needs from a worker.
PlacementRequest placement_request(const TenantId& tenant, const SandboxSpec& spec);

/// Takes back a create that did not run in time, if it still does not run.
Result<store::SandboxRow> abort_create(Context& context, const std::string& tenant,
                                       const std::string& id);

}  // namespace sandboxkit::control
