#pragma once

#include <sys/types.h>

namespace sandboxkit::guest {

/// SIGKILL to the process group `leader` and to every process whose session it leads: a shell with
/// job control puts its children into groups of their own.
void kill_session(pid_t leader);

}  // namespace sandboxkit::guest
