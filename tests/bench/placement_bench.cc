// Decisions over an index against the scan over all views, as fleets grow and fill up.

#include "sandboxkit/fleet_index.h"

#include "tests/bench/bench.h"

#include <ctime>
#include <random>

namespace {

using namespace sandboxkit;
using namespace sandboxkit::bench;

constexpr int kTenants = 200;
constexpr int kDecisions = 4000;
constexpr int kScans = 40;
constexpr int kPuts = 4000;

/// What the fleet looks like: how full, and full of what.
struct World {
  const char* name;
  double share_full;
};
constexpr World kWorlds[] = {{"empty", 0}, {"95 % full", 0.95}, {"full", 1}};

/// Of this thread alone: a decision is shorter than a turn on a busy core, and a scan is not.
double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string tenant_name(int number) { return "tenant-" + std::to_string(number); }

/// Half of the fleet is unscoped, half belongs to the tenants; sizes, zones and runtimes differ,
/// and each worker has a label of its own.
WorkerView worker_of(int number, double share_full, std::mt19937& random) {
  const bool unscoped = number % 2 == 0;
  const auto tenant = TenantId::parse(tenant_name(number / 2 % kTenants));
  WorkerView view{.id = *WorkerId::parse("w-" + std::to_string(number)),
                  .scope = unscoped ? WorkerScope::every_tenant() : WorkerScope::only(*tenant)};
  view.cpu_cores = 8 << random() % 3;
  view.memory_mb = static_cast<std::int64_t>(view.cpu_cores) * 4096 - random() % 64;
  view.capabilities = {"egress"};
  view.runtimes =
      random() % 4 == 0 ? std::set<std::string>{"runc", "runsc"} : std::set<std::string>{"runc"};
  view.labels = {{"host", view.id.str()}, {"zone", random() % 2 == 0 ? "a" : "b"}};
  view.images = {"base", "image-" + std::to_string(random() % 50)};
  const bool full = static_cast<double>(random() % 10000) < share_full * 10000;
  // Full of cores, of memory, of starting sandboxes, or of sandboxes.
  const unsigned full_of = full ? random() % 4 : 4;
  const double tenths = static_cast<double>(random() % 10) / 10;
  view.used_cpu_cores = full_of == 0 ? 4 * view.cpu_cores - tenths : 3 * view.cpu_cores * tenths;
  view.used_memory_mb = full_of == 1 ? view.memory_mb - random() % 256
                                     : static_cast<std::int64_t>(random() % (view.memory_mb / 2));
  view.starting = full_of == 2 ? view.max_starting : 0;
  view.sandboxes = full_of == 3 ? view.max_sandboxes : random() % 50;
  return view;
}

PlacementRequest request_of(int number, PlacementStrategy strategy) {
  // Every second tenant has no workers of its own.
  return {.tenant = *TenantId::parse(tenant_name(number % (2 * kTenants))),
          .image = "base",
          .cpu_cores = 1,
          .memory_mb = 512,
          .needs_egress_wall = true,
          .strategy = strategy};
}

/// Decisions for one tenant after the other.
template <typename Fleet>
Samples decide(const Scheduler& scheduler, const Fleet& fleet, PlacementStrategy strategy,
               int decisions) {
  Samples samples;
  for (int i = 0; i < decisions; ++i) {
    const PlacementRequest request = request_of(i, strategy);
    const double start = cpu_seconds();
    const Decision decision = scheduler.schedule(request, fleet, static_cast<std::uint64_t>(i));
    samples.add_seconds(cpu_seconds() - start);
    if (const auto* refusal = std::get_if<Refusal>(&decision); refusal && refusal->counts.empty()) {
      give_up("a refusal without a count");
    }
  }
  return samples;
}

Samples put(FleetIndex& index, std::vector<WorkerView>& fleet, std::mt19937& random) {
  Samples samples;
  for (int i = 0; i < kPuts; ++i) {
    WorkerView& view = fleet[random() % fleet.size()];
    view.used_cpu_cores += i % 2 == 0 ? 0.5 : -0.5;
    view.used_memory_mb += i % 2 == 0 ? 64 : -64;
    WorkerView changed = view;
    const double start = cpu_seconds();
    index.put(std::move(changed));
    samples.add_seconds(cpu_seconds() - start);
  }
  return samples;
}

void measure(int workers, const World& world) {
  std::mt19937 random(1);
  std::vector<WorkerView> fleet;
  for (int i = 0; i < workers; ++i) {
    fleet.push_back(worker_of(i, world.share_full, random));
  }
  const Scheduler scheduler{PlacementPolicy{}};
  FleetIndex index(scheduler.policy());
  const double start = cpu_seconds();
  for (const WorkerView& view : fleet) {
    index.put(view);
  }
  std::printf("%d workers, %s: joined in %.2f us each\n", workers, world.name,
              (cpu_seconds() - start) * 1e6 / workers);
  put(index, fleet, random).print("  put, a usage change");
  for (const auto strategy : {PlacementStrategy::kSpread, PlacementStrategy::kPack}) {
    const bool pack = strategy == PlacementStrategy::kPack;
    Samples indexed = decide(scheduler, index, strategy, kDecisions);
    Samples scanned = decide(scheduler, fleet, strategy, kScans);
    indexed.print(pack ? "  pack" : "  spread");
    std::printf("%-44s %8.1f\n", "    scan's p50 by the index's",
                scanned.median() / indexed.median());
  }
}

}  // namespace

int main() {
  for (const int workers : {1000, 10'000, 100'000}) {
    for (const World& world : kWorlds) {
      measure(workers, world);
    }
  }
}
