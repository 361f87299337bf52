// Decisions over an index against the scan over all views, and against the plain rule.

#include "sandboxkit/fleet_index.h"

#include "tests/unit/policy/fleets.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace sandboxkit;               // NOLINT(google-build-using-namespace)
using namespace sandboxkit::policy_test;  // NOLINT(google-build-using-namespace)

namespace {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  std::mt19937& engine() { return engine_; }

 private:
  std::mt19937 engine_;
};

void fill(WorkerView& view, Random& random, int fullness) {
  view.sandboxes = random.below(20);
  view.max_sandboxes = random.below(100) < fullness ? view.sandboxes : 20;
  view.starting = random.below(4);
  view.max_starting = random.below(100) < fullness ? view.starting : 4;
  const int short_of = random.below(100) < fullness ? random.below(3) : 3;
  view.used_cpu_cores =
      short_of == 0 ? 4 * view.cpu_cores - 0.1 * random.below(4) : 0.1 * random.below(20);
  view.used_memory_mb =
      short_of == 1 ? view.memory_mb - 16 * random.below(6) : 64 * random.below(8);
  view.state = short_of == 2 || random.one_in(20) ? WorkerState::kCordoned : WorkerState::kReady;
}

WorkerView random_worker(int number, Random& random, int fullness) {
  const char* owners[] = {"", "", "acme", "globex"};
  WorkerView view = worker("w-" + std::to_string(number), owners[random.below(4)]);
  view.cpu_cores = 1 + random.below(4);
  view.memory_mb = 1024 * (1 + random.below(4));
  if (random.one_in(2)) {
    view.capabilities.insert("egress");
  }
  if (random.one_in(4)) {
    view.capabilities.insert("gpu");
  }
  if (random.one_in(4)) {
    view.runtimes.insert("runsc");
  }
  if (random.one_in(4)) {
    view.taints = {"night"};
  }
  view.arch = random.one_in(8) ? "arm64" : "amd64";
  view.labels = {{"host", view.id.str()}, {"zone", random.one_in(3) ? "eu" : "us"}};
  if (random.one_in(3)) {
    view.labels["disk"] = "fast";
  }
  if (random.one_in(20)) {
    view.images = {"base", "other"};
  }
  if (random.one_in(30)) {
    view.warm = {{"base", random.below(3)}};
  }
  fill(view, random, fullness);
  return view;
}

std::vector<WorkerView> random_fleet(int workers, Random& random) {
  const int fullness[] = {0, 50, 90, 100};
  const int chosen = fullness[random.below(4)];
  std::vector<WorkerView> fleet;
  for (int i = 0; i < workers; ++i) {
    fleet.push_back(random_worker(i, random, chosen));
  }
  return fleet;
}

PlacementRequest random_request(Random& random) {
  PlacementRequest wanted = request(random.one_in(4) ? "initech" : "acme");
  wanted.cpu_cores = random.one_in(12) ? 64 : 0.1 * (1 + random.below(30));
  wanted.memory_mb = random.one_in(12) ? 8192 : 16 * (1 + random.below(60));
  wanted.needs_egress_wall = random.one_in(4);
  if (random.one_in(6)) {
    wanted.capabilities = {random.one_in(8) ? "tpu" : "gpu"};
  }
  if (random.one_in(6)) {
    wanted.runtime = random.one_in(8) ? "kata" : "runsc";
  }
  if (random.one_in(6)) {
    wanted.arch = random.one_in(8) ? "riscv" : "arm64";
  }
  if (random.one_in(2)) {
    wanted.tolerations = {"night"};
  }
  if (random.one_in(4)) {
    wanted.labels["zone"] = random.one_in(8) ? "moon" : "eu";
  }
  if (random.one_in(6)) {
    wanted.labels["disk"] = "fast";
  }
  if (random.one_in(12)) {
    wanted.labels["host"] = "w-" + std::to_string(random.below(100));
  }
  wanted.strategy = random.one_in(2) ? PlacementStrategy::kPack : PlacementStrategy::kSpread;
  return wanted;
}

