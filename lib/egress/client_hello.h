#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sandboxkit::egress {

/// Reads the hello that begins a TLS connection, as it comes: cut into packets and records in any
/// way. Pure; each byte is looked at once.
///
/// Whatever two readers could take in two ways is no hello: another record type in the midst of it,
/// an empty record, bytes behind it in its own record, lengths that do not add up, more than one
/// server name. With an encrypted inner hello (ECH) the outer name is the one that is read.
/// Source: RFC 8446 sections 4.1.2 and 5.1, RFC 6066 section 3.
class ClientHelloReader {
 public:
  /// Hello and record headers together. Clients send 200 bytes to 3 KiB.
  static constexpr std::size_t kMaxBytes = 16 * 1024;

  enum class State : std::uint8_t { kMore, kHello, kNotTls };
  /// After a HelloRetryRequest the second hello may stand behind one change_cipher_spec record.
  enum class Flight : std::uint8_t { kFirst, kSecond };

  explicit ClientHelloReader(Flight flight = Flight::kFirst) : flight_(flight) {}

  /// Takes from the front of `input` up to the hello's end; what is left comes behind it.
  State feed(std::string_view& input);
  /// As it stood in the hello; empty when it names none. Once the state is kHello.
  const std::string& server_name() const { return server_name_; }

 private:
  static constexpr std::size_t kRecordHeaderBytes = 5;

  void take_header(std::string_view& input);
  void open_record();
  void take_body(std::string_view& input);
  void refuse() { state_ = State::kNotTls; }

  Flight flight_;
  State state_ = State::kMore;
  std::array<std::uint8_t, kRecordHeaderBytes> header_{};
  std::size_t header_bytes_ = 0;
  std::size_t record_left_ = 0;  // of a record whose header is whole
  std::size_t taken_ = 0;
  std::string message_;
  std::string cipher_change_;
  std::string server_name_;
};

/// What a server's first bytes ask for.
enum class ServerFlight : std::uint8_t {
  kMore,
  kRetry,  ///< HelloRetryRequest: the client sends a second hello, which could name another host.
  kOther,
};

/// Reads the start of a server's side of a TLS connection. Pure.
ServerFlight read_server_flight(std::string_view bytes);

}  // namespace sandboxkit::egress
