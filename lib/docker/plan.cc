#include "docker/plan.h"

#include "base/percent.h"
#include "docker/bodies.h"
#include "policy/hardening.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::docker {
namespace {

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
  std::string mode = "none";
  switch (step.place) {
    case Place::kWall:
      return with_network(step, ids.wall);
    case Place::kShared:
      return with_network(step, ids.shared_network);
    case Place::kHolder:
      mode = "container:" + ids.holder;
      break;
    case Place::kAnchor:
      mode = "container:" + ids.anchor;
      break;
    case Place::kNowhere:
      break;
  }
  json::Object body = *step.body.as_object();
  json::Object host = *step.body.find("HostConfig")->as_object();
  set_member(host, "NetworkMode", mode);
  set_member(body, "HostConfig", std::move(host));
  return body;
}

EngineCall post(std::string target, const json::Value& body) {
  return EngineCall{.method = "POST", .target = std::move(target), .body = json::dump(body)};
}

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

const std::string& Ids::of(Part part) const {
  return part == Part::kSandbox ? sandbox : part == Part::kSidecar ? sidecar : anchor;
}

/// The sandbox's side of its wall. Most of a start on a network is the making of its namespace: an
/// anchor starts while the proxy does, and the sandbox, which has to wait for that one, joins it.
Plan network_steps(const PlanInput& input, const WallInput& wall) {
  const SandboxId& sandbox = input.order.sandbox;
  const Owner owner = owner_of(input.config);
  const std::string sidecar_address = wall.subnet.host(kSidecarHost);
  const bool joins = shares_kernel(input.order.spec.runtime);
  const std::string address = wall.subnet.host(kSandboxHost);
  CreateContainer box{Part::kSandbox, sandbox_name(sandbox),
                      sandbox_body(input, {Structure::kInternalNet, sidecar_address, joins}),
                      joins ? Place::kAnchor : Place::kWall, joins ? "" : address};
  CreateNetwork network{wall_body(owner, input.order, wall.subnet)};
  if (!joins) {
    return {network, box};
  }
  const WallPart anchor{wall.egress_image, "",
                        labels_for(owner, input.order, Role::kAnchor, Structure::kInternalNet)};
  return {network,
          CreateContainer{Part::kAnchor, anchor_name(sandbox), anchor_body(anchor, sidecar_address),
                          Place::kWall, address},
          StartContainer{Part::kAnchor}, box};
}

Plan plan_walled(const PlanInput& input, const WallInput& wall) {
  const SandboxId& sandbox = input.order.sandbox;
  const std::string& state_dir = input.config.state_dir;
  const Owner owner = owner_of(input.config);
  const std::string egress = egress_folder(state_dir, sandbox);
  const std::string guest = guest_folder(state_dir, sandbox);
  const std::string sidecar_address = wall.subnet.host(kSidecarHost);
  const WallPart sidecar{wall.egress_image, egress,
                         labels_for(owner, input.order, Role::kEgress, Structure::kInternalNet)};
  return {
      MakeFolder{sandbox_folder(state_dir, sandbox)},
      MakeFolder{egress},
      MakeFolder{guest},
      OpenLink{Part::kSidecar, egress + kEgressSocket},
      OpenLink{Part::kSandbox, guest + kGuestSocket},
      AtOnce{{
          {{CreateContainer{Part::kSidecar, sidecar_name(sandbox), sidecar_body(sidecar),
                            Place::kShared},
            StartContainer{Part::kSidecar}}},
          {network_steps(input, wall)},
      }},
      JoinWall{Part::kSidecar, sidecar_address},
      WriteFile{egress + kPolicyFile, policy_json(input, wall.subnet, wall.refused)},
      AwaitHelper{Part::kSidecar, input.order.policy_hash},
      StartContainer{Part::kSandbox},
      AwaitHelper{Part::kSandbox},
  };
}

