// What may happen in a world.
#include "sandboxkit/relax/unwalled_egress.h"

#include "store/credentials.h"
#include "tests/model/world.h"

#include <numeric>
#include <utility>

namespace sandboxkit::model {
namespace {

constexpr std::size_t kRemembered = 12;

}  // namespace

const std::vector<World::Operation>& World::operations() {
  static const std::vector<Operation> all = {
      {"create", 300, &World::op_create},
      {"replay", 60, &World::op_replay},
      {"delete", 130, &World::op_delete},
      {"renew", 60, &World::op_renew},
      {"cut", 30, &World::op_cut},
      {"mute", 20, &World::op_mute},
      {"heal", 120, &World::op_heal},
      {"restart worker", 25, &World::op_restart_worker},
      {"stop worker", 10, &World::op_stop_worker},
      {"lose journal", 6, &World::op_lose_journal},
      {"kill object", 20, &World::op_kill_object},
      {"fault", 25, &World::op_fault},
      {"images", 10, &World::op_images},
      {"caps", 10, &World::op_caps},
      {"limits", 15, &World::op_limits},
      {"cordon", 12, &World::op_cordon},
      {"drain", 10, &World::op_drain},
      {"taint", 8, &World::op_taint},
      {"remove worker", 4, &World::op_remove_worker},
      {"revoke", 2, &World::op_revoke},
      {"join", 4, &World::op_join},
      {"crash controller", 12, &World::op_crash_controller},
      {"long wait", 15, &World::op_long_wait},
      {"jump", 2, &World::op_jump},
      {"recreate", 30, &World::op_recreate},
  };
  return all;
}

void World::operation() {
  scene_.trace.set_operation(scene_.trace.operation() + 1);
  static const int total =
      std::accumulate(operations().begin(), operations().end(), 0,
                      [](int sum, const Operation& each) { return sum + each.weight; });
  std::int64_t drawn = scene_.dice.below(total);
  for (const Operation& each : operations()) {
    if ((drawn -= each.weight) < 0) {
      (this->*each.run)();
      break;
    }
  }
  if (!controller_->up() && scene_.dice.chance(300)) {
    controller_->start();
    invariants_->controller_started();
  }
  // Mostly so little that operations meet each other's steps.
  advance(scene_.dice.chance(600) ? scene_.dice.time(0, 400) : scene_.dice.time(400, 4'000));
}

// --- Callers

SandboxSpec World::any_spec() {
  SandboxSpec spec{.image = scene_.dice.chance(60) ? "rare" : "base",
                   .egress = Egress::unwalled(UnwalledEgress{})};
  if (scene_.dice.chance(400)) {
    spec.name = "n" + std::to_string(scene_.dice.below(shape_.names));
  }
  spec.cpu_cores = scene_.dice.chance(200) ? 1.5 : scene_.dice.chance(300) ? 0.3 : 1;
  spec.memory_mb = scene_.dice.chance(150) ? 2048 : 512;
  spec.timeout = seconds(scene_.dice.chance(500) ? scene_.dice.between(1, 60)
                                                 : scene_.dice.between(60, 3'600));
  if (scene_.dice.chance(200)) {
    spec.tolerations = {"gpu"};
  }
  return spec;
}

control::Caller World::caller_of(const std::string& tenant) {
  return {policy::Role::kOwner, tenant, tenant + (scene_.dice.chance(500) ? "-a" : "-b")};
}

control::CreateOrder World::any_order() {
  const std::string tenant = scene_.dice.pick(tenants_);
  control::CreateOrder order{caller_of(tenant),
                             *TenantId::parse(tenant),
                             any_spec(),
                             "i" + std::to_string(++last_sandbox_),
                             {},
                             {},
                             scene_.dice.next()};
  if (scene_.dice.chance(400)) {
    order.idempotency_key = "k" + std::to_string(++last_key_);
    order.request_hash = store::sha256_hex(order.idempotency_key);
    keyed_.push_back(order);
    if (keyed_.size() > static_cast<std::size_t>(shape_.keys)) {
      keyed_.erase(keyed_.begin());
    }
  }
  return order;
}

void World::op_create() { ask_create(any_order()); }

/// A caller that had no answer, or wants to be sure, asks again: the body is the same.
void World::op_replay() {
  if (keyed_.empty()) {
    return;
  }
  control::CreateOrder order = scene_.dice.pick(keyed_);
  order.id = "i" + std::to_string(++last_sandbox_);
  order.seed = scene_.dice.next();
  ask_create(order);
}

void World::note_order(const control::CreateOrder& order) {
  Fate& fate = scene_.fates[order.id];
  fate.tenant = order.caller.tenant;
  fate.idempotency_key = order.idempotency_key;
  fate.tolerant = !order.spec.tolerations.empty();
  remember({order.caller.tenant, order.id});
  scene_.say({order.id, order.caller.tenant},
             "create " + order.id + " by " + order.caller.credential + " name `" + order.spec.name +
                 "` key `" + order.idempotency_key + "`");
}

void World::ask_create(const control::CreateOrder& order) {
  note_order(order);
  controller_->create(
      order, scene_.dice.chance(600),
      [this, order](const SimController::Told& told) { note_created(order, told); });
}

/// Callers ask for what they heard of last, and now and then for what never was.
void World::remember(KnownSandbox sandbox) {
  sandboxes_.push_back(std::move(sandbox));
  if (sandboxes_.size() > kRemembered) {
    sandboxes_.erase(sandboxes_.begin());
  }
}

void World::note_created(const control::CreateOrder& order, const SimController::Told& told) {
  scene_.say(
      {order.id, order.caller.tenant, told.row.id},
      "create " + order.id + " is answered " + std::to_string(told.status) + " " + told.row.id);
  ++scene_.counts["create answered " + std::to_string(told.status)];
  if (told.row.id.empty()) {
    if (!scene_.dice.chance(50)) {
      std::erase_if(sandboxes_, [&](const KnownSandbox& each) { return each.id == order.id; });
    }
    return;
  }
  if (told.row.tenant != order.caller.tenant) {
    throw Violation("a caller is told of its own sandboxes", {told.row.id}, "another workspace's");
  }
  scene_.fates[told.row.id].acknowledged = true;
  invariants_->key_told(order.caller.tenant, order.idempotency_key, told.row.id);
}

const World::KnownSandbox* World::any_sandbox() {
  return sandboxes_.empty() ? nullptr : &scene_.dice.pick(sandboxes_);
}

void World::op_delete() {
  const KnownSandbox* found = any_sandbox();
  if (found == nullptr) {
    return;
  }
  const bool foreign = scene_.dice.chance(30);
  const KnownSandbox known = *found;
  const auto caller = caller_of(foreign ? scene_.dice.pick(tenants_) : known.tenant);
  if (caller.tenant == known.tenant) {
    scene_.fates[known.id].deleted_by.insert(caller.credential);
  }
  scene_.say({known.id}, "delete " + known.id + " by " + caller.credential);
  controller_->remove(caller, known.id, [this, known](const SimController::Told& told) {
    scene_.say({known.id}, "delete " + known.id + " is answered " + std::to_string(told.status));
    ++scene_.counts["delete answered " + std::to_string(told.status)];
    if (told.status == 204) {
      scene_.fates[known.id].gone_acknowledged = true;
    }
  });
}

void World::op_renew() {
  const KnownSandbox* found = any_sandbox();
  if (found == nullptr) {
    return;
  }
  const KnownSandbox known = *found;
  const seconds timeout(scene_.dice.between(1, 300));
  invariants_->renewal_asked(known.id);
  scene_.say({known.id}, "renew " + known.id + " for " + std::to_string(timeout.count()) + " s");
  controller_->renew(
      caller_of(known.tenant), known.id, timeout, [this, known](const SimController::Told& told) {
        scene_.say({known.id}, "renew " + known.id + " is answered " + std::to_string(told.status));
        ++scene_.counts["renew answered " + std::to_string(told.status)];
        if (told.status == 200) {
          invariants_->renewal_told(known.id);
        }
      });
}

// --- What goes wrong

void World::op_cut() {
  SimWorker& worker = any_worker();
  const bool stays = scene_.dice.chance(500);
  scene_.say({worker.id()}, "the tunnel of " + worker.id() + (stays ? " breaks" : " flaps"));
  link_of(worker).tunnel = !stays;
  cut(worker.id());
}

void World::op_mute() {
  SimWorker& worker = any_worker();
  link_of(worker).heartbeat = false;
  scene_.say({worker.id()}, "no heartbeat of " + worker.id() + " arrives");
  if (scene_.dice.chance(400)) {
    link_of(worker).tunnel = false;
    cut(worker.id());
  }
}

void World::op_heal() {
  SimWorker& worker = any_worker();
  scene_.say({worker.id()}, worker.id() + " is well again");
  heal(worker);
}

void World::op_restart_worker() {
  SimWorker& worker = any_worker();
  if (worker.up()) {
    worker.restart();
  }
}

void World::op_stop_worker() {
  SimWorker& worker = any_worker();
  if (worker.up()) {
    worker.stop();
    cut(worker.id());
  }
}

void World::op_lose_journal() {
  SimWorker& worker = any_worker();
  if (worker.up()) {
    worker.stop();
  }
  worker.lose_journal();
  invariants_->disturbed(worker.id());
  worker.start();
}

void World::op_kill_object() {
  SimWorker& worker = any_worker();
  if (worker.engine().empty()) {
    return;
  }
  auto place = worker.engine().begin();
  std::advance(place, scene_.dice.below(static_cast<std::int64_t>(worker.engine().size())));
  worker.kill_object(std::string(place->first), scene_.dice.chance(300));
}

void World::op_fault() {
  SimWorker& worker = any_worker();
  EngineFaults& faults = worker.faults();
  bool EngineFaults::*const all[] = {&EngineFaults::full, &EngineFaults::broken,
                                     &EngineFaults::keeps, &EngineFaults::keeps_badly,
                                     &EngineFaults::slow};
  faults = {};
  faults.*all[scene_.dice.below(5)] = scene_.dice.chance(800);
  invariants_->disturbed(worker.id());
  scene_.say({worker.id()}, "the engine of " + worker.id() + " has other faults");
}

void World::op_images() {
  SimWorker& worker = any_worker();
  worker.setup().images =
      scene_.dice.chance(200) ? std::set<std::string>{} : std::set<std::string>{"base"};
  if (scene_.dice.chance(300)) {
    worker.setup().images.insert("rare");
  }
}

void World::op_caps() {
  SimWorker& worker = any_worker();
  worker.setup().max_sandboxes = scene_.dice.between(1, shape_.worker_sandboxes + 1);
  worker.setup().max_starting = scene_.dice.between(1, 3);
  worker.setup().memory_mb = scene_.dice.chance(300) ? 1'024 : 4'096;
}

void World::op_limits() {
  const std::string& tenant = scene_.dice.pick(tenants_);
  store::WorkspaceRow limits{.id = tenant, .name = tenant};
  limits.max_sandboxes =
      scene_.dice.chance(300) ? -1 : scene_.dice.between(0, shape_.tenant_sandboxes + 1);
  limits.max_cpu_cores =
      scene_.dice.chance(700) ? -1 : static_cast<double>(scene_.dice.between(1, 4)) / 2;
  limits.max_memory_mb = scene_.dice.chance(700) ? -1 : scene_.dice.between(1, 4) * 1'024;
  const Status written = write([&](store::Tx& tx) -> Status {
    auto done = tx.set_workspace_limits(limits);
    return done ? Status() : Status(done.error());
  });
  scene_.say({tenant}, tenant + " has other limits" + (written ? "" : ", in vain"));
}

// --- What owners do

void World::op_cordon() {
  const std::string& id = any_worker().id();
  const std::string state = scene_.dice.chance(350) ? "cordoned" : "ready";
  const Status written = write([&](store::Tx& tx) -> Status {
    auto done = tx.set_worker_state(id, state);
    return done ? Status() : Status(done.error());
  });
  scene_.say({id}, id + " is " + state + (written ? "" : ", in vain"));
}

void World::op_drain() {
  const std::string& id = any_worker().id();
  std::optional<WallTime> until;
  if (scene_.dice.chance(700)) {
    until = scene_.clock.now() + scene_.dice.time(0, 60'000);
    invariants_->drains(id, *until);
  }
  const Status written = write([&](store::Tx& tx) -> Status {
    auto done = tx.set_worker_state(id, "draining", until);
    return done ? Status() : Status(done.error());
  });
  scene_.say({id},
             id + " drains" + (until ? " with a deadline" : "") + (written ? "" : ", in vain"));
}

void World::op_taint() {
  const std::string& id = any_worker().id();
  const std::string taints = scene_.dice.chance(300) ? R"(["gpu"])" : "[]";
  const Status written = write([&](store::Tx& tx) -> Status {
    auto done = tx.set_worker_taints(id, taints);
    return done ? Status() : Status(done.error());
  });
  scene_.say({id}, id + " has taints " + taints + (written ? "" : ", in vain"));
}

void World::op_remove_worker() {
  SimWorker& worker = any_worker();
  const std::string id = worker.id();
  const control::Caller owner{policy::Role::kOwner, worker.setup().tenant, "owner"};
  scene_.say({id}, "remove worker " + id);
  invariants_->removal_asked(id);
  controller_->remove_worker(owner, id, [](const SimController::Told&) {});
}

/// Its credential is revoked, and its row stays.
void World::op_revoke() {
  SimWorker& worker = any_worker();
  const std::string id = worker.id();
  const Status written = write([&](store::Tx& tx) -> Status {
    auto done = tx.revoke_credential("wk", worker.setup().tenant, worker.setup().credential,
                                     scene_.clock.now());
    return done ? Status() : Status(done.error());
  });
  scene_.say({id}, "the credential of " + id + " is revoked" + (written ? "" : ", in vain"));
  invariants_->revoked(id);
}

void World::op_join() {
  std::int64_t standing = 0;
  for (const auto& [id, each] : members_) {
    standing += invariants_->is_gone(id) ? 0 : 1;
  }
  if (standing <= shape_.workers) {
    const bool unscoped = scene_.dice.below(shape_.workers) < shape_.unscoped;
    join(unscoped ? std::string() : scene_.dice.pick(tenants_));
  }
}

/// Between a decision's reading and its commit. Judged at once: by the rows as they are now, not as
/// the commit that waits will leave them.
void World::meanwhile() {
  switch (scene_.dice.below(4)) {
    case 0:
      op_cordon();
      break;
    case 1:
      op_taint();
      break;
    case 2:
      op_limits();
      break;
    default: {
      auto order = any_order();
      note_order(order);
      controller_->create_now(order, false, [this, order](const SimController::Told& told) {
        note_created(order, told);
      });
    }
  }
  invariants_->look_at_rows();
}

/// A sandbox that ended is made anew under its id, as its next generation. Nothing in the
/// controller does so yet; all that fences generations is there for it.
void World::op_recreate() {
  for (const auto& [id, row] : invariants_->rows()) {
    const bool fits =
        row.state == "lost" || (row.state == "stopped" && controller_->online(row.worker));
    if (!fits || invariants_->is_gone(row.worker) || scene_.dice.chance(500)) {
      continue;
    }
    const auto changed = direct_->run(
        "UPDATE sandbox SET generation = generation + 1, state = 'pending', desired = 'running', "
        "reason = '', ended = NULL, created = ?, expires = ? WHERE id = ? AND state = ? AND "
        "NOT EXISTS (SELECT 1 FROM sandbox AS other WHERE other.tenant = sandbox.tenant AND "
        "other.name = sandbox.name AND other.id <> sandbox.id AND other.name <> '')",
        scene_.clock.now(), scene_.clock.now() + seconds(scene_.dice.between(5, 600)), id,
        row.state);
    if (changed && *changed == 1) {
      scene_.say({id, row.worker}, id + " is made anew");
      const Status queued = write([&](store::Tx& tx) {
        store::DeliveryRow create{0, row.worker, id, row.generation + 1, "create"};
        create.created = create.not_before = scene_.clock.now();
        return tx.insert(create);
      });
      if (queued) {
        controller_->rows_changed(row.worker);
      }
    }
    return;
  }
}

void World::op_crash_controller() { controller_->crash(); }

void World::op_long_wait() { advance(scene_.dice.time(20'000, 200'000)); }

/// The machine slept, or its clock was set.
void World::op_jump() {
  scene_.say({}, "the clock jumps");
  const auto far = std::chrono::hours(24 * 8);
  scene_.clock.set(scene_.clock.now() +
                   (scene_.dice.chance(200) ? milliseconds(far) : scene_.dice.time(1, 600'000)));
  for (const auto& [id, each] : members_) {
    invariants_->disturbed(id);
  }
}

}  // namespace sandboxkit::model
