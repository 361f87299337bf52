#include "egress/dns_answer.h"

#include "egress/resolver.h"

#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include <ares.h>

namespace sandboxkit::egress {
namespace {

IpAddress address_of(const ares_addrttl& row) {
  IpAddress address;
  std::memcpy(address.bytes.data(), &row.ipaddr, sizeof row.ipaddr);
  return address;
}

IpAddress address_of(const ares_addr6ttl& row) {
  IpAddress address;
  address.is_v6 = true;
  std::memcpy(address.bytes.data(), &row.ip6addr, sizeof row.ip6addr);
  // Through text, so that a mapped address becomes the IPv4 address that it means.
  return IpAddress::parse(address.to_string()).value_or(address);
}

/// `parse` is the library's reader of answers with rows of that kind.
template <typename Row>
Result<std::vector<IpAddress>> read_rows(int (*parse)(const unsigned char*, int, hostent**, Row*,
                                                      int*),
                                         std::span<const unsigned char> message,
                                         const std::string& name) {
  std::array<Row, Resolver::kMaxAnswers> rows{};
  int count = static_cast<int>(rows.size());
  if (const int status =
          parse(message.data(), static_cast<int>(message.size()), nullptr, rows.data(), &count);
      status != ARES_SUCCESS) {
    return dns_error(status, name);
  }
  std::vector<IpAddress> out;
  for (int i = 0; i < count; ++i) {
    out.push_back(address_of(rows[static_cast<std::size_t>(i)]));
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
  auto found = kind == AddressKind::kV4 ? read_rows(ares_parse_a_reply, message, name)
                                        : read_rows(ares_parse_aaaa_reply, message, name);
  if (found && found->empty()) {
    return dns_error(ARES_ENODATA, name);
  }
  return found;
}

}  // namespace sandboxkit::egress
