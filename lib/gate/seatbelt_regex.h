#pragma once

#include "gate/pattern.h"

#include <optional>
#include <string>

namespace sandboxkit::gate {

/// A denial's pattern as an extended regular expression over whole paths, in letters that cannot
/// end the text it stands in. It matches all that the pattern matches, in any case, and where a
/// letter is no ASCII a little more. `whole`: the path itself, not what lies below it.
std::string folded_regex(const PathPattern& pattern, bool whole);

/// An allowance's pattern, below `root` (empty: by itself). It matches no more than the pattern;
/// nullopt where that cannot be said.
std::optional<std::string> exact_regex(const PathPattern& pattern, const std::string& root);

}  // namespace sandboxkit::gate
