#include "egress/wall_probe.h"

#include "sandboxkit/egress.h"

#include "io/fd.h"
#include "json/value.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace sandboxkit::egress {
namespace {

constexpr int kExitUsage = 2;
constexpr int kWaitMs = 1'500;
constexpr const char* kEngineResolver = "127.0.0.11";
constexpr std::uint16_t kDnsPort = 53;

bool wait_for(int fd, short events) {
  pollfd entry{fd, events, 0};
  return ::poll(&entry, 1, kWaitMs) == 1;
}

sockaddr_in socket_address(const IpAddress& address, std::uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  static_assert(sizeof out.sin_addr == 4);
  ::inet_pton(AF_INET, address.to_string().c_str(), &out.sin_addr);
  return out;
}

/// Whether a packet got there and an answer came back.
bool tcp_answers(const EgressTarget& target) {
  const io::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_in where = socket_address(*target.address(), target.port());
  if (!fd) {
    return false;
  }
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0) {
    return true;
  }
  if (errno == EINPROGRESS && wait_for(fd.get(), POLLOUT)) {
    int error_number = 0;
    socklen_t size = sizeof error_number;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error_number, &size);
    return error_number == 0 || error_number == ECONNREFUSED;
  }
  return errno == ECONNREFUSED;
}

/// Whether somebody outside was asked: an answer of NOERROR or NXDOMAIN. Only a server that knows
/// the root can say that `.invalid` does not exist.
bool dns_leaves() {
  constexpr std::string_view kQuery{
      "\x5b\x78\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
      "\x05probe\x0asandboxkit\x07invalid\x00\x00\x01\x00\x01",
      12 + 6 + 11 + 8 + 1 + 4};
  const io::Fd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_in where = socket_address(IpAddress::parse(kEngineResolver).value(), kDnsPort);
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0 ||
      ::send(fd.get(), kQuery.data(), kQuery.size(), 0) < 0 || !wait_for(fd.get(), POLLIN)) {
    return false;
  }
  std::array<unsigned char, 512> answer{};
  constexpr ssize_t kHeaderBytes = 12;
  constexpr unsigned kNoError = 0;
  constexpr unsigned kNoSuchName = 3;
  if (::recv(fd.get(), answer.data(), answer.size(), 0) < kHeaderBytes) {
    return false;
  }
  const unsigned code = answer[3] & 0x0fU;
  return code == kNoError || code == kNoSuchName;
}

bool packet_socket_opens() {
  constexpr int kAllProtocols = 0x0003;
  return static_cast<bool>(
      io::Fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(kAllProtocols))));
}

/// The names of the interfaces that are up. One that is down says nothing: the kernel makes some in
/// each new network namespace.
json::Array interfaces_up() {
  std::set<std::string> names;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return {"?"};
  }
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) != 0) {
      names.insert(entry->ifa_name);
    }
  }
  ::freeifaddrs(list);
  return {names.begin(), names.end()};
}

/// Such a socket reaches the hypervisor, whatever network there is.
bool vsock_opens() {
  return static_cast<bool>(io::Fd(::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0)));
}

}  // namespace

int run_wall_probe(const std::vector<std::string>& targets) {
  json::Array tried;
  json::Array reached;
  const auto note = [&](const std::string& what, bool open) {
    tried.emplace_back(what);
    if (open) {
      reached.emplace_back(what);
    }
  };
  for (const std::string& text : targets) {
    const auto target = EgressTarget::from_authority(text);
    if (!target || !target->address() || target->address()->is_v6) {
      std::fprintf(stderr, "sandboxkit-egress: `%s` is no IPv4 address:port\n", text.c_str());
      return kExitUsage;
    }
    note("tcp " + target->to_string(), tcp_answers(*target));
  }
  note(std::string("dns ") + kEngineResolver, dns_leaves());
  note("packet_socket", packet_socket_opens());
  note("vsock", vsock_opens());
  const json::Value line = json::Object{{"reached", std::move(reached)},
                                        {"tried", std::move(tried)},
                                        {"interfaces", interfaces_up()}};
  std::printf("%s\n", json::dump(line).c_str());
  return 0;
}

}  // namespace sandboxkit::egress
