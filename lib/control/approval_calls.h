#pragma once

#include "sandboxkit/approvals.h"

#include "control/services.h"
#include "json/value.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::control {

/// Workers that one call asks; a workspace with more agent-mode machines sees the first ones.
inline constexpr std::size_t kMaxAskedWorkers = 64;
/// How often workers are asked while somebody waits for a question.
inline constexpr std::chrono::milliseconds kApprovalPause{1'000};
inline constexpr std::chrono::seconds kMaxApprovalWait{60};
/// Calls that wait at one time, of all workspaces.
inline constexpr std::size_t kMaxApprovalWaits = 64;

/// The name of a question for a client: `<sandbox>.<prompt>`.
struct ApprovalName {
  std::string sandbox;
  std::string prompt;
};
std::optional<ApprovalName> approval_name_from(const std::string& text);

/// A question as a client sees it.
json::Value approval_view(const Approval& approval, const std::string& worker);

/// Gathers what waits on the workspace's agent-mode machines; with `wait` it goes on until there is
/// something, or the time is over. A worker's question counts for a sandbox of the caller's
/// workspace that runs on that worker, and for no other. `done` comes once, on the loop's thread.
/// Thread-safety: any thread.
void gather_approvals(Services& services, const Caller& caller, std::chrono::seconds wait,
                      std::function<void(Result<json::Array>)> done);

}  // namespace sandboxkit::control
