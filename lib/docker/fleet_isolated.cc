// Fleet: sandboxes without an interface.
#include "docker/fleet.h"
#include "docker/host_addresses.h"

#include <chrono>
#include <utility>

namespace sandboxkit::docker {

using std::chrono::steady_clock;

/// The pool, and what the engine has besides.
Result<std::vector<Subnet>> Fleet::engine_subnets() {
  const auto networks = engine_.get("/networks");
  if (!networks) {
    return networks.error();
  }
  std::vector<Subnet> found{pool_};
  for (const Subnet& subnet : subnets_of_networks(*networks)) {
    if (!pool_.overlaps(subnet) || subnet.prefix < pool_.prefix) {
      found.push_back(subnet);
    }
  }
  return found;
}

/// What a sidecar must not dial: the engine's subnets, and every address of this machine.
Result<std::vector<Subnet>> Fleet::machine_blocks() {
  auto blocks = engine_subnets();
  const auto hosts = host_addresses();
  if (!blocks || !hosts) {
    return blocks ? hosts.error() : blocks.error();
  }
  blocks->insert(blocks->end(), hosts->begin(), hosts->end());
  return blocks;
}

Result<Built> Fleet::build_isolated(const SandboxOrder& order, const Trust& trust,
                                    const BuildLimits& limits) {
  auto refused = engine_subnets();
  if (!refused) {
    return refused.error();
  }
  const PlanInput input{config_, order};
  IsolatedInput isolated{std::move(*refused)};
  if (const auto holder = holders_.take()) {
    isolated.has_holder = true;
    Built start;
    start.ids.holder = *holder;
    auto built = run_plan(engine_, hub_, with_trust(plan_isolated(input, isolated), trust),
                          std::move(start), limits);
    holders_.discard(*holder);  // The sandbox keeps the namespace.
    if (built || limits.stop.stop_requested() || steady_clock::now() >= limits.deadline) {
      return built;
    }
    // The engine may have lost what waited. Without a holder it takes longer, and is the same.
    holders_.discard_all();
    if (Status gone = take_down(order.sandbox); !gone) {
      return gone.error();
    }
    isolated.has_holder = false;
  }
  return run_plan(engine_, hub_, with_trust(plan_isolated(input, isolated), trust), Built{},
                  limits);
}

/// A container that joined another's namespace must have joined a holder's: one that is still
/// there and is none of ours is somebody's with a network.
Status Fleet::check_holder(const SeenContainer& sandbox) {
  constexpr std::string_view kJoined = "container:";
  if (!sandbox.network_mode.starts_with(kJoined)) {
    return {};
  }
  const auto other =
      engine_.get("/containers/" + sandbox.network_mode.substr(kJoined.size()) + "/json");
  if (!other) {
    return other.error().code == ErrorCode::kNotFound ? Status() : Status(other.error());
  }
  const json::Value* about = other->find("Config");
  if (about == nullptr || !has_role(about->find("Labels"), owner_, Role::kHolder)) {
    return Error{ErrorCode::kConflict, "it is in the network namespace of another container"};
  }
  return {};
}

}  // namespace sandboxkit::docker
