#pragma once

#include <sys/resource.h>

namespace sandboxkit::daemons {

/// Every stream, guest and connection is a descriptor: takes as many as the machine's owner allows.
inline void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

}  // namespace sandboxkit::daemons
