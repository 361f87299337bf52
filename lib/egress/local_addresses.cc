#include "egress/local_addresses.h"

#include "policy/egress_address.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include <ifaddrs.h>
#include <netinet/in.h>

namespace sandboxkit::egress {
namespace {

constexpr std::chrono::seconds kFresh{1};

std::optional<IpAddress> address_of(const sockaddr* address) {
  IpAddress out;
  if (address == nullptr) {
    return std::nullopt;
  }
  if (address->sa_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof v4);
    std::memcpy(out.bytes.data(), &v4.sin_addr, sizeof v4.sin_addr);
    return out;
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, address, sizeof v6);
    out.is_v6 = true;
    std::memcpy(out.bytes.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
    return out;
  }
  return std::nullopt;
}

}  // namespace

void LocalAddresses::refresh() {
  ifaddrs* list = nullptr;
  known_ = ::getifaddrs(&list) == 0;
  asked_ = std::chrono::steady_clock::now();
  addresses_.clear();
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; known_ && entry != nullptr; entry = entry->ifa_next) {
    if (const auto address = address_of(entry->ifa_addr)) {
      addresses_.push_back(*address);
    }
  }
}

bool LocalAddresses::contains(const IpAddress& address) {
  const std::string_view special = policy::special_class(address);
  const IpAddress unspecified{.is_v6 = true};
  // 127.0.0.2 and 0.0.0.0 reach this machine as well and stand on no interface.
  if (special == "loopback" || special == "this_network" || address == unspecified) {
    return true;
  }
  if (std::ranges::any_of(also_, [&](const auto& block) { return block.contains(address); })) {
    return true;
  }
  if (!known_ || std::chrono::steady_clock::now() - asked_ > kFresh) {
    refresh();
  }
  // Without a list every address might be ours: fail closed.
  return !known_ || std::ranges::find(addresses_, address) != addresses_.end();
}

}  // namespace sandboxkit::egress
