#pragma once

#include "sandboxkit/approvals.h"

#include "json/value.h"

#include <cstddef>
#include <vector>

namespace sandboxkit::wire {

/// What one worker's questions may take together; those that have no room are left for later.
inline constexpr std::size_t kMaxApprovalBytes = 3 << 20;

/// `{"approvals": [{"asked_at", "expires_at", "prompt": {...}}]}`, the oldest first.
json::Value approvals_to_json(const std::vector<Approval>& approvals);
/// Limits: ApprovalBoard::kMaxWaiting, and those of `parse_prompt`. Errors: kInvalidArgument with
/// the field's path.
Result<std::vector<Approval>> approvals_from_json(const json::Value& value);

}  // namespace sandboxkit::wire
