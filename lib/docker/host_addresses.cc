#include "docker/host_addresses.h"

#include <cstring>
#include <memory>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

namespace sandboxkit::docker {

Result<std::vector<Subnet>> host_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return Error{ErrorCode::kUnavailable, "the addresses of this machine are not known"};
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(list, &freeifaddrs);
  std::vector<Subnet> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET ||
        (entry->ifa_flags & IFF_LOOPBACK) != 0) {
      continue;
    }
    sockaddr_in address{};
    std::memcpy(&address, entry->ifa_addr, sizeof address);
    found.push_back(Subnet{ntohl(address.sin_addr.s_addr), 32});
  }
  return found;
}

}  // namespace sandboxkit::docker
