#pragma once

#include "sandboxkit/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sandboxkit::wire {

/// Fields in order; names as they came. Look-up ignores case.
class Headers {
 public:
  void add(std::string name, std::string value) {
    fields_.emplace_back(std::move(name), std::move(value));
  }
  void set(std::string_view name, std::string value);  ///< Replaces all fields of that name.
  void remove(std::string_view name);
  const std::string* find(std::string_view name) const;
  std::size_t count(std::string_view name) const;
  /// Whether a comma-separated field holds the token, ignoring case (`Connection: upgrade`).
  bool has_token(std::string_view name, std::string_view token) const;
  const std::vector<std::pair<std::string, std::string>>& fields() const { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct HeadLimits {
  std::size_t max_bytes = 16 * 1024;
  std::size_t max_fields = 100;
};

/// How a message's body is framed.
enum class Framing : std::uint8_t { kNone, kLength, kChunked, kUntilClose };

struct BodyFraming {
  Framing kind = Framing::kNone;
  std::uint64_t length = 0;
};

struct RequestHead {
  std::string method;
  std::string target;  ///< Raw, as it stood in the request line.
  int minor_version = 1;
  Headers headers{};
  BodyFraming body{};
  bool keep_alive = true;
};

struct ResponseHead {
  int status = 200;
  std::string reason{};
  int minor_version = 1;
  Headers headers{};
  BodyFraming body{};
  bool keep_alive = true;
};

/// The length of a complete head at the start of `buffer` (blank line included), 0 when it is not
/// complete yet. Looks for CRLF CRLF only.
std::size_t find_head_end(std::string_view buffer);

/// Strict HTTP/1.x: CRLF only, no folding, no space before a colon, no controls or NUL in a value,
/// one Host in HTTP/1.1, `Content-Length` in digits and at most once, never beside
/// `Transfer-Encoding`, which may say `chunked` alone.
/// Errors: kInvalidArgument `bad_request` (or `bad_response`), kTooLarge `head_too_large`.
/// Source: RFC 9112, and the attack list of the wall.
Result<RequestHead> parse_request_head(std::string_view head, const HeadLimits& limits = {});
/// `request_method` decides the framing (HEAD has no body).
Result<ResponseHead> parse_response_head(std::string_view head, std::string_view request_method,
                                         const HeadLimits& limits = {});

/// Writes the fields as they are; a line break or a NUL in one becomes a blank.
std::string serialize(const RequestHead& head);
std::string serialize(const ResponseHead& head);  ///< Fills an empty reason from the status.
const char* reason_phrase(int status);

/// Decodes a body piece by piece, chunked or by length.
class BodyDecoder {
 public:
  explicit BodyDecoder(BodyFraming framing);

  /// Takes bytes from the front of `input` and appends payload to `payload`; stops at the body's
  /// end, so what is left in `input` belongs to the next message.
  /// Errors: kInvalidArgument for a broken chunk line, and for every call after it; trailers are
  /// read (bounded) and dropped.
  Status feed(std::string_view& input, std::string& payload);
  bool done() const { return done_; }

 private:
  Status feed_chunked(std::string_view& input, std::string& payload);
  void take_data(std::string_view& input, std::string& payload);
  /// True once `line_` holds a whole line, without its CRLF.
  Result<bool> take_line(std::string_view& input, std::size_t max_bytes);
  Status end_line();
  enum class ChunkState : std::uint8_t { kSize, kData, kDataEnd, kTrailer };
  BodyFraming framing_;
  std::uint64_t left_ = 0;
  ChunkState chunk_state_ = ChunkState::kSize;
  std::string line_;
  std::size_t trailer_bytes_ = 0;
  bool done_ = false;
  bool broken_ = false;
};

/// One chunk of a chunked body (an empty `data` gives nothing: the last chunk is `kLastChunk`).
std::string chunk(std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

/// A request target in origin form, taken apart and decoded.
struct Target {
  std::string path;  ///< Percent-decoded; no NUL, no escaped slash, no `.` or `..` segment.
  std::string raw_path;
  std::vector<std::pair<std::string, std::string>> query;
  std::string raw_query;
  std::optional<std::string> query_value(std::string_view name) const;
};
/// Errors: kInvalidArgument `bad_request`.
Result<Target> parse_target(std::string_view target);

}  // namespace sandboxkit::wire
