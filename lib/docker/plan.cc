#include "docker/plan.h"

#include "docker/seccomp.h"
#include "docker/trust.h"
#include "egress/secret_book.h"
#include "policy/hardening.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace sandboxkit::docker {
namespace {

constexpr std::int64_t kMiB = 1024 * 1024;
constexpr double kNanoCpus = 1e9;

Owner owner_of(const DockerDriverConfig& config) { return Owner{config.controller, config.worker}; }

/// Mounts are read-only always: what a sandbox could write there, the worker would later read.
json::Value read_only_mount(const std::string& source, const char* target) {
  return json::Object{{"Type", "bind"}, {"Source", source}, {"Target", target}, {"ReadOnly", true}};
}

/// A helper's own error output, for the message of a create that fails. No process of the sandbox
/// writes there.
json::Value small_log() {
  return json::Object{{"Type", "json-file"},
                      {"Config", json::Object{{"max-size", "256k"}, {"max-file", "1"}}}};
}

/// The environment of the sandbox. The caller's names win; a lost proxy name only means that a
/// program finds no way out. PATH is the image's, or the engine's default.
json::Value environment(const SandboxSpec& spec, const std::string& proxy) {
  std::map<std::string, std::string> names;
  if (!proxy.empty()) {
    for (const char* name : {"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"}) {
      names[name] = proxy;
    }
    names["NO_PROXY"] = names["no_proxy"] = "localhost,127.0.0.1,::1";
  }
  if (!spec.secrets.empty()) {
    names.merge(trust_environment());
  }
  for (const LentSecret& secret : spec.secrets) {
    names[secret.name] = secret.placeholder();
  }
  for (const auto& [name, value] : spec.env) {
    names[name] = value;
  }
  json::Array list;
  for (const auto& [name, value] : names) {
    list.emplace_back(name + "=" + value);
  }
  return list;
}

std::string proxy_url(const std::string& address) {
  return "http://" + address + ":" + std::to_string(kProxyPort);
}

/// Capabilities and limits by the profile.
json::Object sandbox_host_config(const SandboxSpec& spec) {
  const policy::Hardening hardening = policy::hardening_of(spec.profile);
  json::Object host{
      {"CapDrop", json::Array{"ALL"}},
      {"Memory", spec.memory_mb * kMiB},
      {"MemorySwap", spec.memory_mb * kMiB},
      {"NanoCpus", static_cast<std::int64_t>(std::llround(spec.cpu_cores * kNanoCpus))},
      {"PidsLimit", kSandboxPids},
      {"ShmSize", kSandboxShmBytes},
      {"IpcMode", "private"},
      {"Init", false},
      {"LogConfig", small_log()},
  };
  json::Array security{seccomp_option()};
  if (hardening.no_new_privileges) {
    security.emplace_back("no-new-privileges");
  }
  if (!hardening.capabilities.empty()) {
    json::Array kept;
    for (const std::string_view capability : hardening.capabilities) {
      kept.emplace_back(std::string(capability));
    }
    host.emplace_back("CapAdd", std::move(kept));
  }
  host.emplace_back("SecurityOpt", std::move(security));
  if (!spec.runtime.empty()) {
    host.emplace_back("Runtime", spec.runtime);
  }
  return host;
}

/// A sandbox that is on a network, with the address of its sidecar (empty: unwalled), or isolated.
json::Value sandbox_body(const PlanInput& input, Structure structure,
                         const std::string& sidecar_address, bool has_holder = false) {
  const DockerDriverConfig& config = input.config;
  const SandboxOrder& order = input.order;
  const bool isolated = structure == Structure::kIsolatedNs;
  json::Object host = sandbox_host_config(order.spec);
  host.emplace_back(
      "Mounts",
      json::Array{read_only_mount(config.guest_binary, kGuestInSandbox),
                  read_only_mount(guest_folder(config.state_dir, order.sandbox), kGuestFolder)});
  json::Array entrypoint{kGuestInSandbox};
  std::string proxy;
  if (isolated) {
    if (!has_holder) {
      add_dead_resolver(host);
    }
    entrypoint.emplace_back("--proxy-listener");
    entrypoint.emplace_back(std::string(kLoopback) + ":" + std::to_string(kProxyPort));
    proxy = proxy_url(kLoopback);
  } else if (structure == Structure::kInternalNet) {
    // Without it the engine's own resolver would carry names out through the host.
    host.emplace_back("Dns", json::Array{sidecar_address});
    proxy = proxy_url(sidecar_address);
  }
  json::Object body{
      {"Image", order.spec.image},
      {"User", std::string(policy::hardening_of(order.spec.profile).user)},
      {"Entrypoint", std::move(entrypoint)},
      {"Cmd", json::Array{}},
      {"Env", environment(order.spec, proxy)},
      // Not the image's: the engine would run its command inside, again and again.
      {"Healthcheck", json::Object{{"Test", json::Array{"NONE"}}}},
      {"Labels", labels_for(owner_of(config), order, Role::kSandbox, structure)},
      {"HostConfig", std::move(host)},
  };
  if (!has_holder) {  // The engine refuses a name beside a holder's.
    body.emplace_back("Hostname", isolated ? std::string(kIsolatedHostname) : order.sandbox.str());
  }
  return body;
}

json::Value sidecar_body(const PlanInput& input, const WallInput& wall) {
  const DockerDriverConfig& config = input.config;
  const SandboxOrder& order = input.order;
  json::Object host{
      {"CapDrop", json::Array{"ALL"}},
      {"SecurityOpt", json::Array{seccomp_option(), "no-new-privileges"}},
      {"ReadonlyRootfs", true},
      {"Memory", kSidecarMemoryBytes},
      {"MemorySwap", kSidecarMemoryBytes},
      {"PidsLimit", kSidecarPids},
      {"IpcMode", "private"},
      {"Init", false},
      {"LogConfig", small_log()},
      // It stands on two networks: it must never route between them.
      {"Sysctls",
       json::Object{{"net.ipv4.ip_forward", "0"}, {"net.ipv4.ip_unprivileged_port_start", "0"}}},
      // While it is away everything is denied; it comes back with the same address and policy. The
      // engine waits longer after each quick end, and the count bounds a proxy that always dies.
      {"RestartPolicy",
       json::Object{{"Name", "on-failure"}, {"MaximumRetryCount", kSidecarRestarts}}},
      {"Mounts",
       json::Array{read_only_mount(egress_folder(config.state_dir, order.sandbox), kEgressFolder)}},
  };
  return json::Object{
      {"Image", wall.egress_image},
      {"Hostname", "egress"},
      {"User", "65534:65534"},
      {"Entrypoint", json::Array{kEgressInImage}},
      {"Cmd", json::Array{}},
      {"Labels", labels_for(owner_of(config), order, Role::kEgress, Structure::kInternalNet)},
      {"HostConfig", std::move(host)},
  };
}

/// Where secrets are lent; their values are in no file.
json::Array lent_destinations(const SandboxSpec& spec) {
  std::set<std::string> destinations;
  for (const LentSecret& secret : spec.secrets) {
    destinations.insert(egress::lent_to(secret));
  }
  return {destinations.begin(), destinations.end()};
}

/// What a proxy is to allow, wherever it runs.
void add_policy(json::Object& file, const PlanInput& input) {
  const EgressPolicy deny = EgressPolicy::deny_all();
  const EgressPolicy* policy = input.order.spec.egress.policy();
  const EgressPolicy& rules = policy != nullptr ? *policy : deny;
  const auto strings = [](const std::vector<std::string>& list) {
    return json::Array(list.begin(), list.end());
  };
  json::Object hosts;
  for (const std::string& entry : input.config.egress_hosts) {
    const std::size_t equals = entry.find('=');
    hosts.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  file.emplace_back("allowed_domains", strings(rules.allowed_domains()));
  file.emplace_back("allowed_networks", strings(rules.allowed_networks()));
  file.emplace_back("dns_servers", strings(input.config.dns_servers));
  file.emplace_back("hosts", std::move(hosts));
  file.emplace_back("policy_hash", input.order.policy_hash);
  if (!input.order.spec.secrets.empty()) {
    file.emplace_back("lent", lent_destinations(input.order.spec));
  }
  if (rules.strict_tls()) {
    file.emplace_back("strict_tls", true);
  }
}

json::Value ipam_of(const Subnet& subnet) {
  return json::Object{
      {"Driver", "default"},
      {"Config", json::Array{json::Object{{"Subnet", subnet.to_string()}}}},
  };
}

/// Sets the member, replacing one of that name.
void set_member(json::Object& object, const char* name, json::Value value) {
  for (auto& [key, old] : object) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  object.emplace_back(name, std::move(value));
}

json::Value endpoint(const std::string& address) {
  if (address.empty()) {
    return json::Object{};
  }
  return json::Object{{"IPAMConfig", json::Object{{"IPv4Address", address}}}};
}

/// The body with its one network: by id, because names need not be unique on an engine.
json::Value with_network(const CreateContainer& step, const std::string& network) {
  json::Object body = *step.body.as_object();
  json::Object host = *step.body.find("HostConfig")->as_object();
  set_member(host, "NetworkMode", network);
  set_member(body, "HostConfig", std::move(host));
  set_member(body, "NetworkingConfig",
             json::Object{{"EndpointsConfig", json::Object{{network, endpoint(step.address)}}}});
  return body;
}

json::Value placed(const CreateContainer& step, const Ids& ids) {
  switch (step.place) {
    case Place::kWall:
      return with_network(step, ids.wall);
    case Place::kShared:
      return with_network(step, ids.shared_network);
    case Place::kNowhere:
    case Place::kHolder:
      break;
  }
  json::Object body = *step.body.as_object();
  json::Object host = *step.body.find("HostConfig")->as_object();
  set_member(host, "NetworkMode",
             step.place == Place::kHolder ? "container:" + ids.holder : std::string("none"));
  set_member(body, "HostConfig", std::move(host));
  return body;
}

EngineCall post(std::string target, const json::Value& body) {
  return EngineCall{.method = "POST", .target = std::move(target), .body = json::dump(body)};
}

void add_refused(json::Object& file, const std::vector<Subnet>& blocks) {
  json::Array list;
  for (const Subnet& block : blocks) {
    list.emplace_back(block.to_string());
  }
  file.emplace_back("refused_networks", std::move(list));
}

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

void add_dead_resolver(json::Object& host) {
  host.emplace_back("Dns", json::Array{kLoopback});
  host.emplace_back("DnsSearch", json::Array{"."});
  host.emplace_back("DnsOptions", json::Array{"timeout:1", "attempts:1"});
}

Plan plan_walled(const PlanInput& input, const WallInput& wall) {
  const SandboxId& sandbox = input.order.sandbox;
  const std::string& state_dir = input.config.state_dir;
  const std::string egress = egress_folder(state_dir, sandbox);
  const std::string guest = guest_folder(state_dir, sandbox);
  const std::string sidecar_address = wall.subnet.host(kSidecarHost);
  return {
      MakeFolder{sandbox_folder(state_dir, sandbox)},
      MakeFolder{egress},
      WriteFile{egress + kPolicyFile, policy_json(input, wall)},
      MakeFolder{guest},
      OpenLink{Part::kSidecar, egress + kEgressSocket},
      OpenLink{Part::kSandbox, guest + kGuestSocket},
      CreateNetwork{wall_body(owner_of(input.config), input.order, wall.subnet)},
      CreateContainer{Part::kSidecar, sidecar_name(sandbox), sidecar_body(input, wall),
                      Place::kShared},
      JoinWall{Part::kSidecar, sidecar_address},
      StartContainer{Part::kSidecar},
      CreateContainer{Part::kSandbox, sandbox_name(sandbox),
                      sandbox_body(input, Structure::kInternalNet, sidecar_address), Place::kWall,
                      wall.subnet.host(kSandboxHost)},
      AwaitHelper{Part::kSidecar},
      StartContainer{Part::kSandbox},
      AwaitHelper{Part::kSandbox},
  };
}

Plan plan_isolated(const PlanInput& input, const IsolatedInput& isolated) {
  const SandboxId& sandbox = input.order.sandbox;
  const std::string& state_dir = input.config.state_dir;
  const std::string egress = egress_folder(state_dir, sandbox);
  const std::string guest = guest_folder(state_dir, sandbox);
  return {
      MakeFolder{sandbox_folder(state_dir, sandbox)},
      MakeFolder{egress},
      WriteFile{egress + kPolicyFile, isolated_policy_json(input, isolated)},
      MakeFolder{guest},
      KeepProxy{input.config.egress_binary, egress},
      OpenLink{Part::kSandbox, guest + kGuestSocket, true},
      CreateContainer{Part::kSandbox, sandbox_name(sandbox),
                      sandbox_body(input, Structure::kIsolatedNs, "", isolated.has_holder),
                      isolated.has_holder ? Place::kHolder : Place::kNowhere},
      StartContainer{Part::kSandbox},
      AwaitHelper{Part::kSandbox},
      AwaitProxy{},
  };
}

Plan with_trust(Plan plan, const Trust& trust) {
  const auto starts = [](const Step& step) {
    const auto* start = std::get_if<StartContainer>(&step);
    return start != nullptr && start->part == Part::kSandbox;
  };
  if (!trust.certificate.empty()) {
    plan.insert(std::find_if(plan.begin(), plan.end(), starts),
                TrustAuthority{trust.certificate, trust.roots});
  }
  return plan;
}

Plan plan_unwalled(const PlanInput& input) {
  const SandboxId& sandbox = input.order.sandbox;
  const std::string& state_dir = input.config.state_dir;
  const std::string guest = guest_folder(state_dir, sandbox);
  return {
      MakeFolder{sandbox_folder(state_dir, sandbox)},
      MakeFolder{guest},
      OpenLink{Part::kSandbox, guest + kGuestSocket},
      CreateContainer{Part::kSandbox, sandbox_name(sandbox),
                      sandbox_body(input, Structure::kNone, ""), Place::kShared},
      StartContainer{Part::kSandbox},
      AwaitHelper{Part::kSandbox},
  };
}

std::optional<EngineCall> request_of(const Step& step, const Ids& ids) {
  using MaybeCall = std::optional<EngineCall>;
  return std::visit(
      Overloaded{
          [](const MakeFolder&) -> MaybeCall { return std::nullopt; },
          [](const WriteFile&) -> MaybeCall { return std::nullopt; },
          [](const OpenLink&) -> MaybeCall { return std::nullopt; },
          [](const KeepProxy&) -> MaybeCall { return std::nullopt; },
          [](const AwaitHelper&) -> MaybeCall { return std::nullopt; },
          [](const AwaitProxy&) -> MaybeCall { return std::nullopt; },
          [](const CreateNetwork& s) -> MaybeCall { return post("/networks/create", s.body); },
          [&](const CreateContainer& s) -> MaybeCall {
            return post("/containers/create?name=" + escape_query(s.name), placed(s, ids));
          },
          [&](const JoinWall& s) -> MaybeCall {
            return post("/networks/" + ids.wall + "/connect",
                        json::Object{{"Container", ids.of(s.part)},
                                     {"EndpointConfig", endpoint(s.address)}});
          },
          [](const TrustAuthority&) -> MaybeCall { return std::nullopt; },
          [&](const StartContainer& s) -> MaybeCall {
            return EngineCall{.method = "POST",
                              .target = "/containers/" + ids.of(s.part) + "/start"};
          },
      },
      step);
}

json::Value shared_network_body(const Owner& owner, Role role, const Subnet& subnet) {
  return json::Object{
      {"Name", shared_network_name(owner, role)},
      {"CheckDuplicate", true},
      {"Driver", "bridge"},
      {"EnableIPv6", false},
      {"IPAM", ipam_of(subnet)},
      {"Options", json::Object{{"com.docker.network.bridge.enable_icc", "false"}}},
      {"Labels", labels_for_shared(owner, role)},
  };
}

json::Value wall_body(const Owner& owner, const SandboxOrder& order, const Subnet& subnet) {
  return json::Object{
      {"Name", network_name(order.sandbox)},
      {"CheckDuplicate", true},
      {"Driver", "bridge"},
      {"Internal", true},
      {"EnableIPv6", false},
      {"IPAM", ipam_of(subnet)},
      // The bridge gets no address: otherwise services of the host would answer on the gateway's.
      {"Options", json::Object{{"com.docker.network.bridge.inhibit_ipv4", "true"}}},
      {"Labels", labels_for(owner, order, Role::kNetwork, Structure::kInternalNet)},
  };
}

std::string policy_json(const PlanInput& input, const WallInput& wall) {
  const std::string address = wall.subnet.host(kSidecarHost);
  json::Object file{{"listen", address + ":" + std::to_string(kProxyPort)},
                    {"dns_listen", address + ":" + std::to_string(kDnsPort)}};
  add_policy(file, input);
  add_refused(file, wall.refused);
  return json::dump(file);
}

std::string isolated_policy_json(const PlanInput& input, const IsolatedInput& isolated) {
  json::Object file{{"listen", std::string(kLoopback) + ":" + std::to_string(kProxyPort)}};
  add_policy(file, input);
  add_refused(file, isolated.refused);
  return json::dump(file);
}

std::string sandbox_folder(const std::string& state_dir, const SandboxId& sandbox) {
  return state_dir + "/sandboxes/" + sandbox.str();
}
std::string guest_folder(const std::string& state_dir, const SandboxId& sandbox) {
  return sandbox_folder(state_dir, sandbox) + "/guest";
}
std::string egress_folder(const std::string& state_dir, const SandboxId& sandbox) {
  return sandbox_folder(state_dir, sandbox) + "/egress";
}

}  // namespace sandboxkit::docker
