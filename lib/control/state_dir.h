#pragma once

#include "sandboxkit/result.h"

#include "io/fd.h"

#include <string>

namespace sandboxkit::control {

/// Makes the folder (mode 0700, also when it stood with another mode) and locks it, so that two
/// controllers never share a store. The lock lives as long as the descriptor.
/// Errors: kInvalidArgument `state_dir`; kUnavailable when another process holds it.
Result<io::Fd> open_state_dir(const std::string& path);

/// Writes a secret for its owner alone (0600), whole or not at all.
Status write_secret_file(const std::string& path, const std::string& text);

}  // namespace sandboxkit::control
