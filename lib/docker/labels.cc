#include "docker/labels.h"

#include "base/text.h"
#include "docker/engine_client.h"

#include <array>
#include <limits>
#include <utility>

namespace sandboxkit::docker {
namespace {

constexpr std::array kRoles{Role::kSandbox,       Role::kEgress,      Role::kNetwork,
                            Role::kEgressNetwork, Role::kOpenNetwork, Role::kHolder};

std::optional<Role> role_from(std::string_view name) {
  for (const Role role : kRoles) {
    if (name == name_of(role)) {
      return role;
    }
  }
  return std::nullopt;
}

/// A walled object without the label is from before there were two structures.
std::optional<Structure> structure_from(std::string_view name, bool walled) {
  if (name.empty()) {
    return walled ? Structure::kInternalNet : Structure::kNone;
  }
  for (const Structure structure : {Structure::kInternalNet, Structure::kIsolatedNs}) {
    if (walled && name == name_of(structure)) {
      return structure;
    }
  }
  return std::nullopt;
}

bool is_owned(const json::Value* labels, const Owner& owner) {
  return labels != nullptr && labels->text(label::kController) == owner.controller.str() &&
         labels->text(label::kWorker) == owner.worker.str();
}

json::Array label_terms(const Owner& owner, const SandboxId* sandbox) {
  json::Array terms{label::kController + ("=" + owner.controller.str()),
                    label::kWorker + ("=" + owner.worker.str())};
  if (sandbox != nullptr) {
    terms.emplace_back(label::kSandbox + ("=" + sandbox->str()));
  }
  return terms;
}

}  // namespace

const char* name_of(Role role) {
  switch (role) {
    case Role::kSandbox:
      return "sandbox";
    case Role::kEgress:
      return "egress";
    case Role::kNetwork:
      return "network";
    case Role::kEgressNetwork:
      return "egress-network";
    case Role::kOpenNetwork:
      return "open-network";
    case Role::kHolder:
      return "holder";
  }
  return "unknown";
}

const char* name_of(Structure structure) {
  switch (structure) {
    case Structure::kNone:
      return "";
    case Structure::kInternalNet:
      return "internal-net";
    case Structure::kIsolatedNs:
      return "isolated-ns";
  }
  return "";
}

json::Value labels_for(const Owner& owner, const SandboxOrder& order, Role role,
                       Structure structure) {
  return json::Object{
      {label::kController, owner.controller.str()},
      {label::kWorker, owner.worker.str()},
      {label::kTenant, order.tenant.str()},
      {label::kSandbox, order.sandbox.str()},
      {label::kGeneration, std::to_string(order.generation)},
      {label::kExpiresAt, to_rfc3339(order.expires_at)},
      {label::kPolicyHash, order.policy_hash},
      {label::kRole, name_of(role)},
      {label::kStructure, name_of(structure)},
  };
}

json::Value labels_for_shared(const Owner& owner, Role role) {
  return json::Object{
      {label::kController, owner.controller.str()},
      {label::kWorker, owner.worker.str()},
      {label::kRole, name_of(role)},
  };
}

std::optional<ObjectLabels> read_labels(const json::Value* labels, const Owner& owner) {
  if (!is_owned(labels, owner)) {
    return std::nullopt;
  }
  const auto role = role_from(labels->text(label::kRole));
  auto sandbox = SandboxId::parse(labels->text(label::kSandbox));
  auto tenant = TenantId::parse(labels->text(label::kTenant));
  const auto generation =
      parse_decimal(labels->text(label::kGeneration), std::numeric_limits<std::int64_t>::max());
  const auto expires = parse_rfc3339(labels->text(label::kExpiresAt));
  std::string policy_hash = labels->text(label::kPolicyHash);
  const auto structure = structure_from(labels->text(label::kStructure), !policy_hash.empty());
  if (!role || !sandbox || !tenant || !generation || !expires || !structure) {
    return std::nullopt;
  }
  return ObjectLabels{*role,     *sandbox,
                      *tenant,   static_cast<std::int64_t>(*generation),
                      *expires,  std::move(policy_hash),
                      *structure};
}

bool has_role(const json::Value* labels, const Owner& owner, Role role) {
  return is_owned(labels, owner) && labels->text(label::kRole) == name_of(role);
}

std::string filters_for(const Owner& owner, const SandboxId* sandbox) {
  const json::Value filters = json::Object{{"label", label_terms(owner, sandbox)}};
  return "filters=" + escape_query(json::dump(filters));
}

std::string event_filters() {
  const json::Value filters = json::Object{
      {"type", json::Array{"container", "network"}},
      {"event", json::Array{"start", "die", "oom", "connect"}},
  };
  return "filters=" + escape_query(json::dump(filters));
}

std::string sandbox_name(const SandboxId& sandbox) { return "sbx-" + sandbox.str(); }
std::string sidecar_name(const SandboxId& sandbox) { return "sbx-" + sandbox.str() + "-egress"; }
std::string network_name(const SandboxId& sandbox) { return "sbx-" + sandbox.str(); }

std::string shared_network_name(const Owner& owner, Role role) {
  return (role == Role::kOpenNetwork ? "sandboxkit-open-" : "sandboxkit-egress-") +
         owner.worker.str();
}

}  // namespace sandboxkit::docker
