#pragma once

#include <sys/types.h>
#include <sys/uio.h>

namespace sandboxkit::io {

/// writev for what is no socket, without SIGPIPE: the signal is blocked for the call, and taken
/// back if this call raised it. Returns and sets errno as writev does.
ssize_t write_quietly(int fd, const iovec* pieces, int count);

}  // namespace sandboxkit::io
