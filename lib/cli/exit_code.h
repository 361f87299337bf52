#pragma once

#include "sandboxkit/result.h"

#include <string>

namespace sandboxkit::cli {

/// What the command's exit status says. Stable; `sandboxkit --help` lists them.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;    ///< Bad options, bad input.
inline constexpr int kExitRefused = 3;  ///< By policy, placement, role or limit.
inline constexpr int kExitNotFound = 4;
inline constexpr int kExitUnavailable = 5;      ///< Controller or worker do not answer: try again.
inline constexpr int kExitUnauthenticated = 6;  ///< No key, or one that does not count.
inline constexpr int kExitTimedOut = 124;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitCommandNotFound = 127;
inline constexpr int kExitSignalBase = 128;  ///< And the signal's number.
inline constexpr int kExitInterrupted = 130;
inline constexpr int kExitBrokenPipe = 141;

int exit_code_of(const Error& error);

/// What to do about it, where the error itself does not say; or "".
std::string way_out(const Error& error);

/// Prints `sandboxkit: <message>` and the way out on standard error; returns the exit code.
int fail(const Error& error);

/// The error of a wrong option or argument.
Error usage_error(std::string message);

}  // namespace sandboxkit::cli
