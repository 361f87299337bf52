#include "docker/fleet.h"

#include "base/fault_point.h"
#include "base/random.h"
#include "base/text.h"
#include "docker/images.h"
#include "docker/narrowing.h"
#include "policy/hardening.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <thread>
#include <utility>

namespace sandboxkit::docker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// How many blocks of the pool are tried when others take them at the same time.
constexpr int kSubnetTries = 16;
/// The engine lets go of a network a little after its containers.
constexpr int kRemoveTries = 20;
constexpr milliseconds kRemovePause{100};

std::string routes_text() {
  std::ifstream file("/proc/net/route");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// Whether the engine refused a network because its subnet is taken.
bool says_overlap(const Error& error) { return error.message.find("overlap") != std::string::npos; }

/// Whether something of that name stands. Names are made of the sandbox's id, so it is ours.
bool says_taken(const Error& error) {
  return error.code == ErrorCode::kConflict &&
         (error.message.find("already in use by container") != std::string::npos ||
          error.message.find("already exists") != std::string::npos);
}

bool is_absent(const Error& error) { return error.code == ErrorCode::kNotFound; }

Status check_order(const SandboxOrder& order) {
  if (Status valid = validate(order.spec); !valid) {
    return valid;
  }
  if (order.spec.persistence != Persistence::kEphemeral) {
    return Error{ErrorCode::kConflict, "this driver keeps no disk beyond its sandbox",
                 "worker_capability_unavailable", "persistence"};
  }
  if (order.spec.egress.is_walled() == order.policy_hash.empty()) {
    // The label is what later tells a walled sandbox from an open one.
    return Error{ErrorCode::kInvalidArgument,
                 "a walled sandbox has a policy hash and an unwalled one has none", "",
                 "policy_hash"};
  }
  return check_image_name(order.spec.image);
}

/// The word is the order's and may name any runtime of the engine: those that share the host's
/// kernel can pass a socket of theirs out.
bool passes_sockets(const std::string& runtime) {
  return runtime.empty() || policy::shares_kernel(runtime);
}

}  // namespace

Fleet::Fleet(const DockerDriverConfig& config, EngineClient& engine, LinkHub& hub, Subnet pool)
    : config_(config),
      engine_(engine),
      hub_(hub),
      owner_{config.controller, config.worker},
      pool_(pool),
      holders_(engine, owner_, config.wall_pool) {}

Status Fleet::create(const SandboxOrder& order, std::stop_token stop,
                     std::optional<Structure> structure) {
  if (Status good = check_order(order); !good) {
    return good;
  }
  const auto chosen = structure ? Result<Structure>(*structure) : structure_of(order);
  if (!chosen) {
    return chosen.error();
  }
  const auto deadline = steady_clock::now() + config_.create_timeout;
  const Operations::Turn turn = operations_.begin(order.sandbox, false);
  std::stop_source either = turn.stop();
  const std::stop_callback forward(stop, [&either] { either.request_stop(); });
  const auto seen = look(&order.sandbox);
  if (!seen) {
    return seen.error();
  }
  const auto stands = settle_existing(order, *seen);
  if (!stands) {
    return stands.error();
  }
  if (*stands) {
    // The create that comes again brings what the proxy of a worker that died may lack.
    if (order.spec.secrets.empty() || lend_known(order.sandbox, order.spec.secrets)) {
      return {};
    }
    if (Status gone = take_down(order.sandbox); !gone) {
      return gone;
    }
  }
  const auto there = has_image(engine_, order.spec.image);
  if (!there) {
    return there.error();
  }
  if (!*there) {
    return Error{ErrorCode::kNotFound,
                 "the worker's engine has no image " + sandboxkit::quoted(order.spec.image) +
                     "; load or import it there (nothing is pulled from a registry)",
                 "image_not_found", "image"};
  }
  const HolderPool::Create under_way(holders_);
  const BuildLimits limits{either.get_token(), deadline, config_.call_timeout};
  Status built = build(order, *chosen, limits);
  if (!built && says_taken(built.error()) && take_down(order.sandbox)) {
    // A worker that died had ordered it, and the engine made it after we had looked.
    built = build(order, *chosen, limits);
  }
  if (!built) {
    // The create's own error counts; what cannot be removed now still carries our labels.
    static_cast<void>(take_down(order.sandbox));
  }
  return built;
}

