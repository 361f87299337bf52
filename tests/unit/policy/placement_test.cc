#include "sandboxkit/placement.h"

#include "tests/unit/policy/fleets.h"

#include <algorithm>
#include <functional>
#include <set>

using namespace sandboxkit;               // NOLINT(google-build-using-namespace)
using namespace sandboxkit::policy_test;  // NOLINT(google-build-using-namespace)

namespace {

const Scheduler kScheduler{PlacementPolicy{}};

Decision place(const PlacementRequest& wanted, const std::vector<WorkerView>& fleet,
               std::uint64_t seed = 1) {
  return kScheduler.schedule(wanted, fleet, seed);
}

/// One row of the document's table: what differs from a plain worker and a plain request.
struct Row {
  const char* what;
  std::function<void(WorkerView&)> worker;
  std::function<void(PlacementRequest&)> request;
  RefusalCode code;
  Filter filter;
  const char* missing;
};

void nothing(PlacementRequest&) {}
void plain(WorkerView&) {}

constexpr auto kNever = RefusalCode::kCapabilityUnavailable;
constexpr auto kNotNow = RefusalCode::kNoCapacity;

const std::vector<Row> kTable = {
    {"a wall that nobody can build", plain, [](auto& r) { r.needs_egress_wall = true; }, kNever,
     Filter::kCapability, "egress"},
    {"a capability that nobody has", plain, [](auto& r) { r.capabilities = {"gpu"}; }, kNever,
     Filter::kCapability, "gpu"},
    {"a runtime that nobody has", plain, [](auto& r) { r.runtime = "runsc"; }, kNever,
     Filter::kRuntime, "runtime:runsc"},
    {"an architecture that nobody has", plain, [](auto& r) { r.arch = "arm64"; }, kNever,
     Filter::kArch, "arch:arm64"},
    {"a taint that is not tolerated", [](auto& w) { w.taints = {"gpu"}; }, nothing, kNever,
     Filter::kTaint, "toleration:gpu"},
    {"one of two taints that is not tolerated",
     [](auto& w) {
       w.taints = {"gpu", "night"};
     },
     [](auto& r) { r.tolerations = {"gpu"}; }, kNever, Filter::kTaint, "toleration:night"},
    {"a label that nobody has", plain,
     [](auto& r) {
       r.labels = {{"zone", "eu"}};
     },
     kNever, Filter::kLabels, "label:zone=eu"},
    {"a label with another value",
     [](auto& w) {
       w.labels = {{"zone", "us"}};
     },
     [](auto& r) {
       r.labels = {{"zone", "eu"}};
     },
     kNever, Filter::kLabels, "label:zone=eu"},
    {"more cores than the whole worker", plain, [](auto& r) { r.cpu_cores = 16.5; }, kNever,
     Filter::kSize, "cpu_cores"},
    {"more memory than the whole worker", plain, [](auto& r) { r.memory_mb = 4097; }, kNever,
     Filter::kSize, "memory_mb"},
    {"a cordoned worker", [](auto& w) { w.state = WorkerState::kCordoned; }, nothing, kNotNow,
     Filter::kState, ""},
    {"a draining worker", [](auto& w) { w.state = WorkerState::kDraining; }, nothing, kNotNow,
     Filter::kState, ""},
    {"a worker that complains", [](auto& w) { w.state = WorkerState::kUnhealthy; }, nothing,
     kNotNow, Filter::kState, ""},
    {"an unreachable worker", [](auto& w) { w.state = WorkerState::kUnreachable; }, nothing,
     kNotNow, Filter::kState, ""},
    {"a lost worker, which may come back", [](auto& w) { w.state = WorkerState::kLost; }, nothing,
     kNotNow, Filter::kState, ""},
    {"a worker at its cap", [](auto& w) { w.sandboxes = w.max_sandboxes; }, nothing, kNotNow,
     Filter::kSandboxCap, ""},
    {"a worker without cores", [](auto& w) { w.used_cpu_cores = 15.5; }, nothing, kNotNow,
     Filter::kCpu, ""},
    {"a worker without memory", [](auto& w) { w.used_memory_mb = 3585; }, nothing, kNotNow,
     Filter::kMemory, ""},
    {"a worker without start slots", [](auto& w) { w.starting = w.max_starting; }, nothing, kNotNow,
     Filter::kStartSlots, ""},
};

}  // namespace

