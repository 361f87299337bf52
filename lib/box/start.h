#pragma once

#include "sandboxkit/box.h"

#include "box/launch.h"
#include "io/fd.h"

#include <chrono>

namespace sandboxkit::box {

/// A box's first process.
struct Started {
  pid_t pid = 0;
  io::Fd pidfd{};
  io::Fd control{};
  io::Fd terminal{};
  io::Fd listener{};
  /// Only with a broker.
  io::Fd broker{};
  io::Fd broker_pidfd{};
};

/// Landlock's version here; 0 when there is none.
int landlock_abi();

/// Starts the process and waits for what it says. `launch` has everything but descriptors of ours.
/// Errors: as Box::start, and kDeadlineExceeded.
Result<Started> start_process(Launch& launch, std::chrono::milliseconds limit,
                              const std::string& program, bool with_broker);

/// Ends a process by its descriptor and takes its status.
void end_process(const io::Fd& pidfd);

}  // namespace sandboxkit::box