/// True when the ordered sandbox runs already; what stands in its way is removed.
Result<bool> Fleet::settle_existing(const SandboxOrder& order, const Seen& seen) {
  const auto found = seen.sandboxes.find(order.sandbox);
  if (found == seen.sandboxes.end()) {
    return false;
  }
  const SeenSandbox& old = found->second;
  if (old.labels().generation > order.generation) {
    return Error{ErrorCode::kConflict,
                 "generation " + std::to_string(old.labels().generation) + " of sandbox " +
                     sandboxkit::quoted(order.sandbox.str()) + " stands already",
                 "generation_conflict"};
  }
  const bool same =
      old.labels().generation == order.generation && old.labels().policy_hash == order.policy_hash;
  if (same && old.sandbox && old.sandbox->running() && problem_of(order.sandbox, old).empty()) {
    const auto known = find(order.sandbox);
    if (known && !known->ended && known->ids.sandbox == old.sandbox->id) {
      return true;
    }
    if (reopen(order.sandbox, old)) {
      const auto again = find(order.sandbox);
      meet_again(*again);
      if (again->guest->ready()) {
        return true;
      }
    }
  }
  Status gone = take_down(order.sandbox);
  return gone ? Result<bool>(false) : Result<bool>(gone.error());
}

Status Fleet::build(const SandboxOrder& order, Structure structure, const BuildLimits& limits) {
  forget_narrowing(egress_folder(config_.state_dir, order.sandbox));
  const auto lending = prepare_lending(order);
  if (!lending) {
    return lending.error();
  }
  const Trust& trust = lending->trust;
  auto built = structure == Structure::kNone         ? build_unwalled(order, limits)
               : structure == Structure::kIsolatedNs ? build_isolated(order, trust, limits)
                                                     : build_walled(order, trust, limits);
  if (!built) {
    return built.error();
  }
  auto secrets = begin_lending(order, *lending, *built);
  if (!secrets) {
    return secrets.error();
  }
  const std::string container = built->ids.sandbox;
  known_.with([&](auto& all) {
    all.insert_or_assign(order.sandbox, Known{order.tenant, order.generation, std::move(built->ids),
                                              std::move(built->guest), std::move(built->egress),
                                              std::move(built->proxy), false, std::move(*secrets)});
  });
  // An end before this line was an event about a sandbox that nobody knew yet.
  const auto state = inspect_state(engine_, container);
  if (!state) {
    return state.error();
  }
  if (!state->running) {
    return Error{ErrorCode::kUnavailable, "the sandbox ended at once: " + end_reason(*state),
                 "guest_unavailable"};
  }
  return {};
}

Result<Built> Fleet::build_walled(const SandboxOrder& order, const Trust& trust,
                                  const BuildLimits& limits) {
  auto image = egress_image();
  if (!image) {
    return image.error();
  }
  auto shared = shared_network(Role::kEgressNetwork);
  if (!shared) {
    return shared.error();
  }
  const auto never = machine_blocks();
  if (!never) {
    return never.error();
  }
  std::vector<Subnet> refused;
  Result<Built> built = Error{ErrorCode::kInternal, "no wall was tried"};
  for (int tries = 0; tries < kSubnetTries; ++tries) {
    const auto subnet = reserve(kWallPrefix);
    if (!subnet) {
      built = subnet.error();
      break;
    }
    refused.push_back(*subnet);
    const Plan plan = with_trust(
        plan_walled(PlanInput{config_, order}, WallInput{*subnet, *image, *never}), trust);
    Built start;
    start.ids.shared_network = *shared;
    built = run_plan(engine_, hub_, plan, std::move(start), limits);
    if (built || !says_overlap(built.error())) {
      break;
    }
    if (Status gone = take_down(order.sandbox); !gone) {
      break;
    }
  }
  // Kept until here, so that no refused block is tried twice. One that is used is the engine's now.
  for (const Subnet& subnet : refused) {
    release(subnet);
  }
  return built;
}

void Fleet::prove(bool internal_net, bool isolated_ns) {
  proved_.with([&](auto& proved) { proved = Proved{internal_net, isolated_ns}; });
  if (isolated_ns) {
    if (const auto image = egress_image()) {
      holders_.fill(*image);
    }
  }
}

