#pragma once

#include "sandboxkit/result.h"

#include <optional>
#include <string>

namespace sandboxkit::work {

/// Makes the folder, or closes it to other users (mode 0700).
/// Errors: kInvalidArgument when it is no folder or belongs to somebody else.
Status make_state_dir(const std::string& path);

/// Nothing when there is no such file. Errors: also when others may read it.
Result<std::optional<std::string>> read_private_file(const std::string& path);
/// Whole or not at all, on the disk when it returns; mode 0600.
Status write_private_file(const std::string& path, const std::string& text);

}  // namespace sandboxkit::work
