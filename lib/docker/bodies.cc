#include "docker/bodies.h"

#include "docker/seccomp.h"
#include "docker/trust.h"
#include "egress/secret_book.h"
#include "policy/hardening.h"

#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace sandboxkit::docker {
namespace {

constexpr std::int64_t kMiB = 1024 * 1024;
constexpr double kNanoCpus = 1e9;

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

/// Without it the engine's own resolver would carry names out through the host.
void add_wall_resolver(json::Object& host, const std::string& sidecar_address) {
  host.emplace_back("Dns", json::Array{sidecar_address});
}

void add_refused(json::Object& file, const std::vector<Subnet>& blocks) {
  json::Array list;
  for (const Subnet& block : blocks) {
    list.emplace_back(block.to_string());
  }
  file.emplace_back("refused_networks", std::move(list));
}

}  // namespace

Owner owner_of(const DockerDriverConfig& config) { return Owner{config.controller, config.worker}; }

void add_dead_resolver(json::Object& host) {
  host.emplace_back("Dns", json::Array{kLoopback});
  host.emplace_back("DnsSearch", json::Array{"."});
  host.emplace_back("DnsOptions", json::Array{"timeout:1", "attempts:1"});
}

json::Value sandbox_body(const PlanInput& input, const Stand& stand) {
  const DockerDriverConfig& config = input.config;
  const SandboxOrder& order = input.order;
  const bool isolated = stand.structure == Structure::kIsolatedNs;
  json::Object host = sandbox_host_config(order.spec);
  host.emplace_back(
      "Mounts",
      json::Array{read_only_mount(config.guest_binary, kGuestInSandbox),
                  read_only_mount(guest_folder(config.state_dir, order.sandbox), kGuestFolder)});
  json::Array entrypoint{kGuestInSandbox};
  std::string proxy;
  if (isolated) {
    if (!stand.joins) {
      add_dead_resolver(host);
    }
    entrypoint.emplace_back("--proxy-listener");
    entrypoint.emplace_back(std::string(kLoopback) + ":" + std::to_string(kProxyPort));
    proxy = proxy_url(kLoopback);
  } else if (stand.structure == Structure::kInternalNet) {
    if (!stand.joins) {
      add_wall_resolver(host, stand.sidecar_address);
    }
    proxy = proxy_url(stand.sidecar_address);
  }
  json::Object body{
      {"Image", order.spec.image},
      {"User", std::string(policy::hardening_of(order.spec.profile).user)},
      {"Entrypoint", std::move(entrypoint)},
      {"Cmd", json::Array{}},
      {"Env", environment(order.spec, proxy)},
      // Not the image's: the engine would run its command inside, again and again.
      {"Healthcheck", json::Object{{"Test", json::Array{"NONE"}}}},
      {"Labels", labels_for(owner_of(config), order, Role::kSandbox, stand.structure, stand.wall)},
      {"HostConfig", std::move(host)},
  };
  if (!stand.joins) {  // The engine refuses a name beside the other container's.
    body.emplace_back("Hostname", isolated ? std::string(kJoinedHostname) : order.sandbox.str());
  }
  return body;
}

json::Value sidecar_body(const WallPart& part) {
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
      {"Mounts", json::Array{read_only_mount(part.egress_folder, kEgressFolder)}},
  };
  return json::Object{
      {"Image", part.egress_image},
      {"Hostname", "egress"},
      {"User", "65534:65534"},
      // It starts before its wall has it, and serves once it finds its policy.
      {"Entrypoint", json::Array{kEgressInImage, "--await-policy"}},
      {"Cmd", json::Array{}},
      {"Labels", part.labels},
      {"HostConfig", std::move(host)},
  };
}

json::Value anchor_body(const WallPart& part, const std::string& sidecar_address) {
  json::Object host{
      {"CapDrop", json::Array{"ALL"}},
      {"SecurityOpt", json::Array{seccomp_option(), "no-new-privileges"}},
      {"ReadonlyRootfs", true},
      {"Memory", kAnchorMemoryBytes},
      {"MemorySwap", kAnchorMemoryBytes},
      {"PidsLimit", kAnchorPids},
      {"IpcMode", "private"},
      {"Init", false},
      {"LogConfig", json::Object{{"Type", "none"}}},
  };
  // The files of names and the hostname are the anchor's also in the sandbox.
  add_wall_resolver(host, sidecar_address);
  return json::Object{
      {"Image", part.egress_image},    {"Hostname", kJoinedHostname},
      {"User", "65534:65534"},         {"Entrypoint", json::Array{kEgressInImage, "--hold"}},
      {"Cmd", json::Array{}},          {"Labels", part.labels},
      {"HostConfig", std::move(host)},
  };
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

json::Value wall_body(const std::string& name, const Subnet& subnet, json::Value labels) {
  return json::Object{
      {"Name", name},
      {"CheckDuplicate", true},
      {"Driver", "bridge"},
      {"Internal", true},
      {"EnableIPv6", false},
      {"IPAM", ipam_of(subnet)},
      // The bridge gets no address: otherwise services of the host would answer on the gateway's.
      {"Options", json::Object{{"com.docker.network.bridge.inhibit_ipv4", "true"}}},
      {"Labels", std::move(labels)},
  };
}

json::Value wall_body(const Owner& owner, const SandboxOrder& order, const Subnet& subnet) {
  return wall_body(network_name(order.sandbox), subnet,
                   labels_for(owner, order, Role::kNetwork, Structure::kInternalNet));
}

std::string policy_json(const PlanInput& input, const Subnet& subnet,
                        const std::vector<Subnet>& refused) {
  const std::string address = subnet.host(kSidecarHost);
  json::Object file{{"listen", address + ":" + std::to_string(kProxyPort)},
                    {"dns_listen", address + ":" + std::to_string(kDnsPort)}};
  add_policy(file, input);
  add_refused(file, refused);
  return json::dump(file);
}

std::string isolated_policy_json(const PlanInput& input, const IsolatedInput& isolated) {
  json::Object file{{"listen", std::string(kLoopback) + ":" + std::to_string(kProxyPort)}};
  add_policy(file, input);
  add_refused(file, isolated.refused);
  return json::dump(file);
}

}  // namespace sandboxkit::docker
