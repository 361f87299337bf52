#include "wire/connect.h"

#include "base/check.h"

#include <cstdlib>
#include <limits>
#include <utility>

namespace sandboxkit::wire {
namespace {

constexpr std::size_t kPrefixBytes = 5;

std::size_t length_in(std::string_view prefix) {
  std::size_t length = 0;
  for (std::size_t i = 1; i < kPrefixBytes; ++i) {
    length = (length << 8) | static_cast<unsigned char>(prefix[i]);
  }
  return length;
}

}  // namespace

std::string connect_envelope(std::uint8_t flags, std::string_view json) {
  SANDBOXKIT_CHECK(json.size() <= std::numeric_limits<std::uint32_t>::max(),
                   "we never make a message of 4 GiB");
  std::string out;
  out.reserve(kPrefixBytes + json.size());
  out.push_back(static_cast<char>(flags));
  for (int shift = 24; shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>((json.size() >> shift) & 0xff));
  }
  out += json;
  return out;
}

std::string connect_end(const std::optional<Error>& error) {
  const json::Value body =
      error ? json::Object{{"error", connect_error_body(*error)}} : json::Object{};
  return connect_envelope(kConnectEndStream, json::dump(body));
}

const char* connect_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kTooLarge:
      return "invalid_argument";
    case ErrorCode::kUnauthenticated:
      return "unauthenticated";
    case ErrorCode::kPermissionDenied:
      return "permission_denied";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kConflict:
      return "already_exists";
    case ErrorCode::kResourceExhausted:
      return "resource_exhausted";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kDeadlineExceeded:
      return "deadline_exceeded";
    case ErrorCode::kCancelled:
      return "canceled";
    case ErrorCode::kInternal:
      return "internal";
  }
  std::abort();
}

int connect_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kTooLarge:
      return 400;
    case ErrorCode::kUnauthenticated:
      return 401;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kConflict:
      return 409;
    case ErrorCode::kResourceExhausted:
      return 429;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kDeadlineExceeded:
      return 504;
    case ErrorCode::kCancelled:
      return 499;
    case ErrorCode::kInternal:
      return 500;
  }
  std::abort();
}

json::Value connect_error_body(const Error& error) {
  return json::Object{{"code", connect_code(error.code)}, {"message", error.message}};
}

Result<std::optional<ConnectMessage>> ConnectDecoder::next() {
  const std::string_view waiting = std::string_view(buffer_).substr(taken_);
  if (waiting.size() < kPrefixBytes) {
    return std::optional<ConnectMessage>();
  }
  const auto flags = static_cast<std::uint8_t>(waiting.front());
  if ((flags & ~kConnectEndStream) != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "envelope has unknown flags (compression is not spoken)", "bad_envelope"};
  }
  const std::size_t length = length_in(waiting);
  if (length > max_) {
    return Error{ErrorCode::kTooLarge, "message is larger than " + std::to_string(max_) + " bytes"};
  }
  if (waiting.size() < kPrefixBytes + length) {
    return std::optional<ConnectMessage>();
  }
  ConnectMessage message{flags, std::string(waiting.substr(kPrefixBytes, length))};
  taken_ += kPrefixBytes + length;
  // Moved to the front only now and then: a read may hold thousands of small messages.
  if (taken_ > buffer_.size() / 2) {
    buffer_.erase(0, taken_);
    taken_ = 0;
  }
  return std::optional(std::move(message));
}

}  // namespace sandboxkit::wire
