#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::egress::test {

/// The parts of a hello that a test wants to be odd.
struct HelloParts {
  std::optional<std::string> name{};           ///< As one server_name extension.
  std::vector<std::string> more_extensions{};  ///< Each whole: type, length, value.
  std::string behind{};                        ///< After the extensions, inside the message.
  std::size_t padding = 0;                     ///< A padding extension of that many bytes.
  bool with_extensions = true;
};

std::string u16(std::size_t value);
std::string extension(std::size_t type, std::string_view value);
/// The value of a server_name extension that holds these names, each as a host name.
std::string name_list(const std::vector<std::string>& names);
/// The handshake message, with its header.
std::string hello_message(const HelloParts& parts);
/// One TLS record of handshake bytes (22), or of another type.
std::string record(std::string_view body, char type = 22);
/// The message in records of at most `piece` bytes.
std::string records(std::string_view message, std::size_t piece);
/// A plain hello for a name, in one record.
std::string hello(const std::string& name);
/// A server's first record: a ServerHello, or with `retry` a HelloRetryRequest.
std::string server_hello(bool retry);

}  // namespace sandboxkit::egress::test
