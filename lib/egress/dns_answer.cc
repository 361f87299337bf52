#include "egress/dns_answer.h"

#include "egress/resolver.h"

#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include <ares.h>

namespace sandboxkit::egress {
namespace {

Result<std::vector<IpAddress>> parse_v4(std::span<const unsigned char> message,
                                        const std::string& name) {
  std::array<ares_addrttl, Resolver::kMaxAnswers> rows{};
  int count = static_cast<int>(rows.size());
  if (const int status = ares_parse_a_reply(message.data(), static_cast<int>(message.size()),
                                            nullptr, rows.data(), &count);
      status != ARES_SUCCESS) {
    return dns_error(status, name);
  }
  std::vector<IpAddress> out;
  for (int i = 0; i < count; ++i) {
    IpAddress address;
    std::memcpy(address.bytes.data(), &rows[static_cast<std::size_t>(i)].ipaddr, 4);
    out.push_back(address);
  }
  return out;
}

Result<std::vector<IpAddress>> parse_v6(std::span<const unsigned char> message,
                                        const std::string& name) {
  std::array<ares_addr6ttl, Resolver::kMaxAnswers> rows{};
  int count = static_cast<int>(rows.size());
  if (const int status = ares_parse_aaaa_reply(message.data(), static_cast<int>(message.size()),
                                               nullptr, rows.data(), &count);
      status != ARES_SUCCESS) {
    return dns_error(status, name);
  }
  std::vector<IpAddress> out;
  for (int i = 0; i < count; ++i) {
    IpAddress address;
    address.is_v6 = true;
    std::memcpy(address.bytes.data(), &rows[static_cast<std::size_t>(i)].ip6addr, 16);
    // Through text, so that a mapped address becomes the IPv4 address that it means.
    out.push_back(IpAddress::parse(address.to_string()).value_or(address));
  }
  return out;
}

}  // namespace

Error dns_error(int status, const std::string& name) {
  const std::string what = "resolve `" + name + "`: " + ares_strerror(status);
  switch (status) {
    case ARES_ENOTFOUND:
    case ARES_ENODATA:
      return {ErrorCode::kNotFound, what};
    case ARES_ETIMEOUT:
      return {ErrorCode::kDeadlineExceeded, what};
    default:
      return {ErrorCode::kUnavailable, what};
  }
}

Result<std::vector<IpAddress>> addresses_in(std::span<const unsigned char> message,
                                            AddressKind kind, const std::string& name) {
  if (message.size() > std::numeric_limits<std::uint16_t>::max()) {
    return dns_error(ARES_EBADRESP, name);
  }
  auto found = kind == AddressKind::kV4 ? parse_v4(message, name) : parse_v6(message, name);
  if (found && found->empty()) {
    return dns_error(ARES_ENODATA, name);
  }
  return found;
}

}  // namespace sandboxkit::egress
