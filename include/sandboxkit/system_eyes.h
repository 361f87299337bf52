#pragma once

#include "sandboxkit/export.h"
#include "sandboxkit/file_eyes.h"

namespace sandboxkit {

/// The real file system, by openat2: no path goes through a link of the kernel that is no text, and
/// what was seen step by step is compared with what the kernel finds for the whole path.
///
/// Limits: 256 directories a path, 40 links, 200,000 entries and 128 levels a walk.
/// Errors: also kUnavailable when it changes while we look, or where the kernel has no openat2
/// (Linux before 5.6). Blocking: for as long as the file system does.
SANDBOXKIT_API const FileEyes& system_eyes();

}  // namespace sandboxkit
