#include "control/roster.h"

#include "control/create.h"
#include "tests/unit/control/store_world.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;
using std::chrono::milliseconds;

TEST_CASE("a worker is proposed only while it is heard, connected, well and wanted") {
  StoreWorld world;
  world.add_worker("w-1", "acme");
  CHECK(world.create("acme").row.worker == "w-1");

  world.roster.set_online("w-1", false);
  CHECK(world.create("acme").refusal->status == 503);
  world.roster.set_online("w-1", true);
  CHECK(world.create("acme").row.worker == "w-1");

  world.clock.pass(world.config.unreachable_after + milliseconds(1));
  world.roster.tick();
  CHECK(world.create("acme").refusal->status == 503);
  world.roster.heard("w-1");
  CHECK(world.create("acme").row.worker == "w-1");

  world.change_worker("w-1", [](store::WorkerRow& row) { row.problem = "no engine"; });
  CHECK(world.create("acme").refusal->status == 503);
  world.change_worker("w-1", [](store::WorkerRow& row) { row.problem = ""; });
  CHECK(world.create("acme").row.worker == "w-1");
}

TEST_CASE("a worker that fell silent since the last look is not taken, because the rows decide") {
  StoreWorld world;
  world.add_worker("w-1", "acme");
  CHECK(world.create("acme").row.worker == "w-1");
  world.clock.pass(world.config.unreachable_after + milliseconds(1));
  CHECK(world.create("acme").refusal->status == 503);  // No `tick` came in between.
}

TEST_CASE("rows that the roster was not told of are believed, and nothing is oversold") {
  StoreWorld world;
  world.add_worker("w-1", "acme");
  world.add_worker("w-2", "acme");
  world.change_worker("w-1", [](store::WorkerRow& row) { row.max_sandboxes = 3; });
  world.change_worker("w-2", [](store::WorkerRow& row) { row.max_sandboxes = 3; });
  REQUIRE(world.roster.refresh());
  world.store->on_change({});  // From here on it is told nothing.
  int made = 0;
  for (int i = 0; i < 10; ++i) {
    made += world.create("acme").refusal ? 0 : 1;
  }
  CHECK(made == 6);
  CHECK(world.use_of("w-1").sandboxes == 3);
  CHECK(world.use_of("w-2").sandboxes == 3);
}

TEST_CASE("a worker that joined is not connected, and gets nothing, before it said what it can") {
  StoreWorld world;
  store::WorkerRow row{"w-1", "acme"};
  row.name = "w-1";
  row.joined = world.clock.now();
  REQUIRE(world.store->write([&](store::Tx& tx) { return tx.insert(row); }));
  world.roster.set_online("w-1", true);
  const auto hearing = world.roster.hearing("w-1");
  CHECK(seen_state(row, hearing) == WorkerState::kUnreachable);
  CHECK(*worker_view(row, {}, hearing).find("connected") == json::Value(false));
  row.arch = "amd64";
  CHECK(seen_state(row, hearing) == WorkerState::kReady);
  CHECK(*worker_view(row, {}, hearing).find("connected") == json::Value(true));
}

TEST_CASE("a worker that complains before it could look at its engine keeps what it proved") {
  store::WorkerRow row{"w-1"};
  wire::WorkerFacts facts{DriverCapabilities{"docker 20"}};
  facts.driver.arch = "amd64";
  facts.driver.capabilities = {"egress"};
  apply_facts(row, facts);
  wire::WorkerFacts blind{DriverCapabilities{}};
  blind.problem = "the engine does not answer";
  apply_facts(row, blind);
  CHECK(row.capabilities == R"(["egress"])");
  CHECK(row.arch == "amd64");
  CHECK(row.problem == "the engine does not answer");
  facts.driver.capabilities = {};
  apply_facts(row, facts);
  CHECK(row.capabilities == "[]");
  CHECK(row.problem.empty());
}

TEST_CASE("a worker that was removed is not proposed again") {
  StoreWorld world;
  world.add_worker("w-1", "acme");
  REQUIRE(world.store->write([](store::Tx& tx) { return tx.remove_worker("w-1"); }));
  CHECK(world.create("acme").refusal->status == 503);
  CHECK(world.roster.lines().empty());
}

TEST_CASE("a create that the store refuses leaves the roster as the rows are") {
  StoreWorld world;
  world.add_worker("w-1", "acme");
  world.change_worker("w-1", [](store::WorkerRow& row) { row.max_sandboxes = 1; });
  auto order = world.order("acme");
  order.id = "taken";
  REQUIRE(world.decide(order));
  world.end("acme", "taken");
  CHECK_FALSE(world.decide(order));  // The id is taken: the write is rolled back.
  order.id = "free";
  const auto decision = world.decide(order);
  REQUIRE(decision);
  CHECK(decision->row.worker == "w-1");
}

TEST_CASE("a heartbeat counts as settled only while it and the worker's rows stay the same") {
  StoreWorld world;
  world.add_worker("w-1", "acme");
  Roster& roster = world.roster;
  const auto settle = [&](const char* text) {
    const Roster::Note note = roster.note_of("w-1", text);
    roster.changed("w-1");  // What the heartbeat itself writes.
    roster.settled("w-1", note);
  };
  const auto is_settled = [&](const char* text) {
    return roster.is_settled("w-1", roster.note_of("w-1", text));
  };
  CHECK_FALSE(is_settled("a"));
  settle("a");
  CHECK(is_settled("a"));
  CHECK_FALSE(is_settled("b"));
  REQUIRE_FALSE(world.create("acme").refusal);
  CHECK_FALSE(is_settled("a"));

  const Roster::Note note = roster.note_of("w-1", "a");
  roster.changed("w-1");
  roster.changed("w-1");  // A second write came between the note and the settling.
  roster.settled("w-1", note);
  CHECK_FALSE(is_settled("a"));
}

TEST_CASE("creates of one commit see each other, so a burst spreads over the fleet") {
  StoreWorld world;
  for (int i = 0; i < 4; ++i) {
    world.add_worker("w-" + std::to_string(i), "");
  }
  const Status written = world.store->write([&](store::Tx&) -> Status { return {}; });
  REQUIRE(written);
  REQUIRE(world.roster.refresh());
  world.store->on_change({});
  for (int i = 0; i < 40; ++i) {
    REQUIRE_FALSE(world.create("acme").refusal);
  }
  for (int i = 0; i < 4; ++i) {
    CHECK(world.use_of("w-" + std::to_string(i)).sandboxes == 10);
  }
}