/// The rule of the document, written the slow and plain way.
bool can_host_now(const PlacementRequest& wanted, const WorkerView& view) {
  const auto contains = [](const auto& all, const auto& part) {
    return std::ranges::all_of(
        part, [&](const auto& one) { return std::ranges::find(all, one) != all.end(); });
  };
  const std::string owner = view.scope.tenant_or_empty();
  return (owner.empty() || owner == wanted.tenant.str()) &&
         (!wanted.needs_egress_wall || view.capabilities.contains("egress")) &&
         contains(view.capabilities, wanted.capabilities) &&
         (wanted.runtime.empty() || view.runtimes.contains(wanted.runtime)) &&
         (wanted.arch.empty() || view.arch == wanted.arch) &&
         contains(wanted.tolerations, view.taints) && contains(view.labels, wanted.labels) &&
         view.state == WorkerState::kReady && view.sandboxes < view.max_sandboxes &&
         view.starting < view.max_starting &&
         view.used_cpu_cores + wanted.cpu_cores <= 4 * view.cpu_cores + 1e-9 &&
         view.used_memory_mb + wanted.memory_mb <= view.memory_mb;
}

/// Own, warm, image: what is never traded against load.
int tier_of(const PlacementRequest& wanted, const WorkerView& view) {
  const bool warm = view.warm.contains(wanted.image) && view.warm.at(wanted.image) > 0;
  return (view.scope.is_unscoped() ? 0 : 4) + (warm ? 2 : 0) +
         (warm || view.images.contains(wanted.image) ? 1 : 0);
}

FleetIndex index_of(const std::vector<WorkerView>& fleet, const PlacementPolicy& policy = {}) {
  FleetIndex index(policy);
  for (const WorkerView& view : fleet) {
    index.put(view);
  }
  return index;
}

void check_same_refusal(const Refusal* index, const Refusal* scan) {
  REQUIRE((index != nullptr && scan != nullptr));
  REQUIRE(index->code == scan->code);
  REQUIRE(index->counts == scan->counts);
  REQUIRE(index->missing == scan->missing);
  REQUIRE(index->retry_after == scan->retry_after);
}

void check_same_scores(const Decision& a, const Decision& b) {
  REQUIRE((placed(a) != nullptr) == (placed(b) != nullptr));
  if (placed(a) == nullptr) {
    check_same_refusal(refused(a), refused(b));
    return;
  }
  REQUIRE(placed(a)->scores().size() == placed(b)->scores().size());
  for (std::size_t i = 0; i < placed(a)->scores().size(); ++i) {
    REQUIRE(placed(a)->scores()[i].worker == placed(b)->scores()[i].worker);
    REQUIRE(placed(a)->scores()[i].total == placed(b)->scores()[i].total);
  }
}

const WorkerView& view_of(const std::vector<WorkerView>& fleet, const WorkerId& id) {
  return *std::ranges::find(fleet, id, &WorkerView::id);
}

/// What holds for every fleet and every request.
void check_decision(const PlacementRequest& wanted, const std::vector<WorkerView>& fleet,
                    const FleetIndex& index, std::uint64_t seed) {
  const Scheduler scheduler(index.policy());
  const Decision decision = scheduler.schedule(wanted, index, seed);
  int best = -1;
  for (const WorkerView& view : fleet) {
    if (can_host_now(wanted, view)) {
      best = std::max(best, tier_of(wanted, view));
    }
  }
  REQUIRE((placed(decision) != nullptr) == (best >= 0));
  if (best < 0) {
    const Decision scan = scheduler.schedule(wanted, fleet, seed);
    check_same_refusal(refused(decision), refused(scan));
    return;
  }
  for (const Score& score : placed(decision)->scores()) {
    REQUIRE(can_host_now(wanted, view_of(fleet, score.worker)));
  }
  REQUIRE(placed(decision)->scores().front().worker == placed(decision)->worker());
  REQUIRE(tier_of(wanted, view_of(fleet, placed(decision)->worker())) == best);
}

}  // namespace

TEST_CASE("an index places when and only when some worker can, on one of the best tier") {
  for (unsigned world = 0; world < 40; ++world) {
    CAPTURE(world);
    Random random(world);
    const auto fleet = random_fleet(50 + random.below(450), random);
    const FleetIndex index = index_of(fleet);
    for (std::uint64_t seed = 0; seed < 25; ++seed) {
      CAPTURE(seed);
      check_decision(random_request(random), fleet, index, seed);
    }
  }
}

