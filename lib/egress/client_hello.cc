#include "egress/client_hello.h"

#include <algorithm>
#include <optional>

namespace sandboxkit::egress {
namespace {

constexpr std::uint8_t kChangeCipherSpec = 20;
constexpr std::uint8_t kAlert = 21;
constexpr std::uint8_t kHandshake = 22;
constexpr std::uint8_t kMajorVersion = 3;
constexpr std::uint8_t kClientHello = 1;
constexpr std::uint8_t kServerHello = 2;
constexpr std::size_t kMaxRecordBytes = 16 * 1024;
constexpr std::size_t kMessageHeaderBytes = 4;
constexpr std::size_t kVersionBytes = 2;
constexpr std::size_t kRandomBytes = 32;
constexpr std::size_t kMaxSessionIdBytes = 32;
constexpr std::uint16_t kServerNameExtension = 0;
constexpr std::uint8_t kHostName = 0;
/// A server sends alerts before its hello at most now and then.
constexpr std::size_t kMaxServerBytes = 1024;

/// The random of a ServerHello that is a HelloRetryRequest: SHA-256 of that word.
constexpr std::string_view kRetryRandom =
    "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91"
    "\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c";

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

/// Takes fields from the front of a message. After one that did not fit, nothing fits any more.
class Fields {
 public:
  explicit Fields(std::string_view left) : left_(left) {}

  bool ok() const { return ok_; }
  bool empty() const { return left_.empty(); }

  std::string_view bytes(std::size_t count) {
    ok_ = ok_ && count <= left_.size();
    if (!ok_) {
      return {};
    }
    const std::string_view out = left_.substr(0, count);
    left_.remove_prefix(count);
    return out;
  }
  std::size_t number(std::size_t size) {
    std::size_t value = 0;
    for (const char c : bytes(size)) {
      value = (value << 8U) | static_cast<std::uint8_t>(c);
    }
    return value;
  }
  /// A field behind its own length.
  std::string_view counted(std::size_t size_of_length) { return bytes(number(size_of_length)); }

 private:
  std::string_view left_;
  bool ok_ = true;
};

/// The one name of a server_name extension; nullopt when it holds anything else.
std::optional<std::string_view> one_host_name(std::string_view extension) {
  Fields outer(extension);
  Fields list(outer.counted(2));
  const std::size_t type = list.number(1);
  const std::string_view name = list.counted(2);
  const bool alone = outer.ok() && outer.empty() && list.ok() && list.empty();
  if (!alone || type != kHostName || name.empty()) {
    return std::nullopt;
  }
  return name;
}

/// The server name of a whole ClientHello, empty when it has none; nullopt when it is none.
std::optional<std::string> server_name_of(std::string_view message) {
  Fields fields(message);
  fields.bytes(kMessageHeaderBytes);
  const bool version = fields.number(1) == kMajorVersion;
  fields.bytes(1 + kRandomBytes);
  const std::string_view session = fields.counted(1);
  const std::string_view suites = fields.counted(2);
  const std::string_view compressions = fields.counted(1);
  if (!fields.ok() || !version || session.size() > kMaxSessionIdBytes || suites.empty() ||
      suites.size() % 2 != 0 || compressions.empty()) {
    return std::nullopt;
  }
  std::optional<std::string_view> name;
  Fields extensions(fields.empty() ? std::string_view() : fields.counted(2));
  while (fields.ok() && extensions.ok() && !extensions.empty()) {
    const std::size_t type = extensions.number(2);
    const std::string_view value = extensions.counted(2);
    if (!extensions.ok() || type != kServerNameExtension) {
      continue;
    }
    if (name || !(name = one_host_name(value))) {
      return std::nullopt;
    }
  }
  if (!fields.ok() || !fields.empty() || !extensions.ok()) {
    return std::nullopt;
  }
  return std::string(name.value_or(""));
}

}  // namespace

ClientHelloReader::State ClientHelloReader::feed(std::string_view& input) {
  const std::size_t offered = input.size();
  while (state_ == State::kMore && !input.empty()) {
    if (record_left_ == 0) {
      take_header(input);
    } else {
      take_body(input);
    }
    const std::size_t taken = taken_ + (offered - input.size());
    if (taken > kMaxBytes || (taken == kMaxBytes && state_ == State::kMore)) {
      refuse();
    }
  }
  taken_ += offered - input.size();
  return state_;
}

void ClientHelloReader::take_header(std::string_view& input) {
  header_[header_bytes_++] = byte_at(input, 0);
  input.remove_prefix(1);
  const bool is_cipher_change = header_[0] == kChangeCipherSpec && flight_ == Flight::kSecond &&
                                message_.empty() && cipher_change_.empty();
  // Told by the first bytes: who speaks another protocol may wait for an answer to few of them.
  if ((header_[0] != kHandshake && !is_cipher_change) ||
      (header_bytes_ > 1 && header_[1] != kMajorVersion)) {
    return refuse();
  }
  if (header_bytes_ == kRecordHeaderBytes) {
    header_bytes_ = 0;
    open_record();
  }
}

void ClientHelloReader::open_record() {
  record_left_ = (std::size_t{header_[3]} << 8U) | header_[4];
  const bool is_cipher_change = header_[0] == kChangeCipherSpec;
  if (record_left_ == 0 || record_left_ > kMaxRecordBytes ||
      (is_cipher_change && record_left_ != 1)) {
    refuse();
  }
}

void ClientHelloReader::take_body(std::string_view& input) {
  std::string& to = header_[0] == kChangeCipherSpec ? cipher_change_ : message_;
  const std::size_t count = std::min({record_left_, input.size(), kMaxBytes});
  to += input.substr(0, count);
  input.remove_prefix(count);
  record_left_ -= count;
  if (!message_.empty() && byte_at(message_, 0) != kClientHello) {
    return refuse();
  }
  if (message_.size() < kMessageHeaderBytes) {
    return;
  }
  Fields header(std::string_view(message_).substr(1));
  const std::size_t whole = kMessageHeaderBytes + header.number(3);
  if (whole > kMaxBytes || message_.size() > whole ||
      (message_.size() == whole && record_left_ > 0)) {
    return refuse();
  }
  if (message_.size() == whole) {
    const auto name = server_name_of(message_);
    state_ = name ? State::kHello : State::kNotTls;
    server_name_ = name.value_or("");
  }
}

ServerFlight read_server_flight(std::string_view bytes) {
  constexpr std::size_t kWanted = kMessageHeaderBytes + kVersionBytes + kRandomBytes;
  std::string message;
  std::string_view left = bytes;
  while (message.size() < kWanted) {
    if (!left.empty() && byte_at(left, 0) != kHandshake && byte_at(left, 0) != kAlert) {
      return ServerFlight::kOther;
    }
    Fields fields(left);
    const std::size_t type = fields.number(1);
    fields.bytes(2);
    const std::size_t length = fields.number(2);
    if (!fields.ok()) {
      // Nothing but alerts so far: whatever the client says next is looked at again.
      return bytes.size() > kMaxServerBytes ? ServerFlight::kRetry : ServerFlight::kMore;
    }
    constexpr std::size_t kHeader = 5;
    const std::string_view body = left.substr(kHeader, length);
    if (type == kHandshake) {
      message += body.substr(0, kWanted - message.size());
    }
    if (!message.empty() && byte_at(message, 0) != kServerHello) {
      return ServerFlight::kOther;
    }
    left.remove_prefix(kHeader + body.size());
  }
  return message.ends_with(kRetryRandom) ? ServerFlight::kRetry : ServerFlight::kOther;
}

}  // namespace sandboxkit::egress
