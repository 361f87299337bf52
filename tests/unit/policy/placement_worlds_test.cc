// The scheduler against the rule of the document, written the slow and plain way.

#include "tests/unit/policy/fleets.h"

#include <algorithm>
#include <array>
#include <random>

using namespace sandboxkit;               // NOLINT(google-build-using-namespace)
using namespace sandboxkit::policy_test;  // NOLINT(google-build-using-namespace)

namespace {

bool could_ever_host(const PlacementRequest& wanted, const WorkerView& view) {
  const std::string owner = view.scope.tenant_or_empty();
  return (owner.empty() || owner == wanted.tenant.str()) &&
         (!wanted.needs_egress_wall || view.capabilities.contains("egress")) &&
         (wanted.runtime.empty() || view.runtimes.contains(wanted.runtime)) &&
         wanted.memory_mb <= view.memory_mb;
}

bool can_host_now(const PlacementRequest& wanted, const WorkerView& view) {
  return could_ever_host(wanted, view) && view.state == WorkerState::kReady &&
         view.sandboxes + 1 <= view.max_sandboxes && view.starting + 1 <= view.max_starting &&
         view.used_memory_mb + wanted.memory_mb <= view.memory_mb &&
         view.used_cpu_cores + wanted.cpu_cores <= 4 * view.cpu_cores;
}

/// Every worker that differs in whom it serves, whether it is ready, whether it has the wall,
/// another runtime, and room.
std::vector<WorkerView> every_worker(const std::string& id) {
  std::vector<WorkerView> all;
  for (const char* owner : {"", "acme", "globex"}) {
    for (unsigned bits = 0; bits < 16; ++bits) {
      WorkerView view = worker(id, owner);
      view.state = (bits & 1) != 0 ? WorkerState::kReady : WorkerState::kDraining;
      view.sandboxes = (bits & 2) != 0 ? 0 : view.max_sandboxes;
      if ((bits & 4) != 0) {
        view.capabilities = {"egress"};
      }
      if ((bits & 8) != 0) {
        view.runtimes = {"runc", "runsc"};
      }
      all.push_back(view);
    }
  }
  return all;
}

std::vector<PlacementRequest> every_request() {
  std::vector<PlacementRequest> all;
  for (unsigned bits = 0; bits < 8; ++bits) {
    PlacementRequest wanted = request("acme");
    wanted.needs_egress_wall = (bits & 1) != 0;
    wanted.runtime = (bits & 2) != 0 ? "runsc" : "";
    wanted.memory_mb = (bits & 4) != 0 ? 8192 : 512;
    all.push_back(wanted);
  }
  return all;
}

/// The oracle: feasible, never, or not now.
void check_world(const PlacementRequest& wanted, const std::vector<WorkerView>& fleet) {
  const Scheduler scheduler{PlacementPolicy{}};
  const Decision decision = scheduler.schedule(wanted, fleet, 7);
  const bool feasible =
      std::ranges::any_of(fleet, [&](const auto& w) { return can_host_now(wanted, w); });
  REQUIRE((placed(decision) != nullptr) == feasible);
  if (const Placement* placement = placed(decision)) {
    const auto chosen = std::ranges::find(fleet, placement->worker(), &WorkerView::id);
    REQUIRE(chosen != fleet.end());
    REQUIRE(can_host_now(wanted, *chosen));
    const bool own_could = std::ranges::any_of(
        fleet, [&](const auto& w) { return !w.scope.is_unscoped() && can_host_now(wanted, w); });
    REQUIRE(chosen->scope.is_unscoped() != own_could);
    return;
  }
  const bool some_could =
      std::ranges::any_of(fleet, [&](const auto& w) { return could_ever_host(wanted, w); });
  const auto usable = std::ranges::count_if(
      fleet, [](const auto& w) { return w.scope.tenant_or_empty() != "globex"; });
  const bool asks_for_nothing = !wanted.needs_egress_wall && wanted.runtime.empty();
  const bool waiting_helps = some_could || (usable == 0 && asks_for_nothing);
  const Refusal* refusal = refused(decision);
  REQUIRE(refusal->code ==
          (waiting_helps ? RefusalCode::kNoCapacity : RefusalCode::kCapabilityUnavailable));
  std::int64_t counted = 0;
  for (const auto& [filter, count] : refusal->counts) {
    REQUIRE(filter != Filter::kTenant);
    counted += count;
  }
  REQUIRE(counted == usable);
}

}  // namespace

TEST_CASE("every fleet of up to two workers agrees with the plain rule") {
  const auto firsts = every_worker("w-1");
  const auto seconds = every_worker("w-2");
  for (const PlacementRequest& wanted : every_request()) {
    check_world(wanted, {});
    for (const WorkerView& first : firsts) {
      check_world(wanted, {first});
      for (const WorkerView& second : seconds) {
        check_world(wanted, {first, second});
      }
    }
  }
}

TEST_CASE("a random fleet that is filled to the brim is never oversold and never shared wrongly") {
  for (unsigned world = 0; world < 60; ++world) {
    CAPTURE(world);
    std::mt19937 random(world);
    const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
    const std::array<std::string, 3> owners = {"", "acme", "globex"};
    std::vector<WorkerView> fleet;
    for (int i = 0; i < 12; ++i) {
      WorkerView view = worker("w-" + std::to_string(i), owners[random() % 3]);
      view.cpu_cores = 1 + below(3);
      view.memory_mb = 512 * (1 + below(8));
      view.max_sandboxes = 1 + below(6);
      view.max_starting = 1 + below(6);
      view.state = below(5) == 0 ? WorkerState::kUnreachable : WorkerState::kReady;
      if (below(2) == 0) {
        view.capabilities = {"egress"};
        view.warm = {{"base", below(3)}};
      }
      fleet.push_back(view);
    }
    PlacementPolicy policy;
    policy.strategy = below(2) == 0 ? PlacementStrategy::kPack : PlacementStrategy::kSpread;
    policy.candidates = static_cast<std::size_t>(below(4));
    const Scheduler scheduler(policy);
    int in_a_row = 0;
    for (std::uint64_t seed = 0; in_a_row < 20; ++seed) {
      PlacementRequest wanted = request(owners[1 + random() % 2]);
      wanted.needs_egress_wall = below(2) == 0;
      wanted.cpu_cores = 0.25 * (1 + below(8));
      wanted.memory_mb = 64 * (1 + below(20));
      const Decision decision = scheduler.schedule(wanted, fleet, seed);
      const bool feasible =
          std::ranges::any_of(fleet, [&](const auto& w) { return can_host_now(wanted, w); });
      REQUIRE((placed(decision) != nullptr) == feasible);
      if (!feasible) {
        ++in_a_row;
        continue;
      }
      in_a_row = 0;
      auto chosen = std::ranges::find(fleet, placed(decision)->worker(), &WorkerView::id);
      REQUIRE(can_host_now(wanted, *chosen));
      apply(*chosen, wanted);
      REQUIRE(chosen->sandboxes <= chosen->max_sandboxes);
      REQUIRE(chosen->used_memory_mb <= chosen->memory_mb);
      REQUIRE(chosen->used_cpu_cores <= 4 * chosen->cpu_cores);
    }
  }
}
