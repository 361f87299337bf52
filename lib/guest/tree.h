#pragma once

#include "sandboxkit/result.h"

#include <string>

namespace sandboxkit::guest {

/// Removes a file, a link, or a directory; one with entries only when `recursive`. Links are not
/// followed. What cannot be removed ends it with the first error.
/// Errors: as `file_error`; kInvalidArgument for `/` and for a tree deeper than kMaxTreeDepth.
Status remove_path(const std::string& path, bool recursive);

}  // namespace sandboxkit::guest
