#pragma once

namespace sandboxkit {

/// Prints where and why, then ends the process: for defects of ours, never for a peer's input.
[[noreturn]] void check_failed(const char* condition, const char* why, const char* file, int line);

}  // namespace sandboxkit

#define SANDBOXKIT_CHECK(condition, why)                               \
  do {                                                                 \
    if (!(condition)) {                                                \
      ::sandboxkit::check_failed(#condition, why, __FILE__, __LINE__); \
    }                                                                  \
  } while (false)