TEST_CASE("where few workers can be used an index decides what the scan decides") {
  for (unsigned world = 0; world < 40; ++world) {
    CAPTURE(world);
    Random random(world);
    // A quarter serves another tenant: about 64 are left, more or fewer.
    auto fleet = random_fleet(80, random);
    std::size_t usable = 0;
    std::erase_if(fleet, [&](const WorkerView& view) {
      return view.scope.tenant_or_empty() != "globex" && ++usable > FleetIndex::kLookedAtWhole;
    });
    const FleetIndex index = index_of(fleet);
    const Scheduler scheduler(index.policy());
    for (std::uint64_t seed = 0; seed < 15; ++seed) {
      CAPTURE(seed);
      const PlacementRequest wanted = random_request(random);
      check_same_scores(scheduler.schedule(wanted, index, seed),
                        scheduler.schedule(wanted, fleet, seed));
    }
  }
}

TEST_CASE("a scheduler that scores all candidates chooses over an index what the scan chooses") {
  for (unsigned world = 0; world < 10; ++world) {
    CAPTURE(world);
    Random random(world);
    const auto fleet = random_fleet(300, random);
    const Scheduler scheduler({.candidates = 0});
    const FleetIndex index = index_of(fleet, scheduler.policy());
    for (std::uint64_t seed = 0; seed < 15; ++seed) {
      const PlacementRequest wanted = random_request(random);
      REQUIRE(worker_of(scheduler.schedule(wanted, index, seed)) ==
              worker_of(scheduler.schedule(wanted, fleet, seed)));
    }
  }
}

TEST_CASE("an index is the set that it holds, whatever the puts and erases that led to it") {
  for (unsigned world = 0; world < 12; ++world) {
    CAPTURE(world);
    Random random(world);
    auto fleet = random_fleet(300, random);
    const FleetIndex fresh = index_of(fleet);

    FleetIndex worn(fresh.policy());
    for (int i = 0; i < 400; ++i) {
      worn.put(random_worker(random.below(400), random, 50));
    }
    std::ranges::shuffle(fleet, random.engine());
    for (const WorkerView& view : fleet) {
      worn.put(random_worker(random.below(400), random, 50));
      if (random.one_in(2)) {
        worn.erase(view.id);
      }
      worn.put(view);
    }
    for (int i = 0; i < 400; ++i) {
      const WorkerId id = worker("w-" + std::to_string(i), "").id;
      const auto known = std::ranges::find(fleet, id, &WorkerView::id);
      known != fleet.end() ? worn.put(*known) : static_cast<void>(worn.erase(id));
    }
    REQUIRE(worn.size() == fleet.size());

    const Scheduler scheduler(fresh.policy());
    for (std::uint64_t seed = 0; seed < 25; ++seed) {
      CAPTURE(seed);
      const PlacementRequest wanted = random_request(random);
      check_same_scores(scheduler.schedule(wanted, worn, seed),
                        scheduler.schedule(wanted, fresh, seed));
    }
  }
}

TEST_CASE("an index that is filled to the brim by usage changes oversells nothing") {
  for (unsigned world = 0; world < 4; ++world) {
    CAPTURE(world);
    Random random(world);
    auto fleet = random_fleet(120, random);
    FleetIndex index = index_of(fleet);
    const Scheduler scheduler(index.policy());
    PlacementRequest wanted = request("acme");
    wanted.cpu_cores = 2.3;
    wanted.memory_mb = 400;
    wanted.strategy = world % 2 == 0 ? PlacementStrategy::kPack : PlacementStrategy::kSpread;
    for (std::uint64_t seed = 0;; ++seed) {
      REQUIRE(seed < 1000);
      check_decision(wanted, fleet, index, seed);
      const Decision decision = scheduler.schedule(wanted, index, seed);
      if (placed(decision) == nullptr) {
        break;
      }
      auto chosen = std::ranges::find(fleet, placed(decision)->worker(), &WorkerView::id);
      apply(*chosen, wanted);
      index.put(*chosen);
    }
    // Room comes back when one of the workers is emptied.
    auto& emptied = *std::ranges::find_if(
        fleet, [](const auto& w) { return w.scope.is_unscoped() && w.taints.empty(); });
    emptied = worker(emptied.id.str(), "");
    index.put(emptied);
    CHECK(worker_of(scheduler.schedule(wanted, index, 1)) == emptied.id.str());
  }
}

