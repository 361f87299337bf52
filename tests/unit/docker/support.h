#pragma once

#include "docker/labels.h"
#include "docker/plan.h"
#include "json/value.h"

#include <string>
#include <vector>

namespace sandboxkit::docker::test {

template <typename Id>
Id id(const char* text) {
  return *Id::parse(text);
}

inline Owner owner() { return Owner{id<ControllerId>("ctl-1"), id<WorkerId>("w-1")}; }

inline DockerDriverConfig config() {
  DockerDriverConfig made{id<ControllerId>("ctl-1"), id<WorkerId>("w-1"), "/state", "/bin/guest",
                          "/bin/egress"};
  made.dns_servers = {"192.0.2.53"};
  made.egress_hosts = {"packages.test=172.30.0.2"};
  return made;
}

inline Egress walled(const std::vector<std::string>& domains) {
  return Egress::walled(*EgressPolicy::create(domains, {}));
}

inline SandboxOrder order(Egress egress) {
  const bool is_walled = egress.is_walled();
  SandboxOrder made{id<SandboxId>("i0123456789abcdefghij"), id<TenantId>("acme"), 3,
                    SandboxSpec{"team/base:1", std::move(egress)}};
  made.expires_at = WallTime(std::chrono::milliseconds(1'700'000'000'000));
  made.policy_hash = is_walled ? "hash-1" : "";
  return made;
}

/// The member at the path, or null: `at(body, {"HostConfig", "Memory"})`.
inline json::Value at(const json::Value& value, const std::vector<std::string>& path) {
  const json::Value* now = &value;
  for (const std::string& name : path) {
    now = now != nullptr ? now->find(name) : nullptr;
  }
  return now != nullptr ? *now : json::Value();
}

inline json::Value parsed(const std::string& text) { return *json::parse(text); }

}  // namespace sandboxkit::docker::test