TEST_CASE("a refusal says whether waiting helps, and which filter spoke") {
  for (const Row& row : kTable) {
    CAPTURE(row.what);
    std::vector<WorkerView> fleet = {worker("w-1", "acme")};
    row.worker(fleet[0]);
    PlacementRequest wanted = request("acme");
    row.request(wanted);

    const Decision decision = place(wanted, fleet);
    const Refusal* refusal = refused(decision);
    REQUIRE(refusal != nullptr);
    CHECK(refusal->code == row.code);
    CHECK(refusal->counts == std::map<Filter, std::int64_t>{{row.filter, 1}});
    CHECK(refusal->missing == row.missing);
    CHECK(refusal->retry_after.has_value() == (row.code == kNotNow));
  }
}

TEST_CASE("the filter that refuses one worker can be asked for alone") {
  for (const Row& row : kTable) {
    CAPTURE(row.what);
    WorkerView view = worker("w-1", "acme");
    row.worker(view);
    PlacementRequest wanted = request("acme");
    row.request(wanted);
    CHECK(kScheduler.refusal_of(wanted, view) == row.filter);
  }
  CHECK(kScheduler.refusal_of(request("acme"), worker("w-1", "")) == std::nullopt);
  CHECK(kScheduler.refusal_of(request("acme"), worker("w-1", "globex")) == Filter::kTenant);
}

TEST_CASE("a tolerated taint keeps nobody away, and draws nobody either") {
  std::vector<WorkerView> fleet = {worker("w-1", "acme")};
  fleet[0].taints = {"gpu"};
  PlacementRequest wanted = request("acme");
  wanted.tolerations = {"gpu", "night"};
  CHECK(worker_of(place(wanted, fleet)) == "w-1");
  fleet[0].taints = {};
  CHECK(worker_of(place(wanted, fleet)) == "w-1");
}

TEST_CASE("no single toleration is missing when every worker has another taint") {
  std::vector<WorkerView> fleet = {worker("w-1", "acme"), worker("w-2", "")};
  fleet[0].taints = {"gpu"};
  fleet[1].taints = {"night"};
  const Decision decision = place(request("acme"), fleet);
  REQUIRE(refused(decision) != nullptr);
  CHECK(refused(decision)->code == kNever);
  CHECK(refused(decision)->counts == std::map<Filter, std::int64_t>{{Filter::kTaint, 2}});
  CHECK(refused(decision)->missing.empty());
  fleet[1].taints.insert("gpu");
  const PlacementRequest wanted = request("acme");
  CHECK(explain(wanted, place(wanted, fleet)) ==
        "every worker that workspace `acme` may use has the taint `gpu`: tolerate it, or join a "
        "worker without it; of those it may use, 2 have a taint that it does not tolerate.");
}

TEST_CASE("what exactly fills a worker is placed") {
  std::vector<WorkerView> fleet = {worker("w-1", "acme")};
  fleet[0].used_cpu_cores = 15;
  fleet[0].used_memory_mb = 3584;
  fleet[0].sandboxes = 99;
  fleet[0].starting = 3;
  CHECK(worker_of(place(request("acme"), fleet)) == "w-1");
}