TEST_CASE("the only worker with room is found wherever the draw falls, and in whichever class") {
  std::vector<WorkerView> fleet;
  for (int i = 0; i < 300; ++i) {
    fleet.push_back(worker("w-" + std::to_string(i), ""));
    fleet.back().used_memory_mb = fleet.back().memory_mb;
    fleet.back().arch = i % 60 < 30 ? "amd64" : "arm64";
  }
  FleetIndex index = index_of(fleet);
  const Scheduler scheduler(index.policy());
  for (int i = 0; i < 300; i += 30) {
    CAPTURE(i);
    const std::string id = fleet[static_cast<std::size_t>(i)].id.str();
    WorkerView emptied = fleet[static_cast<std::size_t>(i)];
    emptied.used_memory_mb = 0;
    index.put(emptied);
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      REQUIRE(worker_of(scheduler.schedule(request("acme"), index, seed)) == id);
    }
    index.put(fleet[static_cast<std::size_t>(i)]);
  }
  CHECK(refused(scheduler.schedule(request("acme"), index, 1)) != nullptr);
}

TEST_CASE("packing over an index takes the fullest worker that fits") {
  Random random(1);
  std::vector<WorkerView> fleet;
  for (int i = 0; i < 500; ++i) {
    fleet.push_back(worker("w-" + std::to_string(i), ""));
    fleet.back().used_memory_mb = 8 * i;
    fleet.back().arch = i % 2 == 0 ? "amd64" : "arm64";
  }
  PlacementRequest wanted = request("acme");
  wanted.strategy = PlacementStrategy::kPack;
  const FleetIndex index = index_of(fleet);
  const Scheduler scheduler(index.policy());
  for (int i = 0; i < 50; ++i) {
    wanted.memory_mb = 256 + 8 * random.below(400);
    REQUIRE(worker_of(scheduler.schedule(wanted, index, 1)) ==
            worker_of(scheduler.schedule(wanted, fleet, 1)));
  }
}

TEST_CASE("spreading over an index fills equal workers about evenly") {
  std::vector<WorkerView> fleet;
  for (int i = 0; i < 200; ++i) {
    fleet.push_back(worker("w-" + std::to_string(i), ""));
    fleet.back().max_starting = 100;
    // Several classes: a draw must not favour the first of them.
    fleet.back().arch = i % 10 == 0 ? "arm64" : "amd64";
  }
  FleetIndex index = index_of(fleet);
  const Scheduler scheduler(index.policy());
  for (std::uint64_t seed = 0; seed < 800; ++seed) {
    const Decision decision = scheduler.schedule(request("acme"), index, seed);
    REQUIRE(placed(decision) != nullptr);
    WorkerView chosen = *index.find(placed(decision)->worker());
    apply(chosen, request("acme"));
    index.put(chosen);
  }
  for (const WorkerView& view : fleet) {
    CHECK(index.find(view.id)->sandboxes >= 2);
    CHECK(index.find(view.id)->sandboxes <= 6);
  }
}

TEST_CASE("a holder of the image is found among many that hold it and a fleet that does not") {
  std::vector<WorkerView> fleet;
  for (int i = 0; i < 1000; ++i) {
    fleet.push_back(worker("w-" + std::to_string(i), ""));
    if (i % 4 == 0) {
      fleet.back().images = {"base"};
    }
  }
  fleet[500].warm = {{"base", 1}};
  fleet[500].used_cpu_cores = 10;
  const FleetIndex index = index_of(fleet);
  const Scheduler scheduler(index.policy());
  CHECK(worker_of(scheduler.schedule(request("acme"), index, 1)) == "w-500");
  fleet[500].warm = {{"base", 0}};
  const FleetIndex cold = index_of(fleet);
  std::set<std::string> chosen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Decision decision = scheduler.schedule(request("acme"), cold, seed);
    REQUIRE(placed(decision)->scores().front().image_present);
    chosen.insert(worker_of(decision));
  }
  CHECK(chosen.size() > 20);
}

TEST_CASE("numbers that are none fit nowhere, over an index as over a scan") {
  Random random(1);
  auto fleet = random_fleet(200, random);
  fleet[3].cpu_cores = std::nan("");
  fleet[4].used_cpu_cores = std::nan("");
  fleet[5].used_cpu_cores = 1e300;
  const FleetIndex index = index_of(fleet);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    check_decision(random_request(random), fleet, index, seed);
  }
  PlacementRequest wanted = request("acme");
  wanted.cpu_cores = std::nan("");
  check_decision(wanted, fleet, index, 1);
}
