#include "docker/fleet.h"

#include "base/fault_point.h"
#include "base/text.h"
#include "docker/images.h"
#include "docker/narrowing.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <thread>
#include <utility>

namespace sandboxkit::docker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// The engine lets go of a network a little after its containers.
constexpr int kRemoveTries = 20;
constexpr milliseconds kRemovePause{100};

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

}  // namespace

Fleet::Fleet(const DockerDriverConfig& config, EngineClient& engine, LinkHub& hub, Subnet pool)
    : config_(config),
      engine_(engine),
      hub_(hub),
      owner_{config.controller, config.worker},
      pool_(pool),
      holders_(holder_maker(engine, owner_, [this] { return egress_image(); }), config.wall_pool),
      waiting_walls_(wall_maker(), config.wall_pool) {}

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
  const ReadyPool::Create under_way(holders_);
  const ReadyPool::Create walls_too(waiting_walls_);
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
  if (!wall_of(order.sandbox, nullptr).empty()) {
    // A worker that died had taken a wall for it, and made nothing else.
    if (Status gone = take_down(order.sandbox); !gone) {
      return gone;
    }
  }
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

void Fleet::prove(bool internal_net, bool isolated_ns) {
  proved_.with([&](auto& proved) { proved = Proved{internal_net, isolated_ns}; });
  // The pool of the structure that orders get.
  if (isolated_ns) {
    holders_.fill();
  } else if (internal_net) {
    waiting_walls_.fill();
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
  if (may_isolate && shares_kernel(order.spec.runtime)) {
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
  const auto found = seen->sandboxes.find(sandbox);
  const SeenSandbox* old = found != seen->sandboxes.end() ? &found->second : nullptr;
  const std::string taken = wall_of(sandbox, old);
  if (old != nullptr) {
    if (Status gone = take_down(*old); !gone) {
      return gone;
    }
  }
  if (!taken.empty()) {
    // Also when somebody else removed the sandbox, which alone named it.
    if (Status gone = remove_wall(taken); !gone) {
      return gone;
    }
  }
  if (old != nullptr && old->doubled) {
    return take_down(sandbox);  // One of each is gone; the others follow.
  }
  std::error_code ignored;
  std::filesystem::remove_all(sandbox_folder(config_.state_dir, sandbox), ignored);
  return {};
}

Status Fleet::take_down(const SeenSandbox& old) {
  // Side by side: each kill takes its while. Without its proxy a sandbox reaches nothing.
  std::vector<std::string> helpers;
  for (const auto* helper : {&old.sidecar, &old.anchor}) {
    if (*helper) {
      helpers.push_back((*helper)->id);
    }
  }
  std::future<Status> others =
      std::async(std::launch::async, [&] { return remove_containers(helpers); });
  Status gone = old.sandbox ? remove_container(old.sandbox->id) : Status();
  SANDBOXKIT_FAULT_POINT("docker.remove.sandbox_gone");
  const Status others_gone = others.get();
  SANDBOXKIT_FAULT_POINT("docker.remove.containers_gone");
  gone = gone ? others_gone : gone;
  if (gone && old.wall) {
    gone = remove_network(old.wall->id);
  }
  SANDBOXKIT_FAULT_POINT("docker.remove.wall_gone");
  return gone;
}

/// Side by side. Errors: the first one's that stays.
Status Fleet::remove_containers(const std::vector<std::string>& containers) {
  std::vector<std::future<Status>> removals;
  for (const std::string& container : containers) {
    removals.push_back(
        std::async(std::launch::async, [this, &container] { return remove_container(container); }));
  }
  Status gone;
  for (std::future<Status>& removal : removals) {
    const Status one = removal.get();
    gone = gone ? one : gone;
  }
  return gone;
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

std::optional<Known> Fleet::find(const SandboxId& sandbox) const {
  return known_.with([&](const auto& all) {
    const auto found = all.find(sandbox);
    return found != all.end() ? std::optional(found->second) : std::nullopt;
  });
}

}  // namespace sandboxkit::docker
