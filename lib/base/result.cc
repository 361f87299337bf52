#include "sandboxkit/result.h"

#include <cstdio>
#include <cstdlib>

namespace sandboxkit {

const char* name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kUnauthenticated:
      return "unauthenticated";
    case ErrorCode::kPermissionDenied:
      return "permission_denied";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kConflict:
      return "conflict";
    case ErrorCode::kTooLarge:
      return "too_large";
    case ErrorCode::kResourceExhausted:
      return "resource_exhausted";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kDeadlineExceeded:
      return "deadline_exceeded";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kInternal:
      return "internal";
  }
  std::abort();
}

std::string reason_of(const Error& error) {
  return error.reason.empty() ? name_of(error.code) : error.reason;
}

void detail::bad_result_access(const char* what) {
  std::fprintf(stderr, "bad access to a Result: %s\n", what);
  std::abort();
}

}  // namespace sandboxkit