Result<Structure> Fleet::structure_of(const SandboxOrder& order) const {
  if (!order.spec.egress.is_walled()) {
    return Structure::kNone;
  }
  // Before the first probe the structure counts that needs no more than the engine.
  const Proved proved =
      proved_.with([](const auto& known) { return known.value_or(Proved{.internal_net = true}); });
  const bool may_isolate =
      config_.egress_structure == EgressStructure::kIsolatedNs ||
      (config_.egress_structure == EgressStructure::kAuto && proved.isolated_ns);
  const bool may_use_net =
      config_.egress_structure == EgressStructure::kInternalNet ||
      (config_.egress_structure == EgressStructure::kAuto && proved.internal_net);
  if (may_isolate && passes_sockets(order.spec.runtime)) {
    return Structure::kIsolatedNs;
  }
  if (may_use_net) {
    return Structure::kInternalNet;
  }
  return Error{ErrorCode::kConflict,
               may_isolate ? "with the runtime " + sandboxkit::quoted(order.spec.runtime) +
                                 " this worker can build no wall"
                           : "no wall was proved on this worker's engine",
               "worker_capability_unavailable", "egress"};
}

Result<Built> Fleet::build_unwalled(const SandboxOrder& order, const BuildLimits& limits) {
  auto shared = shared_network(Role::kOpenNetwork);
  if (!shared) {
    return shared.error();
  }
  Built start;
  start.ids.shared_network = *shared;
  return run_plan(engine_, hub_, plan_unwalled(PlanInput{config_, order}), std::move(start),
                  limits);
}

Result<std::string> Fleet::egress_image() {
  const std::lock_guard lock(image_mutex_);
  if (egress_image_.empty()) {
    const auto hash = hash_file(config_.egress_binary);
    if (!hash) {
      return hash.error();
    }
    egress_image_ = egress_image_name(*hash);
  }
  if (Status made = ensure_egress_image(engine_, config_.egress_binary, egress_image_); !made) {
    return made.error();
  }
  return egress_image_;
}

Result<std::string> Fleet::shared_network(Role role) {
  const std::lock_guard lock(shared_mutex_);
  const auto networks = engine_.get("/networks?" + filters_for(owner_));
  if (!networks) {
    return networks.error();
  }
  auto found = read_shared_network(*networks, owner_, role);
  if (!found) {
    return found.error();
  }
  return *found ? Result<std::string>(**found) : make_shared_network(role);
}

Result<std::string> Fleet::make_shared_network(Role role) {
  std::vector<Subnet> tried;
  Result<std::string> made = Error{ErrorCode::kInternal, "no network was tried"};
  for (int tries = 0; tries < kSubnetTries; ++tries) {
    const auto subnet = reserve(kSharedPrefix);
    if (!subnet) {
      made = subnet.error();
      break;
    }
    tried.push_back(*subnet);
    const auto answer =
        engine_.call(EngineCall{.method = "POST",
                                .target = "/networks/create",
                                .body = json::dump(shared_network_body(owner_, role, *subnet))});
    made = answer ? Result<std::string>(answer->text("Id")) : Result<std::string>(answer.error());
    if (made || !says_overlap(made.error())) {
      break;
    }
  }
  for (const Subnet& subnet : tried) {
    release(subnet);
  }
  return made;
}

/// A block of the pool that neither the engine, nor the host's routes, nor a create under way has.
Result<Subnet> Fleet::reserve(int prefix) {
  const auto networks = engine_.get("/networks");
  if (!networks) {
    return networks.error();
  }
  std::vector<Subnet> taken = subnets_of_networks(*networks);
  const std::vector<Subnet> routes = subnets_of_routes(routes_text());
  taken.insert(taken.end(), routes.begin(), routes.end());
  // A random place, so that two workers of one engine rarely want the same.
  const auto start = static_cast<std::uint32_t>(system_random().next_u64());
  const auto found = reserved_.with([&](auto& reserved) {
    taken.insert(taken.end(), reserved.begin(), reserved.end());
    const auto block = free_subnet(pool_, prefix, taken, start);
    if (block) {
      reserved.push_back(*block);
    }
    return block;
  });
  if (!found) {
    return Error{ErrorCode::kResourceExhausted,
                 "no free /" + std::to_string(prefix) + " is left in the subnet pool " +
                     sandboxkit::quoted(pool_.to_string()) + "; give the worker another pool"};
  }
  return *found;
}

