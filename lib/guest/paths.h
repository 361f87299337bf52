#pragma once

#include "sandboxkit/result.h"

#include <string>
#include <string_view>

namespace sandboxkit::guest {

/// A caller's path as an absolute one without `.`, `..` and doubled slashes: absolute, `~`, `~/x`,
/// or relative to `home`; empty is `home`. Errors: kInvalidArgument with field `path` for a NUL,
/// and for what PATH_MAX or NAME_MAX refuse. Source: design of the E2B surface, 4.1.
Result<std::string> resolve_path(std::string_view path, const std::string& home);

std::string parent_of(const std::string& absolute);
std::string name_of_path(const std::string& absolute);

}  // namespace sandboxkit::guest
