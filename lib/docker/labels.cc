#include "docker/labels.h"

#include "base/percent.h"
#include "base/text.h"
#include "docker/engine_client.h"

#include <array>
#include <limits>
#include <utility>

namespace sandboxkit::docker {
namespace {

constexpr std::array kRoles{Role::kSandbox,     Role::kEgress, Role::kNetwork, Role::kEgressNetwork,
                            Role::kOpenNetwork, Role::kHolder, Role::kAnchor};

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

/// Wall ids name folders of the host.
bool is_wall_id(std::string_view text) {
  constexpr std::size_t kMaxBytes = 64;
  return !text.empty() && text.size() <= kMaxBytes &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789") == std::string_view::npos;
}

bool is_owned(const json::Value* labels, const Owner& owner) {
  return labels != nullptr && labels->text(label::kController) == owner.controller.str() &&
         labels->text(label::kWorker) == owner.worker.str();
}

json::Array label_terms(const Owner& owner) {
  return {label::kController + ("=" + owner.controller.str()),
          label::kWorker + ("=" + owner.worker.str())};
}

std::string filters_of(json::Array terms) {
  const json::Value filters = json::Object{{"label", std::move(terms)}};
  return "filters=" + percent_encoded(json::dump(filters));
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
    case Role::kAnchor:
      return "anchor";
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
                       Structure structure, const std::string& wall) {
  json::Object labels{
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
  if (!wall.empty()) {
    labels.emplace_back(label::kWall, wall);
  }
  return labels;
}

json::Value labels_for_wall(const Owner& owner, Role role, const std::string& wall) {
  return json::Object{
      {label::kController, owner.controller.str()},
      {label::kWorker, owner.worker.str()},
      {label::kRole, name_of(role)},
      {label::kStructure, name_of(Structure::kInternalNet)},
      {label::kWall, wall},
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
  std::string wall = labels->text(label::kWall);
  const bool sane_wall = wall.empty() || is_wall_id(wall);
  if (!role || !sandbox || !tenant || !generation || !expires || !structure || !sane_wall) {
    return std::nullopt;
  }
  return ObjectLabels{*role,      *sandbox,
                      *tenant,    static_cast<std::int64_t>(*generation),
                      *expires,   std::move(policy_hash),
                      *structure, std::move(wall)};
}

std::optional<WallLabels> read_wall_labels(const json::Value* labels, const Owner& owner) {
  if (!is_owned(labels, owner) || !labels->text(label::kSandbox).empty()) {
    return std::nullopt;
  }
  const auto role = role_from(labels->text(label::kRole));
  std::string wall = labels->text(label::kWall);
  const bool part = role == Role::kNetwork || role == Role::kEgress || role == Role::kAnchor;
  return part && is_wall_id(wall) ? std::optional(WallLabels{*role, std::move(wall)})
                                  : std::nullopt;
}

bool has_role(const json::Value* labels, const Owner& owner, Role role) {
  return is_owned(labels, owner) && labels->text(label::kRole) == name_of(role);
}

std::string filters_for(const Owner& owner, const SandboxId* sandbox) {
  json::Array terms = label_terms(owner);
  if (sandbox != nullptr) {
    terms.emplace_back(label::kSandbox + ("=" + sandbox->str()));
  }
  return filters_of(std::move(terms));
}

std::string filters_for_wall(const Owner& owner, const std::string& wall) {
  json::Array terms = label_terms(owner);
  terms.emplace_back(label::kWall + ("=" + wall));
  return filters_of(std::move(terms));
}

std::string event_filters() {
  const json::Value filters = json::Object{
      {"type", json::Array{"container", "network"}},
      {"event", json::Array{"start", "die", "oom", "connect"}},
  };
  return "filters=" + percent_encoded(json::dump(filters));
}

std::string sandbox_name(const SandboxId& sandbox) { return "sbx-" + sandbox.str(); }
std::string sidecar_name(const SandboxId& sandbox) { return "sbx-" + sandbox.str() + "-egress"; }
std::string anchor_name(const SandboxId& sandbox) { return "sbx-" + sandbox.str() + "-anchor"; }
std::string network_name(const SandboxId& sandbox) { return "sbx-" + sandbox.str(); }

std::string wall_part_name(const std::string& wall, Role role) {
  return "sbx-wall-" + wall + "-" + name_of(role);
}

std::string shared_network_name(const Owner& owner, Role role) {
  return (role == Role::kOpenNetwork ? "sandboxkit-open-" : "sandboxkit-egress-") +
         owner.worker.str();
}

}  // namespace sandboxkit::docker
