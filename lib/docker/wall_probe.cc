#include "docker/wall_probe.h"

#include "base/random.h"
#include "docker/images.h"

#include <cstring>
#include <memory>
#include <utility>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

namespace sandboxkit::docker {
namespace {

constexpr std::int64_t kMiB = 1024 * 1024;
constexpr std::size_t kProbeIdLength = 12;

/// Whether an interface of this machine has an address in the subnet: a sandbox could dial it.
bool host_has_address_in(const Subnet& subnet) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return true;  // Not known is not proved.
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(list, &freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) {
      continue;
    }
    sockaddr_in address{};
    std::memcpy(&address, entry->ifa_addr, sizeof address);
    if (subnet.overlaps(Subnet{ntohl(address.sin_addr.s_addr), 32})) {
      return true;
    }
  }
  return false;
}

/// Reads the throw-away wall back from the engine.
bool wall_stands(EngineClient& engine, const Known& known) {
  const auto network = engine.get("/networks/" + known.ids.wall);
  if (!network) {
    return false;
  }
  const auto subnets = subnets_of_networks(json::Array{*network});
  const json::Value* internal = network->find("Internal");
  const json::Value* ipv6 = network->find("EnableIPv6");
  if (subnets.size() != 1 || internal == nullptr || *internal != json::Value(true) ||
      ipv6 == nullptr || *ipv6 != json::Value(false)) {
    return false;
  }
  return !host_has_address_in(subnets.front());
}

/// Builds a walled sandbox that allows nothing, looks at it, and removes it.
bool can_wall(EngineClient& engine, Fleet& fleet, const DockerDriverConfig& config) {
  const auto hash = hash_file(config.egress_binary);
  const auto id = SandboxId::parse(kProbePrefix + system_random().text(kProbeIdLength, kBase36));
  const auto tenant = TenantId::parse("probe");
  if (!hash || !id || !tenant) {
    return false;
  }
  // The sidecar's image serves as the sandbox's: the guest is static and needs nothing of it.
  const std::string image = egress_image_name(*hash);
  if (!ensure_egress_image(engine, config.egress_binary, image)) {
    return false;
  }
  SandboxOrder order{*id, *tenant, 1, SandboxSpec{image, Egress::walled(EgressPolicy::deny_all())}};
  order.policy_hash = "probe";
  bool stands = false;
  if (fleet.create(order, std::stop_token{})) {
    const auto known = fleet.find(*id);
    stands = known && wall_stands(engine, *known);
  }
  const Status gone = fleet.remove(*id);
  return stands && gone;
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

Result<DriverCapabilities> probe_engine(EngineClient& engine, Fleet& fleet,
                                        const DockerDriverConfig& config) {
  const auto info = engine.get("/info");
  if (!info) {
    return info.error();
  }
  DriverCapabilities found{.engine = "docker " + engine.version().version};
  found.runtimes = runtimes_of(*info);
  found.arch = engine.version().arch;
  found.cpu_cores = static_cast<double>(info->integer("NCPU"));
  found.memory_mb = info->integer("MemTotal") / kMiB;
  if (can_wall(engine, fleet, config)) {
    found.capabilities.emplace_back("egress");
  }
  return found;
}

}  // namespace sandboxkit::docker
