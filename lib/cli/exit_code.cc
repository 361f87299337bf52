#include "cli/exit_code.h"

#include "cli/terminal.h"
#include "cli/text.h"

#include <utility>

namespace sandboxkit::cli {

int exit_code_of(const Error& error) {
  if (error.reason == "command_not_found") {
    return kExitCommandNotFound;
  }
  if (error.reason == "command_not_executable") {
    return kExitNotExecutable;
  }
  if (error.reason == "no_capacity") {
    return kExitRefused;
  }
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return kExitUsage;
    case ErrorCode::kUnauthenticated:
      return kExitUnauthenticated;
    case ErrorCode::kPermissionDenied:
    case ErrorCode::kConflict:
    case ErrorCode::kResourceExhausted:
      return kExitRefused;
    case ErrorCode::kNotFound:
      return kExitNotFound;
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded:
      return kExitUnavailable;
    case ErrorCode::kTooLarge:
    case ErrorCode::kCancelled:
    case ErrorCode::kInternal:
      return kExitFailure;
  }
  return kExitFailure;
}

std::string way_out(const Error& error) {
  if (error.reason == "controller_unavailable") {
    return "is it running? SANDBOXKIT_URL or --url names it";
  }
  if (error.reason == "no_capacity" || error.reason == "worker_unreachable" ||
      error.reason == "overloaded") {
    return "try again in a moment; `sandboxkit workers` shows the fleet";
  }
  if (error.reason == "worker_capability_unavailable") {
    return "`sandboxkit workers` shows what the fleet can do";
  }
  if (error.code == ErrorCode::kUnauthenticated) {
    return "set SANDBOXKIT_KEY, or run `sandboxkit login`";
  }
  if (error.reason == "owner_required") {
    return "use an owner's key of the workspace";
  }
  if (error.reason == "sandbox_not_found") {
    return "`sandboxkit ls` shows what runs";
  }
  return {};
}

int fail(const Error& error) {
  std::string line = "sandboxkit: " + printable(error.message);
  // A path into a document helps; the name of a single value says nothing new.
  const bool is_path = error.field.find_first_of(".[") != std::string::npos;
  if (is_path && error.message.find(error.field) == std::string::npos) {
    line += " (" + printable(error.field) + ")";
  }
  line += "\n";
  if (const std::string hint = way_out(error); !hint.empty()) {
    line += "  " + hint + "\n";
  }
  write_all(kStandardError, line);
  return exit_code_of(error);
}

Error usage_error(std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message)};
}

}  // namespace sandboxkit::cli
