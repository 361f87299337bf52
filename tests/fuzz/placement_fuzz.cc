#include "sandboxkit/fleet_index.h"

#include "tests/fuzz/fuzz_input.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

/// Enough that one tenant may use more than an index looks at whole.
constexpr int kWorkers = 200;
constexpr const char* kTenants[] = {"acme", "globex"};

using Fleet = std::map<WorkerId, WorkerView>;

WorkerView worker_from(int number, fuzz::Input& input) {
  const unsigned traits = input.byte();
  const unsigned use = input.byte();
  const char* owner = (traits & 1) != 0 ? kTenants[(traits >> 1) & 1] : nullptr;
  WorkerView view{.id = *WorkerId::parse("w-" + std::to_string(number % kWorkers)),
                  .scope = owner == nullptr ? WorkerScope::every_tenant()
                                            : WorkerScope::only(*TenantId::parse(owner))};
  view.memory_mb = 1024;
  view.max_sandboxes = 4;
  if ((traits & 4) != 0) {
    view.capabilities = {"egress"};
  }
  if ((traits & 8) != 0) {
    view.taints = {"night"};
  }
  if ((traits & 16) != 0) {
    view.labels = {{"zone", "eu"}, {"disk", (traits & 32) != 0 ? "fast" : "slow"}};
  }
  if ((traits & 64) != 0) {
    view.images = {"base"};
    view.warm = {{"base", (traits >> 7) & 1}};
  }
  view.used_cpu_cores = 0.5 * (use & 7);
  view.used_memory_mb = 256 * ((use >> 3) & 3);
  view.sandboxes = (use & 32) != 0 ? 4 : 0;
  view.starting = (use & 64) != 0 ? view.max_starting : 0;
  view.state = (use & 128) != 0 ? WorkerState::kUnhealthy : WorkerState::kReady;
  return view;
}

PlacementRequest request_from(fuzz::Input& input) {
  const unsigned wants = input.byte();
  PlacementRequest request{.tenant = *TenantId::parse(kTenants[wants & 1]), .image = "base"};
  request.needs_egress_wall = (wants & 2) != 0;
  request.strategy = (wants & 4) != 0 ? PlacementStrategy::kPack : PlacementStrategy::kSpread;
  if ((wants & 8) != 0) {
    request.tolerations = {"night"};
  }
  if ((wants & 16) != 0) {
    request.labels["zone"] = "eu";
  }
  if ((wants & 32) != 0) {
    request.labels["disk"] = "fast";
  }
  const unsigned size = input.byte();
  request.cpu_cores = 0.5 * (size & 15);
  request.memory_mb = 128 * (size >> 4);
  return request;
}

void check_placement(const Scheduler& scheduler, const PlacementRequest& request,
                     const Placement& placement, const Fleet& fleet) {
  const auto fits = [&](const WorkerView& view) { return !scheduler.refusal_of(request, view); };
  for (const Score& score : placement.scores()) {
    PROMISE(fits(fleet.at(score.worker)), "only workers that fit are scored");
  }
  const bool own_could = std::ranges::any_of(fleet, [&](const auto& entry) {
    return !entry.second.scope.is_unscoped() && fits(entry.second);
  });
  PROMISE(fleet.at(placement.worker()).scope.is_unscoped() != own_could, "own workers come first");
  PROMISE(placement.scores().front().worker == placement.worker(), "the best one is chosen");
}

void check_decision(const PlacementRequest& request, const FleetIndex& index, const Fleet& fleet,
                    std::uint64_t seed) {
  const Scheduler scheduler(index.policy());
  std::vector<WorkerView> views;
  for (const auto& [id, view] : fleet) {
    views.push_back(view);
  }
  const Decision decision = scheduler.schedule(request, index, seed);
  const Decision scan = scheduler.schedule(request, views, seed);
  PROMISE(decision.index() == scan.index(), "an index places when and only when the scan does");
  if (const auto* placement = std::get_if<Placement>(&decision)) {
    check_placement(scheduler, request, *placement, fleet);
    return;
  }
  const auto& refusal = std::get<Refusal>(decision);
  const auto& expected = std::get<Refusal>(scan);
  PROMISE(refusal.code == expected.code && refusal.counts == expected.counts &&
              refusal.missing == expected.missing,
          "and refuses for the same reasons");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  FleetIndex index{PlacementPolicy{}};
  Fleet fleet;
  while (!input.rest().empty()) {
    const unsigned what = input.byte();
    if (what % 8 == 0) {
      check_decision(request_from(input), index, fleet, what);
    } else if (what % 8 == 1) {
      const WorkerId id = worker_from(input.byte(), input).id;
      PROMISE(index.erase(id) == (fleet.erase(id) > 0), "what was put can be erased");
    } else {
      WorkerView view = worker_from(input.byte(), input);
      fleet.insert_or_assign(view.id, view);
      index.put(std::move(view));
    }
    PROMISE(index.size() == fleet.size(), "an index holds what was put");
  }
  return 0;
}
