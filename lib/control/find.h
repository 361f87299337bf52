#pragma once

#include "control/auth.h"
#include "store/store.h"

#include <string>

namespace sandboxkit::control {

/// A sandbox that the caller may see: of his workspace, by id or by name; for a sandbox's token
/// that one alone, by its id. Foreign and absent take the same path and give the same error.
/// Errors: kNotFound `sandbox_not_found`; those of the store.
Result<store::SandboxRow> find_sandbox(store::Tx& tx, const Caller& caller,
                                       const std::string& id_or_name);
Result<store::SandboxRow> find_sandbox(store::Store& store, const Caller& caller,
                                       const std::string& id_or_name);

/// A worker that the caller may see: its own and unscoped ones. Errors: kNotFound
/// `worker_not_found`.
Result<store::WorkerRow> find_worker(store::Tx& tx, const std::string& tenant,
                                     const std::string& id);

}  // namespace sandboxkit::control