TEST_CASE("ten sandboxes of a tenth of a core fit on one core without overcommit") {
  const Scheduler strict({.cpu_overcommit = 1});
  std::vector<WorkerView> fleet = {worker("w-1", "acme")};
  fleet[0].cpu_cores = 1;
  fleet[0].max_starting = 100;
  PlacementRequest wanted = request("acme");
  wanted.cpu_cores = 0.1;
  wanted.memory_mb = 16;
  for (int i = 0; i < 10; ++i) {
    CAPTURE(i);
    REQUIRE(worker_of(strict.schedule(wanted, fleet, 1)) == "w-1");
    apply(fleet[0], wanted);
  }
  CHECK(refused(strict.schedule(wanted, fleet, 1)) != nullptr);
}

TEST_CASE("another tenant's worker is never used, and never spoken of") {
  const std::vector<WorkerView> fleet = {worker("w-theirs", "globex")};
  const PlacementRequest wanted = request("acme");
  const Decision decision = place(wanted, fleet);
  REQUIRE(refused(decision) != nullptr);
  CHECK(refused(decision)->counts.empty());
  const std::string words = explain(wanted, decision);
  CHECK(words.find("theirs") == std::string::npos);
  CHECK(words.find("globex") == std::string::npos);
  CHECK(words == explain(wanted, place(wanted, {})));
}

TEST_CASE("a capability of another tenant's worker does not make a refusal a matter of time") {
  std::vector<WorkerView> fleet = {worker("w-ours", "acme"), worker("w-theirs", "globex")};
  fleet[1].capabilities = {"egress"};
  PlacementRequest wanted = request("acme");
  wanted.needs_egress_wall = true;
  const Decision decision = place(wanted, fleet);
  REQUIRE(refused(decision) != nullptr);
  CHECK(refused(decision)->code == kNever);
  CHECK(refused(decision)->counts == std::map<Filter, std::int64_t>{{Filter::kCapability, 1}});
}

TEST_CASE(
    "without any worker a plain create waits for one and a walled one is told what is missing") {
  PlacementRequest wanted = request("acme");
  CHECK(refused(place(wanted, {}))->code == kNotNow);
  wanted.needs_egress_wall = true;
  const Decision walled = place(wanted, {});
  CHECK(refused(walled)->code == kNever);
  CHECK(refused(walled)->missing == "egress");
}

TEST_CASE("needs that are offered apart but never together can never be met") {
  std::vector<WorkerView> fleet = {worker("w-1", "acme"), worker("w-2", "")};
  fleet[0].capabilities = {"gpu"};
  fleet[1].capabilities = {"egress"};
  PlacementRequest wanted = request("acme");
  wanted.needs_egress_wall = true;
  wanted.capabilities = {"gpu"};
  const Decision decision = place(wanted, fleet);
  REQUIRE(refused(decision) != nullptr);
  CHECK(refused(decision)->code == kNever);
  CHECK(refused(decision)->missing.empty());
}

TEST_CASE("an own worker comes before an unscoped one that is warm and idle") {
  std::vector<WorkerView> fleet = {worker("w-own", "acme"), worker("w-shared", "")};
  fleet[0].used_cpu_cores = 12;
  fleet[1].warm = {{"base", 3}};
  fleet[1].images = {"base"};
  CHECK(worker_of(place(request("acme"), fleet)) == "w-own");
  fleet[0].state = WorkerState::kCordoned;
  CHECK(worker_of(place(request("acme"), fleet)) == "w-shared");
}

TEST_CASE("a warm entry comes before the image, and the image before an idle worker") {
  std::vector<WorkerView> fleet = {worker("w-idle", ""), worker("w-image", ""),
                                   worker("w-warm", "")};
  fleet[1].images = {"base"};
  fleet[1].used_cpu_cores = 4;
  fleet[2].warm = {{"base", 1}};
  fleet[2].used_cpu_cores = 8;
  CHECK(worker_of(place(request("acme"), fleet)) == "w-warm");
  fleet[2].warm["base"] = 0;
  CHECK(worker_of(place(request("acme"), fleet)) == "w-image");
}

