#pragma once

#include "sandboxkit/driver.h"

namespace sandboxkit::local {

/// Time and memory of a box's first process and of everything below it, which is all of the box:
/// whoever loses its parent there becomes the first one's child. Read from /proc, process by
/// process; what ends meanwhile may be missed.
SandboxStats stats_of_box(int first);

}  // namespace sandboxkit::local
