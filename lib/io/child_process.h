#pragma once

#include "sandboxkit/result.h"

#include "io/fd.h"

#include <string>
#include <vector>

#include <sys/types.h>

namespace sandboxkit::io {

/// A child that runs.
struct Child {
  pid_t pid = 0;
  Fd pidfd{};   ///< Readable once it ended; nobody reaps it but who holds this.
  Fd errors{};  ///< The read end of its standard error; does not block.
};

/// What a child is born with.
struct SpawnOrder {
  std::string program;
  std::vector<std::string> arguments{};
  /// Become descriptors 3, 4, ... in this order; every other one of ours is closed in the child.
  std::vector<int> descriptors{};
  /// `NAME=VALUE`; nothing else of ours is there.
  std::vector<std::string> environment{};
};

/// Starts a program in a session of its own, with no signal blocked or ignored, 0 and 1 at
/// /dev/null and standard error in a pipe that never blocks it. Errors: kUnavailable and the
/// system's.
Result<Child> spawn(const SpawnOrder& order);

}  // namespace sandboxkit::io