TEST_CASE("spreading takes the least loaded worker and packing the fullest that fits") {
  std::vector<WorkerView> fleet;
  for (int i = 0; i < 30; ++i) {
    fleet.push_back(worker("w-" + std::to_string(i), ""));
    fleet.back().used_memory_mb = 100 * i;
  }
  PlacementRequest wanted = request("acme");
  const Scheduler all({.candidates = 0});
  CHECK(worker_of(all.schedule(wanted, fleet, 1)) == "w-0");
  wanted.strategy = PlacementStrategy::kPack;
  CHECK(worker_of(place(wanted, fleet)) == "w-29");
  fleet[29].used_memory_mb = 4096;
  CHECK(worker_of(place(wanted, fleet)) == "w-28");
}

TEST_CASE("spreading fills equal workers evenly") {
  std::vector<WorkerView> fleet;
  for (int i = 0; i < 4; ++i) {
    fleet.push_back(worker("w-" + std::to_string(i), ""));
    fleet.back().max_starting = 100;
  }
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const std::string chosen = worker_of(place(request("acme"), fleet, seed));
    apply(*std::ranges::find(fleet, chosen, [](const auto& w) { return w.id.str(); }),
          request("acme"));
  }
  for (const WorkerView& view : fleet) {
    CHECK(view.sandboxes == 3);
  }
}

TEST_CASE("a decision depends on the seed and not on the fleet's order") {
  std::vector<WorkerView> fleet;
  for (int i = 0; i < 40; ++i) {
    fleet.push_back(worker("w-" + std::to_string(i), ""));
  }
  std::set<std::string> chosen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const std::string first = worker_of(place(request("acme"), fleet, seed));
    chosen.insert(first);
    std::ranges::reverse(fleet);
    std::rotate(fleet.begin(), fleet.begin() + 7, fleet.end());
    REQUIRE(worker_of(place(request("acme"), fleet, seed)) == first);
  }
  CHECK(chosen.size() > 5);
}

TEST_CASE("at most K candidates are scored, the best first") {
  std::vector<WorkerView> fleet;
  for (int i = 0; i < 40; ++i) {
    fleet.push_back(worker("w-" + std::to_string(i), ""));
    fleet.back().used_cpu_cores = i % 7;
  }
  const Decision decision = place(request("acme"), fleet);
  REQUIRE(placed(decision) != nullptr);
  const auto& scores = placed(decision)->scores();
  CHECK(scores.size() == 8);
  CHECK(scores.front().worker == placed(decision)->worker());
  CHECK(std::ranges::is_sorted(scores, std::ranges::greater{}, &Score::total));
}

TEST_CASE("a decision can be told in words") {
  std::vector<WorkerView> fleet = {worker("w-1", "acme"), worker("w-2", "acme")};
  fleet[0].images = {"base"};
  CHECK(explain(request("acme"), place(request("acme"), fleet)) ==
        "placed on worker `w-1`: the workspace's own, it has the image, 13 % of it in use then; "
        "2 candidate(s) were scored.");
  fleet[0].state = WorkerState::kCordoned;
  fleet[1].sandboxes = 100;
  CHECK(explain(request("acme"), place(request("acme"), fleet)) ==
        "workers could run this, but none has room now; of those it may use, 1 are not ready, "
        "1 hold as many sandboxes as they may; retry after 5 s.");
}

TEST_CASE("states and refusals have stable names") {
  CHECK(std::string(name_of(RefusalCode::kNoCapacity)) == "no_capacity");
  CHECK(std::string(name_of(kNever)) == "worker_capability_unavailable");
  CHECK(status_of(kNever) == 409);
  CHECK(status_of(kNotNow) == 503);
  for (const char* name : {"ready", "cordoned", "draining", "unhealthy", "unreachable", "lost"}) {
    CAPTURE(name);
    REQUIRE(worker_state_from(name).has_value());
    CHECK(std::string(name_of(*worker_state_from(name))) == name);
  }
  CHECK(worker_state_from("Ready").error().field == "state");
}
