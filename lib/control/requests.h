#pragma once

#include "control/services.h"

#include <optional>
#include <vector>

namespace sandboxkit::control {

/// What callers want of sandboxes and workers, written down inside of the caller's transaction,
/// each with its line in the audit log. What it takes to make it true is queued in the same
/// transaction. No threads or tunnels in here, so that a model can drive it.

/// Wants a sandbox gone. `row` names it, and is what stands afterwards: `stopping` when its worker
/// must do something first. One that is going, or gone, already is left alone.
/// Errors: kNotFound; the store's.
Status request_delete(const Context& context, store::Tx& tx, const Caller& caller,
                      store::SandboxRow& row);

/// Wants another end of its time. Compare-and-set: a sandbox that ended meanwhile stays ended, and
/// `refusal` says so. Errors: kNotFound; the store's.
Status request_renewal(const Context& context, store::Tx& tx, const Caller& caller,
                       WallTime expires, store::SandboxRow& row,
                       std::optional<net::ApiResponse>& refusal);

/// Removes a worker for good: its credentials die with it, so it cannot come back, and its
/// sandboxes end. While its tunnel stands the caller orders what it runs to be removed; else it
/// ends by its own clock. The changed sandboxes.
Result<std::vector<store::SandboxRow>> request_worker_removal(const Context& context, store::Tx& tx,
                                                              const Caller& caller,
                                                              const store::WorkerRow& worker);

}  // namespace sandboxkit::control
