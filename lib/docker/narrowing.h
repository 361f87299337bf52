#pragma once

#include "sandboxkit/egress.h"
#include "sandboxkit/result.h"

#include "egress/config.h"

#include <optional>
#include <string>

namespace sandboxkit::docker {

// What the policy of a sandbox that runs was narrowed to: a file beside the sealed policy, which a
// proxy that starts again reads as well. `folder` is the sandbox's egress folder.

/// The narrowed policy; nullopt when it never was. Errors: kInternal when the file cannot be read:
/// a proxy would not start with it either.
Result<std::optional<egress::NarrowedPolicy>> read_narrowing(const std::string& folder);

/// Writes the file anew, durably and whole, when the policy narrows what is in force by the files.
/// Errors: kConflict `policy_widens`; kUnavailable.
Status write_narrowing(const std::string& folder, const egress::NarrowedPolicy& narrowed);

/// A folder that is used again starts without one.
void forget_narrowing(const std::string& folder);

}  // namespace sandboxkit::docker
