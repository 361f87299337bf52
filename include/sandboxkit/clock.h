#pragma once

#include "sandboxkit/export.h"

#include <chrono>

namespace sandboxkit {

/// Wall-clock time with millisecond precision: deadlines that outlive a process.
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::milliseconds>;

/// Where time comes from. Embedders and tests replace it.
/// Thread-safety: any thread.
class SANDBOXKIT_API Clock {
 public:
  virtual ~Clock() = default;
  virtual WallTime now() const = 0;
};

/// The machine's own clock. Lives as long as the process.
SANDBOXKIT_API Clock& system_clock();

}  // namespace sandboxkit
