#pragma once

#include "sandboxkit/placement.h"

#include "json/value.h"
#include "store/store.h"
#include "wire/messages.h"

#include <string>

namespace sandboxkit::control {

/// Rows as the API shows them, and rows as the scheduler sees them. Pure.

json::Value sandbox_view(const store::SandboxRow& row);
json::Value key_view(const store::CredentialRow& row);
json::Value sandbox_token_view(const store::CredentialRow& row);
json::Value join_token_view(const store::CredentialRow& row);
json::Value workspace_view(const store::WorkspaceRow& row);

/// How well a worker is heard at one moment.
struct Hearing {
  bool online = false;  ///< Its tunnel stands and its inventory is settled.
  WallTime now{};
  WallTime controller_started{};
  std::chrono::milliseconds unreachable_after{};
  std::chrono::milliseconds lost_after{};
  /// The last heartbeat that this controller got; a row may know of an earlier one only.
  std::optional<WallTime> heard{};
};

/// When a worker was last heard of; never before the controller's own start.
WallTime last_heard(const store::WorkerRow& row, const Hearing& hearing);
/// The state that people see: what its owner wants, unless it is not heard.
WorkerState seen_state(const store::WorkerRow& row, const Hearing& hearing);
json::Value worker_view(const store::WorkerRow& row, const store::Tx::Use& use,
                        const Hearing& hearing);
/// Errors: kInternal when a row of ours cannot be read: it gets no work then.
Result<WorkerView> scheduler_view(const store::WorkerRow& row, const store::Tx::Use& use,
                                  const Hearing& hearing);

/// What a worker tells of itself, into its row: of its capabilities those that its join token let
/// through. One that complains before it could look at its engine says nothing of what it can: what
/// it proved before stands, or callers would be told that nobody ever could.
void apply_facts(store::WorkerRow& row, const wire::WorkerFacts& facts);

/// Whether a sandbox's state is an end.
bool is_ended(const std::string& state);
bool is_waiting_to_run(const std::string& state);  ///< pending, starting.

}  // namespace sandboxkit::control
