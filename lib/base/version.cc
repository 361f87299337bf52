#include "sandboxkit/version.h"

namespace sandboxkit {

const char* version() { return SANDBOXKIT_VERSION; }

}  // namespace sandboxkit