void Fleet::release(const Subnet& subnet) {
  reserved_.with([&](auto& reserved) { std::erase(reserved, subnet); });
}

Status Fleet::remove(const SandboxId& sandbox) {
  const Operations::Turn turn = operations_.begin(sandbox, true);
  return take_down(sandbox);
}

/// The sandbox first, its proxy, then the network that held both, then the host's side.
Status Fleet::take_down(const SandboxId& sandbox) {
  const auto known = known_.with([&](auto& all) {
    const auto found = all.find(sandbox);
    std::optional<Known> old;
    if (found != all.end()) {
      old = std::move(found->second);
      all.erase(found);
    }
    return old;
  });
  if (known) {
    for (const auto& link : {known->guest, known->egress}) {
      if (link) {
        link->close();
      }
    }
  }
  const auto seen = look(&sandbox);
  if (!seen) {
    return seen.error();
  }
  if (const auto found = seen->sandboxes.find(sandbox); found != seen->sandboxes.end()) {
    const SeenSandbox& old = found->second;
    // Side by side: each kill takes its while. Without its proxy a sandbox reaches nothing.
    std::future<Status> sidecar = std::async(std::launch::async, [&] {
      return old.sidecar ? remove_container(old.sidecar->id) : Status();
    });
    Status gone = old.sandbox ? remove_container(old.sandbox->id) : Status();
    SANDBOXKIT_FAULT_POINT("docker.remove.sandbox_gone");
    Status sidecar_gone = sidecar.get();
    SANDBOXKIT_FAULT_POINT("docker.remove.containers_gone");
    gone = gone ? sidecar_gone : gone;
    if (gone && old.wall) {
      gone = remove_network(old.wall->id);
    }
    SANDBOXKIT_FAULT_POINT("docker.remove.wall_gone");
    if (!gone) {
      return gone;
    }
    if (old.doubled) {
      return take_down(sandbox);  // One of each is gone; the others follow.
    }
  }
  std::error_code ignored;
  std::filesystem::remove_all(sandbox_folder(config_.state_dir, sandbox), ignored);
  return {};
}

Status Fleet::remove_container(const std::string& container) {
  for (int tries = 0;; ++tries) {
    const EngineCall call{.method = "DELETE",
                          .target = "/containers/" + container + "?force=1&v=1"};
    const auto answer = engine_.call(call);
    if (answer || is_absent(answer.error())) {
      return {};
    }
    // 409: somebody else is removing it; wait until that is done.
    if (answer.error().code != ErrorCode::kConflict || tries == kRemoveTries) {
      return answer.error();
    }
    std::this_thread::sleep_for(kRemovePause);
  }
}

Status Fleet::remove_network(const std::string& network) {
  for (int tries = 0;; ++tries) {
    const auto answer =
        engine_.call(EngineCall{.method = "DELETE", .target = "/networks/" + network});
    if (answer || is_absent(answer.error())) {
      return {};
    }
    const bool still_used = answer.error().message.find("active endpoints") != std::string::npos;
    if (!still_used || tries == kRemoveTries) {
      return answer.error();
    }
    std::this_thread::sleep_for(kRemovePause);
  }
}

Result<Fleet::Seen> Fleet::look(const SandboxId* sandbox) {
  const std::string filters = filters_for(owner_, sandbox);
  auto containers = engine_.get("/containers/json?all=1&" + filters);
  if (!containers) {
    return containers.error();
  }
  auto networks = engine_.get("/networks?" + filters);
  if (!networks) {
    return networks.error();
  }
  auto sandboxes = read_sandboxes(*containers, *networks, owner_);
  return Seen{std::move(*networks), std::move(sandboxes)};
}

std::optional<Known> Fleet::find(const SandboxId& sandbox) const {
  return known_.with([&](const auto& all) {
    const auto found = all.find(sandbox);
    return found != all.end() ? std::optional(found->second) : std::nullopt;
  });
}

}  // namespace sandboxkit::docker
