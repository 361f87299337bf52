#pragma once

#include "sandboxkit/result.h"

#include <string>

namespace sandboxkit::egress {

/// Waits until the folder has a file of that name, which has to be put there whole (by a rename).
/// False when `stop_fd` became readable first.
/// Errors: when the folder cannot be watched or waited for. Blocking: without a limit.
Result<bool> wait_for_file(const std::string& folder, const std::string& name, int stop_fd);

}  // namespace sandboxkit::egress
