#pragma once

#include "sandboxkit/export.h"

namespace sandboxkit {

/// `major.minor.patch` of the linked library.
SANDBOXKIT_API const char* version();

}  // namespace sandboxkit
