#include "docker/wall_probe.h"

#include "base/random.h"
#include "base/text.h"
#include "docker/helper_call.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

namespace sandboxkit::docker {
namespace {

constexpr std::int64_t kMiB = 1024 * 1024;
constexpr std::size_t kProbeIdLength = 12;
/// Nothing has to listen there: a refusal from the address is an answer as well.
constexpr const char* kAttackedPort = ":9";
/// Each try that gets no answer takes its 1.5 s.
constexpr std::size_t kMaxAttackedHosts = 3;
constexpr std::chrono::milliseconds kAttackTimeout{30'000};

/// The IPv4 addresses of this machine but loopback. Errors: kUnavailable.
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

/// What the engine says about the throw-away wall. Returns its subnet.
Result<Subnet> check_network(EngineClient& engine, const std::string& wall,
                             const std::vector<Subnet>& hosts) {
  const auto network = engine.get("/networks/" + wall);
  if (!network) {
    return network.error();
  }
  const auto subnets = subnets_of_networks(json::Array{*network});
  const json::Value* internal = network->find("Internal");
  const json::Value* ipv6 = network->find("EnableIPv6");
  if (subnets.size() != 1 || internal == nullptr || *internal != json::Value(true) ||
      ipv6 == nullptr || *ipv6 != json::Value(false)) {
    return Error{ErrorCode::kConflict, "the engine made another network than it was asked for"};
  }
  for (const Subnet& host : hosts) {
    if (subnets.front().overlaps(host)) {
      return Error{ErrorCode::kConflict,
                   "this machine has the address " + host.host(0) + " inside of the wall"};
    }
  }
  return subnets.front();
}

/// Tries the ways out from inside of the sandbox, by its guest.
Status attack(HelperLink& guest, const Subnet& wall, const std::vector<Subnet>& hosts) {
  json::Array command{kEgressInImage, "--probe-wall", wall.host(1) + kAttackedPort};
  for (std::size_t i = 0; i < std::min(hosts.size(), kMaxAttackedHosts); ++i) {
    command.emplace_back(hosts[i].host(0) + kAttackedPort);
  }
  auto connection = guest.connect();
  if (!connection) {
    return connection.error();
  }
  const json::Value order = json::Object{{"command", std::move(command)}, {"cwd", "/"}};
  const auto reply =
      call_helper(std::move(*connection), {"/exec", json::dump(order)}, kAttackTimeout);
  if (!reply) {
    return reply.error();
  }
  const auto outcome = json::parse(reply->body);
  const auto said = json::parse(outcome ? outcome->text("stdout") : "");
  const json::Value* tried = said ? said->find("tried") : nullptr;
  const json::Value* reached = said ? said->find("reached") : nullptr;
  if (tried == nullptr || tried->as_array() == nullptr || tried->as_array()->empty() ||
      reached == nullptr || reached->as_array() == nullptr) {
    return Error{ErrorCode::kInternal,
                 "the tries from inside of a wall could not be made: " + quoted(reply->body)};
  }
  if (!reached->as_array()->empty()) {
    return Error{ErrorCode::kConflict,
                 "from inside of a wall this was reached: " + json::dump(*reached)};
  }
  return {};
}

/// Looks at a walled sandbox that stands.
Status check_wall(EngineClient& engine, const Known& known) {
  const auto hosts = host_addresses();
  if (!hosts) {
    return hosts.error();
  }
  const auto subnet = check_network(engine, known.ids.wall, *hosts);
  return subnet ? attack(*known.guest, *subnet, *hosts) : Status(subnet.error());
}

/// Builds a walled sandbox that allows nothing, looks at it, and removes it.
Status try_wall(EngineClient& engine, Fleet& fleet) {
  // The sidecar's image serves as the sandbox's: the guest is static and needs nothing of it.
  const auto image = fleet.egress_image();
  if (!image) {
    return image.error();
  }
  const auto id = SandboxId::parse(kProbePrefix + system_random().text(kProbeIdLength, kBase36));
  const auto tenant = TenantId::parse("probe");
  SandboxOrder order{*id, *tenant, 1,
                     SandboxSpec{*image, Egress::walled(EgressPolicy::deny_all())}};
  order.policy_hash = "probe";
  Status stands = fleet.create(order, std::stop_token{});
  if (stands) {
    const auto known = fleet.find(*id);
    stands = known ? check_wall(engine, *known)
                   : Status(Error{ErrorCode::kUnavailable, "the sandbox of the probe ended"});
  }
  // A slow engine that cannot remove it in time says nothing of the wall; the next look clears up.
  static_cast<void>(fleet.remove(*id));
  return stands;
}

std::vector<std::string> runtimes_of(const json::Value& info) {
  std::vector<std::string> names;
  const json::Value* runtimes = info.find("Runtimes");
  const json::Object* members = runtimes != nullptr ? runtimes->as_object() : nullptr;
  if (members != nullptr) {
    for (const auto& [name, about] : *members) {
      names.push_back(name);
    }
  }
  return names;
}

}  // namespace

Result<DriverCapabilities> probe_engine(EngineClient& engine, Fleet& fleet) {
  const auto info = engine.get("/info");
  if (!info) {
    return info.error();
  }
  DriverCapabilities found{.engine = "docker"};
  found.runtimes = runtimes_of(*info);
  found.arch = engine.version().arch;
  found.cpu_cores = static_cast<double>(info->integer("NCPU"));
  found.memory_mb = info->integer("MemTotal") / kMiB;
  const json::Value* filtered = info->find("BridgeNfIptables");
  if (filtered != nullptr && *filtered == json::Value(false)) {
    found.problems.emplace_back(
        "unwalled sandboxes: they can reach each other, because bridge-nf-call-iptables is off on "
        "this machine; load br_netfilter and set net.bridge.bridge-nf-call-iptables=1");
  }
  const Status wall = try_wall(engine, fleet);
  if (wall) {
    found.capabilities.emplace_back("egress");
  } else {
    found.problems.push_back("egress: " + wall.error().message);
  }
  return found;
}

}  // namespace sandboxkit::docker
