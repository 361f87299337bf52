#pragma once

#include "sandboxkit/box_plan.h"
#include "sandboxkit/result.h"

#include <map>
#include <string>

namespace sandboxkit::box {

/// Names that are held by empty files would be noise to git, `git add -A` would take them in, and
/// would fail at what cannot be read: writes a list of both below `state_dir`, and makes it a place
/// of the plan. Returns the variables that tell git of it.
/// Errors: kUnavailable and the system's.
Result<std::map<std::string, std::string>> hide_from_git(BoxPlan& plan,
                                                         const std::string& state_dir);

}  // namespace sandboxkit::box
