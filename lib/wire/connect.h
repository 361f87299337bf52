#pragma once

#include "sandboxkit/result.h"

#include "json/value.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sandboxkit::wire {

/// Connect protocol, JSON codec (the part that E2B's SDKs speak). Source: design of the E2B
/// surface, 4.2.
inline constexpr std::uint8_t kConnectEndStream = 0x02;

/// `[flags u8][length u32 big-endian][json]`.
std::string connect_envelope(std::uint8_t flags, std::string_view json);
/// The last envelope of a stream: `{}` or `{"error": {...}}`.
std::string connect_end(const std::optional<Error>& error);
/// `not_found`, `invalid_argument`, ... and its HTTP status for unary calls.
const char* connect_code(ErrorCode code);
int connect_status(ErrorCode code);
/// `{"code":"not_found","message":"..."}`.
json::Value connect_error_body(const Error& error);

struct ConnectMessage {
  std::uint8_t flags = 0;
  std::string json;
};

/// Takes envelopes out of a byte stream.
class ConnectDecoder {
 public:
  explicit ConnectDecoder(std::size_t max_message_bytes) : max_(max_message_bytes) {}
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  /// The next whole message; an empty optional when more bytes are needed.
  /// Errors: kTooLarge, kInvalidArgument for unknown flags (compression is not spoken).
  Result<std::optional<ConnectMessage>> next();

 private:
  std::size_t max_;
  std::string buffer_;
  std::size_t taken_ = 0;  ///< Bytes at the front of `buffer_` that were given out.
};

}  // namespace sandboxkit::wire
