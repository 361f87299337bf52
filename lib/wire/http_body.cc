#include "wire/http.h"
#include "wire/http_text.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace sandboxkit::wire {
namespace {

// A size of 15 digits is beyond every body; extensions are read and dropped, so a short line will
// do.
constexpr std::size_t kMaxSizeDigits = 15;
constexpr std::size_t kMaxChunkLineBytes = 256;
constexpr std::size_t kMaxTrailerBytes = 8 * 1024;
constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";

Error broken(const char* what) { return {ErrorCode::kInvalidArgument, what, "bad_request"}; }

/// `size[;extension]`, without its CRLF.
Result<std::uint64_t> chunk_size_of(std::string_view line) {
  const std::string_view digits = line.substr(0, line.find(';'));
  const std::string_view extension = line.substr(digits.size());
  if (digits.empty() || digits.size() > kMaxSizeDigits ||
      digits.find_first_not_of(kHexDigits) != std::string_view::npos) {
    return broken("chunk size is no hexadecimal number");
  }
  if (!detail::is_field_value(extension)) {
    return broken("chunk extension holds a control character");
  }
  std::uint64_t size = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), size, 16);
  return size;
}

bool is_trailer_field(std::string_view line) {
  const auto colon = line.find(':');
  return colon != std::string_view::npos && detail::is_token(line.substr(0, colon)) &&
         detail::is_field_value(line.substr(colon + 1));
}

}  // namespace

BodyDecoder::BodyDecoder(BodyFraming framing) : framing_(framing), left_(framing.length) {
  done_ = framing.kind == Framing::kNone || (framing.kind == Framing::kLength && left_ == 0);
}

Status BodyDecoder::feed(std::string_view& input, std::string& payload) {
  if (done_) {
    return {};
  }
  switch (framing_.kind) {
    case Framing::kNone:
      return {};
    case Framing::kLength:
      take_data(input, payload);
      done_ = left_ == 0;
      return {};
    case Framing::kChunked: {
      Status status =
          broken_ ? Status(broken("body was broken before")) : feed_chunked(input, payload);
      broken_ = !status;
      return status;
    }
    case Framing::kUntilClose:
      payload += input;
      input = {};
      return {};
  }
  return broken("body is framed in no known way");
}

void BodyDecoder::take_data(std::string_view& input, std::string& payload) {
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left_, input.size()));
  payload += input.substr(0, bytes);
  input.remove_prefix(bytes);
  left_ -= bytes;
}

Result<bool> BodyDecoder::take_line(std::string_view& input, std::size_t max_bytes) {
  const auto newline = input.find('\n');
  const std::size_t bytes = newline == std::string_view::npos ? input.size() : newline + 1;
  if (line_.size() + bytes > max_bytes) {
    return broken("line of a chunked body is too long");
  }
  line_ += input.substr(0, bytes);
  input.remove_prefix(bytes);
  if (newline == std::string_view::npos) {
    return false;
  }
  if (!line_.ends_with("\r\n")) {
    return broken("line of a chunked body does not end with CRLF");
  }
  line_.resize(line_.size() - 2);
  return true;
}

Status BodyDecoder::feed_chunked(std::string_view& input, std::string& payload) {
  while (!done_ && !input.empty()) {
    if (chunk_state_ == ChunkState::kData) {
      take_data(input, payload);
      chunk_state_ = left_ == 0 ? ChunkState::kDataEnd : ChunkState::kData;
      continue;
    }
    const bool trailer = chunk_state_ == ChunkState::kTrailer;
    const auto whole = take_line(input, trailer ? kMaxTrailerBytes : kMaxChunkLineBytes);
    if (!whole) {
      return whole.error();
    }
    if (!*whole) {
      return {};
    }
    if (auto status = end_line(); !status) {
      return status;
    }
    line_.clear();
  }
  return {};
}

Status BodyDecoder::end_line() {
  if (chunk_state_ == ChunkState::kDataEnd) {
    if (!line_.empty()) {
      return broken("chunk is longer than its size says");
    }
    chunk_state_ = ChunkState::kSize;
    return {};
  }
  if (chunk_state_ == ChunkState::kSize) {
    const auto size = chunk_size_of(line_);
    if (!size) {
      return size.error();
    }
    left_ = *size;
    chunk_state_ = *size == 0 ? ChunkState::kTrailer : ChunkState::kData;
    return {};
  }
  done_ = line_.empty();
  trailer_bytes_ += line_.size() + 2;
  if (!done_ && (!is_trailer_field(line_) || trailer_bytes_ > kMaxTrailerBytes)) {
    return broken("trailer of a chunked body is broken or too long");
  }
  return {};
}

std::string chunk(std::string_view data) {
  if (data.empty()) {
    return {};
  }
  std::array<char, 2 * sizeof(std::size_t)> digits{};
  const auto [end, problem] =
      std::to_chars(digits.data(), digits.data() + digits.size(), data.size(), 16);
  std::string out(digits.data(), end);
  out.reserve(out.size() + data.size() + 4);
  out += "\r\n";
  out += data;
  out += "\r\n";
  return out;
}

}  // namespace sandboxkit::wire