Plan plan_waiting(const WaitingWall& waiting) {
  const Owner owner = owner_of(waiting.config);
  const std::string folder = wall_folder(waiting.config.state_dir, waiting.wall);
  const std::string sidecar_address = waiting.subnet.host(kSidecarHost);
  const auto name = [&](Role role) { return wall_part_name(waiting.wall, role); };
  const auto labels = [&](Role role) { return labels_for_wall(owner, role, waiting.wall); };
  const auto part = [&](Role role) { return WallPart{waiting.egress_image, folder, labels(role)}; };
  return {
      MakeFolder{folder},
      AtOnce{{
          {{CreateContainer{Part::kSidecar, name(Role::kEgress), sidecar_body(part(Role::kEgress)),
                            Place::kShared},
            StartContainer{Part::kSidecar}}},
          {{CreateNetwork{wall_body(name(Role::kNetwork), waiting.subnet, labels(Role::kNetwork))},
            CreateContainer{Part::kAnchor, name(Role::kAnchor),
                            anchor_body(part(Role::kAnchor), sidecar_address), Place::kWall,
                            waiting.subnet.host(kSandboxHost)},
            StartContainer{Part::kAnchor}}},
      }},
      JoinWall{Part::kSidecar, sidecar_address},
  };
}

Plan plan_taken(const PlanInput& input, const TakenWall& taken) {
  const SandboxId& sandbox = input.order.sandbox;
  const std::string& state_dir = input.config.state_dir;
  const std::string egress = egress_folder(state_dir, sandbox);
  const std::string guest = guest_folder(state_dir, sandbox);
  const Stand stand{Structure::kInternalNet, taken.subnet.host(kSidecarHost), true, taken.wall};
  return {
      MakeFolder{sandbox_folder(state_dir, sandbox)},
      LinkFolder{egress, wall_folder(state_dir, taken.wall)},
      MakeFolder{guest},
      OpenLink{Part::kSidecar, egress + kEgressSocket},
      OpenLink{Part::kSandbox, guest + kGuestSocket},
      WriteFile{egress + kPolicyFile, policy_json(input, taken.subnet, taken.refused)},
      CreateContainer{Part::kSandbox, sandbox_name(sandbox), sandbox_body(input, stand),
                      Place::kAnchor},
      AwaitHelper{Part::kSidecar, input.order.policy_hash},
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
      CreateContainer{
          Part::kSandbox, sandbox_name(sandbox),
          sandbox_body(input, {.structure = Structure::kIsolatedNs, .joins = isolated.has_holder}),
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
                      sandbox_body(input, {Structure::kNone}), Place::kShared},
      StartContainer{Part::kSandbox},
      AwaitHelper{Part::kSandbox},
  };
}

bool shares_kernel(const std::string& runtime) {
  return runtime.empty() || policy::shares_kernel(runtime);
}

std::optional<EngineCall> request_of(const Step& step, const Ids& ids) {
  using MaybeCall = std::optional<EngineCall>;
  return std::visit(
      Overloaded{
          [](const MakeFolder&) -> MaybeCall { return std::nullopt; },
          [](const WriteFile&) -> MaybeCall { return std::nullopt; },
          [](const LinkFolder&) -> MaybeCall { return std::nullopt; },
          [](const OpenLink&) -> MaybeCall { return std::nullopt; },
          [](const KeepProxy&) -> MaybeCall { return std::nullopt; },
          [](const AwaitHelper&) -> MaybeCall { return std::nullopt; },
          [](const AwaitProxy&) -> MaybeCall { return std::nullopt; },
          [](const AtOnce&) -> MaybeCall { return std::nullopt; },
          [](const CreateNetwork& s) -> MaybeCall { return post("/networks/create", s.body); },
          [&](const CreateContainer& s) -> MaybeCall {
            return post("/containers/create?name=" + percent_encoded(s.name), placed(s, ids));
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

std::string sandbox_folder(const std::string& state_dir, const SandboxId& sandbox) {
  return state_dir + "/sandboxes/" + sandbox.str();
}
std::string guest_folder(const std::string& state_dir, const SandboxId& sandbox) {
  return sandbox_folder(state_dir, sandbox) + "/guest";
}
std::string egress_folder(const std::string& state_dir, const SandboxId& sandbox) {
  return sandbox_folder(state_dir, sandbox) + "/egress";
}
std::string walls_folder(const std::string& state_dir) { return state_dir + "/walls"; }
std::string wall_folder(const std::string& state_dir, const std::string& wall) {
  return walls_folder(state_dir) + "/" + wall;
}

}  // namespace sandboxkit::docker
