#include "sandboxkit/fleet_index.h"

#include "tests/unit/policy/fleets.h"

using namespace sandboxkit;               // NOLINT(google-build-using-namespace)
using namespace sandboxkit::policy_test;  // NOLINT(google-build-using-namespace)

TEST_CASE("an index holds the last view of each worker until it is erased") {
  FleetIndex index{PlacementPolicy{}};
  index.put(worker("w-1", "acme"));
  WorkerView moved = worker("w-1", "");
  moved.sandboxes = 7;
  index.put(moved);
  REQUIRE(index.size() == 1);
  REQUIRE(index.find(moved.id) != nullptr);
  CHECK(index.find(moved.id)->sandboxes == 7);
  CHECK(index.find(moved.id)->scope.is_unscoped());
  CHECK(index.erase(moved.id));
  CHECK_FALSE(index.erase(moved.id));
  CHECK(index.find(moved.id) == nullptr);
  CHECK(index.size() == 0);
}

TEST_CASE("an index decides on what it holds now") {
  const Scheduler scheduler{PlacementPolicy{}};
  FleetIndex index{scheduler.policy()};
  CHECK(refused(scheduler.schedule(request("acme"), index, 1)) != nullptr);
  index.put(worker("w-theirs", "globex"));
  CHECK(refused(scheduler.schedule(request("acme"), index, 1))->counts.empty());
  index.put(worker("w-shared", ""));
  CHECK(worker_of(scheduler.schedule(request("acme"), index, 1)) == "w-shared");
  index.put(worker("w-own", "acme"));
  CHECK(worker_of(scheduler.schedule(request("acme"), index, 1)) == "w-own");
  index.erase(*WorkerId::parse("w-own"));
  CHECK(worker_of(scheduler.schedule(request("acme"), index, 1)) == "w-shared");
}
