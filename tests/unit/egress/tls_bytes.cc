#include "tests/unit/egress/tls_bytes.h"

namespace sandboxkit::egress::test {
namespace {

using namespace std::literals;

std::string u8(std::size_t value) { return {static_cast<char>(value)}; }
std::string u24(std::size_t value) { return u8(value >> 16U) + u16(value & 0xffffU); }

}  // namespace

std::string u16(std::size_t value) { return u8(value >> 8U) + u8(value & 0xffU); }

std::string extension(std::size_t type, std::string_view value) {
  return u16(type) + u16(value.size()) + std::string(value);
}

std::string name_list(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) {
    list += u8(0) + u16(name.size()) + name;
  }
  return u16(list.size()) + list;
}

std::string hello_message(const HelloParts& parts) {
  std::string extensions = extension(43, "\x02\x03\x04"sv);  // supported_versions: TLS 1.3
  if (parts.name) {
    extensions += extension(0, name_list({*parts.name}));
  }
  for (const std::string& more : parts.more_extensions) {
    extensions += more;
  }
  if (parts.padding > 0) {
    extensions += extension(21, std::string(parts.padding, '\0'));
  }
  const std::string body = "\x03\x03"s + std::string(32, 'r') + u8(32) + std::string(32, 's') +
                           u16(4) + "\x13\x01\x13\x02"s + u8(1) + u8(0) +
                           (parts.with_extensions ? u16(extensions.size()) + extensions : "") +
                           parts.behind;
  return u8(1) + u24(body.size()) + body;
}

std::string record(std::string_view body, char type) {
  return std::string(1, type) + "\x03\x01" + u16(body.size()) + std::string(body);
}

std::string records(std::string_view message, std::size_t piece) {
  std::string out;
  for (std::size_t at = 0; at < message.size(); at += piece) {
    out += record(message.substr(at, piece));
  }
  return out;
}

std::string hello(const std::string& name) { return record(hello_message({.name = name})); }

std::string server_hello(bool retry) {
  const std::string random =
      retry ? "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91"
              "\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"s
            : std::string(32, 'R');
  const std::string body = "\x03\x03"s + random + u8(0) + "\x13\x01"s + u8(0) + u16(0);
  return record(u8(2) + u24(body.size()) + body);
}

}  // namespace sandboxkit::egress::test
