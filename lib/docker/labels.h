#pragma once

#include "sandboxkit/driver.h"
#include "sandboxkit/ids.h"

#include "json/value.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sandboxkit::docker {

/// Whose objects these are. Objects that do not carry both are never touched.
struct Owner {
  ControllerId controller;
  WorkerId worker;
};

/// What an engine object is for: the label `dev.sandboxkit.role`.
enum class Role : std::uint8_t {
  kSandbox,
  kEgress,         ///< A sandbox's proxy sidecar.
  kNetwork,        ///< A sandbox's internal network.
  kEgressNetwork,  ///< The worker's network that sidecars go out by.
  kOpenNetwork,    ///< The worker's network of unwalled sandboxes.
  kHolder,         ///< A container that waits to lend its network namespace to a sandbox.
  kAnchor,         ///< A container whose network namespace a sandbox is in for all of its life.
};

const char* name_of(Role role);

/// How a sandbox is walled: the label `dev.sandboxkit.structure`.
enum class Structure : std::uint8_t {
  kNone,  ///< Unwalled.
  kInternalNet,
  kIsolatedNs,
};

const char* name_of(Structure structure);  ///< Empty for kNone.

namespace label {
inline constexpr const char* kController = "dev.sandboxkit.controller";
inline constexpr const char* kWorker = "dev.sandboxkit.worker";
inline constexpr const char* kTenant = "dev.sandboxkit.tenant";
inline constexpr const char* kSandbox = "dev.sandboxkit.sandbox";
inline constexpr const char* kGeneration = "dev.sandboxkit.generation";
inline constexpr const char* kExpiresAt = "dev.sandboxkit.expires-at";
inline constexpr const char* kPolicyHash = "dev.sandboxkit.policy-hash";
inline constexpr const char* kRole = "dev.sandboxkit.role";
inline constexpr const char* kStructure = "dev.sandboxkit.structure";
/// The wall that was made before its sandbox was ordered: on its parts, and on the sandbox that
/// took it.
inline constexpr const char* kWall = "dev.sandboxkit.wall";
}  // namespace label

/// The labels of one object of a sandbox. `wall` names the waiting wall that a sandbox takes.
json::Value labels_for(const Owner& owner, const SandboxOrder& order, Role role,
                       Structure structure, const std::string& wall = "");
/// The labels of a part of a wall that has no sandbox yet.
json::Value labels_for_wall(const Owner& owner, Role role, const std::string& wall);
/// The labels of a network that a worker's sandboxes share.
json::Value labels_for_shared(const Owner& owner, Role role);

/// What a sandbox's object says about itself.
struct ObjectLabels {
  Role role;
  SandboxId sandbox;
  TenantId tenant;
  std::int64_t generation = 0;
  WallTime expires_at{};
  std::string policy_hash{};
  Structure structure = Structure::kNone;
  std::string wall{};  ///< Empty: its wall was made for it, and carries its own labels.
};

/// Reads `Labels`; nullopt when the object is not ours, is no sandbox's, or says nonsense.
std::optional<ObjectLabels> read_labels(const json::Value* labels, const Owner& owner);
/// What a part of a wall that waited says about itself.
struct WallLabels {
  Role role;
  std::string wall;
};
/// Reads `Labels`; nullopt when it is not the owner's part of such a wall.
std::optional<WallLabels> read_wall_labels(const json::Value* labels, const Owner& owner);
/// Whether `Labels` carries the owner and this role.
bool has_role(const json::Value* labels, const Owner& owner, Role role);

/// The query text `filters=...` that selects the owner's objects, and of one sandbox if given.
std::string filters_for(const Owner& owner, const SandboxId* sandbox = nullptr);
/// The same of the parts of one wall that waited, and the sandbox that took it.
std::string filters_for_wall(const Owner& owner, const std::string& wall);
/// The query text of the events that we follow: containers that start or die, and containers that
/// come onto a network. Of every owner: the engine does not say the labels of those.
std::string event_filters();

/// Names on the engine. They are for people and against doubles; calls go by id.
std::string sandbox_name(const SandboxId& sandbox);
std::string sidecar_name(const SandboxId& sandbox);
std::string anchor_name(const SandboxId& sandbox);
std::string network_name(const SandboxId& sandbox);
/// `sbx-wall-<id>` with the part's role: of a wall that has no sandbox yet.
std::string wall_part_name(const std::string& wall, Role role);
std::string shared_network_name(const Owner& owner, Role role);

}  // namespace sandboxkit::docker
