#pragma once

#include "sandboxkit/egress.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace sandboxkit::policy {

/// An address block: the bits after `prefix_bits` are zero.
struct AddressBlock {
  IpAddress base;
  std::uint8_t prefix_bits;
  bool contains(const IpAddress& address) const;
};

inline constexpr unsigned kIpv4Bits = 32;
inline constexpr unsigned kIpv6Bits = 128;
inline unsigned address_bits(const IpAddress& address) {
  return address.is_v6 ? kIpv6Bits : kIpv4Bits;
}

/// `address` with the bits after `prefix_bits` cleared.
IpAddress masked(const IpAddress& address, unsigned prefix_bits);

/// The special class of an address (`loopback`, `private`, `link_local`, ...): one that a proxy
/// must not reach for a sandbox unless a network of its policy says so. Empty for ordinary public
/// addresses. Source: design of the wall, section 3; IANA special-purpose registries.
std::string_view special_class(const IpAddress& address);

}  // namespace sandboxkit::policy
