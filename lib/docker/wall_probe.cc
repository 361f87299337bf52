#include "docker/wall_probe.h"

#include "base/random.h"
#include "base/text.h"
#include "docker/helper_call.h"
#include "docker/host_addresses.h"

#include <algorithm>
#include <future>
#include <utility>

namespace sandboxkit::docker {
namespace {

constexpr std::int64_t kMiB = 1024 * 1024;
constexpr std::size_t kProbeIdLength = 12;
/// Nothing has to listen there: a refusal from the address is an answer as well.
constexpr const char* kAttackedPort = ":9";
constexpr const char* kMetadataServer = "169.254.169.254:80";
/// Each try that gets no answer takes its 1.5 s.
constexpr std::size_t kMaxAttackedHosts = 3;
constexpr std::chrono::milliseconds kAttackTimeout{30'000};

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

std::vector<std::string> texts_in(const json::Value& value, const char* name) {
  std::vector<std::string> texts;
  const json::Value* list = value.find(name);
  if (list != nullptr && list->as_array() != nullptr) {
    for (const json::Value& entry : *list->as_array()) {
      texts.push_back(entry.as_string() != nullptr ? *entry.as_string() : "?");
    }
  }
  return texts;
}

/// What a try from inside of a sandbox brought.
struct Attack {
  std::vector<std::string> reached;
  std::vector<std::string> interfaces;
};

/// Tries the ways out from inside of the sandbox, by its guest.
Result<Attack> attack(HelperLink& guest, json::Array targets, const std::vector<Subnet>& hosts) {
  json::Array command{kEgressInImage, "--probe-wall"};
  command.insert(command.end(), targets.begin(), targets.end());
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
  const json::Value* reached = said ? said->find("reached") : nullptr;
  if (reached == nullptr || reached->as_array() == nullptr || texts_in(*said, "tried").empty()) {
    return Error{ErrorCode::kInternal,
                 "the tries from inside of a wall could not be made: " + quoted(reply->body)};
  }
  return Attack{texts_in(*said, "reached"), texts_in(*said, "interfaces")};
}

Error broken(const char* what, const std::vector<std::string>& names) {
  return Error{ErrorCode::kConflict, what + json::dump(json::Array(names.begin(), names.end()))};
}

/// Looks at a sandbox on an internal network that stands.
Status check_internal(EngineClient& engine, const Known& known, const std::vector<Subnet>& hosts) {
  const auto subnet = check_network(engine, known.ids.wall, hosts);
  if (!subnet) {
    return subnet.error();
  }
  const auto tried = attack(*known.guest, {subnet->host(1) + kAttackedPort}, hosts);
  if (!tried) {
    return tried.error();
  }
  return tried->reached.empty()
             ? Status()
             : broken("from inside of a wall this was reached: ", tried->reached);
}

/// Looks at a sandbox without an interface that stands: from inside there is loopback and its own
/// proxy, and it was that proxy which answered.
Status check_isolated(const Known& known, const std::vector<Subnet>& hosts) {
  const std::string proxy = std::string(kLoopback) + ":" + std::to_string(kProxyPort);
  const auto tried = attack(*known.guest, {proxy, kMetadataServer}, hosts);
  if (!tried) {
    return tried.error();
  }
  if (tried->interfaces != std::vector<std::string>{"lo"}) {
    return broken("a sandbox without a network has other interfaces than loopback: ",
                  tried->interfaces);
  }
  if (tried->reached != std::vector<std::string>{"tcp " + proxy}) {
    return broken("from inside of a wall not its proxy alone was reached: ", tried->reached);
  }
  auto connection = known.egress->connect();
  if (!connection) {
    return connection.error();
  }
  const auto reply = call_helper(std::move(*connection), {"/stats"}, kAttackTimeout);
  const auto stats = reply ? json::parse(reply->body) : Result<json::Value>(reply.error());
  if (!stats) {
    return stats.error();
  }
  return stats->integer("connections") > 0
             ? Status()
             : Status(Error{ErrorCode::kConflict, "its proxy saw nothing of the sandbox"});
}

/// Builds a walled sandbox that allows nothing, looks at it, and removes it.
Status try_wall(EngineClient& engine, Fleet& fleet, Structure structure) {
  // The sidecar's image serves as the sandbox's: the guest is static and needs nothing of it.
  const auto image = fleet.egress_image();
  const auto hosts = host_addresses();
  if (!image || !hosts) {
    return image ? hosts.error() : image.error();
  }
  const auto id = SandboxId::parse(kProbePrefix + system_random().text(kProbeIdLength, kBase36));
  const auto tenant = TenantId::parse("probe");
  SandboxOrder order{*id, *tenant, 1,
                     SandboxSpec{*image, Egress::walled(EgressPolicy::deny_all())}};
  order.policy_hash = "probe";
  Status stands = fleet.create(order, std::stop_token{}, structure);
  if (stands) {
    const auto known = fleet.find(*id);
    if (!known) {
      stands = Error{ErrorCode::kUnavailable, "the sandbox of the probe ended"};
    } else {
      stands = structure == Structure::kIsolatedNs ? check_isolated(*known, *hosts)
                                                   : check_internal(engine, *known, *hosts);
    }
  }
  // A slow engine that cannot remove it in time says nothing of the wall; the next look clears up.
  static_cast<void>(fleet.remove(*id));
  return stands;
}

/// Tries what the worker may use, side by side, and notes what stood.
void try_walls(EngineClient& engine, Fleet& fleet, EgressStructure wanted,
               DriverCapabilities& found) {
  const bool try_internal = wanted != EgressStructure::kIsolatedNs;
  const bool try_isolated = wanted != EgressStructure::kInternalNet;
  const Error not_tried{ErrorCode::kConflict, "not tried"};
  std::future<Status> isolated = std::async(std::launch::async, [&]() -> Status {
    return try_isolated ? try_wall(engine, fleet, Structure::kIsolatedNs) : Status(not_tried);
  });
  const Status internal =
      try_internal ? try_wall(engine, fleet, Structure::kInternalNet) : Status(not_tried);
  const Status alone = isolated.get();
  if (internal || alone) {
    found.capabilities.emplace_back("egress");
  }
  const auto note = [&](bool tried, const Status& stood, Structure structure) {
    const std::string name = std::string("egress.") + name_of(structure);
    if (stood) {
      found.capabilities.push_back(name);
    } else if (tried) {
      found.problems.push_back(name + ": " + stood.error().message);
    }
  };
  note(try_internal, internal, Structure::kInternalNet);
  note(try_isolated, alone, Structure::kIsolatedNs);
  fleet.prove(internal.has_value(), alone.has_value());
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
                                        EgressStructure wanted) {
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
  try_walls(engine, fleet, wanted, found);
  return found;
}

}  // namespace sandboxkit::docker
