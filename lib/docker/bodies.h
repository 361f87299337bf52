#pragma once

#include "docker/plan.h"

#include <string>
#include <vector>

namespace sandboxkit::docker {

// What the calls of a plan say. All of it is pure, and nothing of an order chooses a network, a
// mount, a capability or a privilege: those are constants here.

Owner owner_of(const DockerDriverConfig& config);

/// Where a sandbox stands.
struct Stand {
  Structure structure;
  std::string sidecar_address{};  ///< Where its proxy is, on an internal network.
  bool joins = false;             ///< The namespace of another container.
  std::string wall{};             ///< The wall that waited for it.
};
json::Value sandbox_body(const PlanInput& input, const Stand& stand);

/// What the containers of a wall differ in.
struct WallPart {
  std::string egress_image;
  std::string egress_folder;
  json::Value labels;
};
/// The proxy. Its networks are the plan's.
json::Value sidecar_body(const WallPart& part);
/// A container that does nothing in the namespace that the sandbox joins. It is on the sandbox's
/// internal network, and its names are answered as the sandbox's are.
json::Value anchor_body(const WallPart& part, const std::string& sidecar_address);

/// The network of a wall.
json::Value wall_body(const std::string& name, const Subnet& subnet, json::Value labels);

}  // namespace sandboxkit::docker
