#include "tests/unit/store/store_world.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;         // NOLINT(google-build-using-namespace)
using namespace sandboxkit::store;  // NOLINT(google-build-using-namespace)

namespace {

std::vector<std::string> ids(const std::vector<SandboxRow>& rows) {
  std::vector<std::string> out;
  std::ranges::transform(rows, std::back_inserter(out), &SandboxRow::id);
  return out;
}

using Ids = std::vector<std::string>;

}  // namespace

TEST_CASE("a sandbox reads back every column, by id and by live name") {
  StoreWorld world;
  REQUIRE(world.put(worker_row("w-1", "acme")).has_value());
  SandboxRow row = sandbox_row("i1", "acme", "w-1");
  row.name = "build";
  row.generation = 3;
  row.reason = "why";
  row.policy_hash = "policy";
  row.next_egress = "{\"allowed_domains\":[]}";
  row.cpu_cores = 0.5;
  row.created_by = "key";
  row.started = at(7);
  REQUIRE(world.put(row).has_value());
  for (const auto& found : {world.ask([](Tx& tx) { return tx.sandbox("acme", "i1"); }),
                            world.ask([](Tx& tx) { return tx.sandbox_by_name("acme", "build"); }),
                            world.ask([](Tx& tx) { return tx.sandbox_of_worker("w-1", "i1"); })}) {
    REQUIRE(found);
    CHECK(found->name == "build");
    CHECK(found->worker == "w-1");
    CHECK(found->generation == 3);
    CHECK(found->desired == "running");
    CHECK(found->state == "pending");
    CHECK(found->reason == "why");
    CHECK(found->spec == "{}");
    CHECK(found->spec_hash == "hash");
    CHECK(found->policy_hash == "policy");
    CHECK(found->next_egress == row.next_egress);
    CHECK(found->cpu_cores == 0.5);
    CHECK(found->memory_mb == 512);
    CHECK(found->created_by == "key");
    CHECK(found->created == at(1));
    CHECK(found->expires == at(100));
    CHECK(found->started == at(7));
    CHECK_FALSE(found->ended.has_value());
  }
}

TEST_CASE("a sandbox of another tenant is a plain miss") {
  StoreWorld world;
  SandboxRow row = sandbox_row("i1", "acme");
  row.name = "build";
  REQUIRE(world.put(row).has_value());
  CHECK_FALSE(world.ask([](Tx& tx) { return tx.sandbox("other", "i1"); }).has_value());
  CHECK_FALSE(world.ask([](Tx& tx) { return tx.sandbox_by_name("other", "build"); }).has_value());
  CHECK(world.ask([](Tx& tx) { return tx.sandboxes({.tenant = "other"}); }).empty());
  row.tenant = "other";
  row.state = "stopped";
  CHECK_FALSE(world.ask([&](Tx& tx) { return tx.update_sandbox(row, std::nullopt); }));
  CHECK(world.ask([](Tx& tx) { return tx.sandbox("acme", "i1"); })->state == "pending");
}

TEST_CASE("the tenant rule stands in the table: own and unscoped workers only") {
  StoreWorld world;
  REQUIRE(world.put(worker_row("w-own", "acme")).has_value());
  REQUIRE(world.put(worker_row("w-free", "")).has_value());
  REQUIRE(world.put(worker_row("w-other", "other")).has_value());
  CHECK(reason(world.put(sandbox_row("i1", "acme", "w-own"))) == "ok");
  CHECK(reason(world.put(sandbox_row("i2", "acme", "w-free"))) == "ok");
  CHECK(reason(world.put(sandbox_row("i3", "acme", ""))) == "ok");
  const Status refused = world.put(sandbox_row("i4", "acme", "w-other"));
  CHECK(reason(refused) == "foreign_placement");
  CHECK(refused.error().code == ErrorCode::kConflict);
  CHECK(reason(world.put(sandbox_row("i5", "acme", "w-absent"))) == "foreign_placement");
  CHECK(world.ask([](Tx& tx) { return tx.sandboxes({.tenant = "acme"}); }).size() == 3);
}

TEST_CASE("a sandbox needs a tenant and states that exist") {
  StoreWorld world;
  CHECK_FALSE(world.put(sandbox_row("i1", "")).has_value());
  SandboxRow row = sandbox_row("i2", "acme");
  row.state = "flying";
  CHECK_FALSE(world.put(row).has_value());
}

TEST_CASE("a name is unique among the live sandboxes of a tenant") {
  StoreWorld world;
  SandboxRow first = sandbox_row("i1", "acme");
  first.name = "build";
  REQUIRE(world.put(first).has_value());
  SandboxRow second = sandbox_row("i2", "acme");
  second.name = "build";
  const Status taken = world.put(second);
  CHECK(reason(taken) == "name_taken");
  CHECK(taken.error().code == ErrorCode::kConflict);
  second.tenant = "other";
  CHECK(reason(world.put(second)) == "ok");
  first.state = "stopped";
  CHECK(world.ask([&](Tx& tx) { return tx.update_sandbox(first, std::nullopt); }));
  second.id = "i3";
  second.tenant = "acme";
  CHECK(reason(world.put(second)) == "ok");
  CHECK(world.ask([](Tx& tx) { return tx.sandbox_by_name("acme", "build"); })->id == "i3");
}

TEST_CASE("any number of sandboxes may have no name, and none is found by it") {
  StoreWorld world;
  CHECK(reason(world.put(sandbox_row("i1", "acme"))) == "ok");
  CHECK(reason(world.put(sandbox_row("i2", "acme"))) == "ok");
  CHECK_FALSE(world.ask([](Tx& tx) { return tx.sandbox_by_name("acme", ""); }).has_value());
  CHECK(reason(world.put(sandbox_row("i1", "acme"))) == "already_exists");
}

TEST_CASE("an update needs the generation and, where given, the state") {
  StoreWorld world;
  SandboxRow row = sandbox_row("i1", "acme");
  REQUIRE(world.put(row).has_value());
  row.state = "running";
  row.started = at(5);
  CHECK_FALSE(world.ask([&](Tx& tx) { return tx.update_sandbox(row, "starting"); }));
  CHECK(world.ask([&](Tx& tx) { return tx.update_sandbox(row, "pending"); }));
  row.generation = 2;
  CHECK_FALSE(world.ask([&](Tx& tx) { return tx.update_sandbox(row, std::nullopt); }));
  row.generation = 1;
  row.desired = "stopped";
  row.state = "stopped";
  row.reason = "timeout";
  row.ended = at(9);
  row.expires = at(8);
  CHECK(world.ask([&](Tx& tx) { return tx.update_sandbox(row, std::nullopt); }));
  const auto found = world.ask([](Tx& tx) { return tx.sandbox("acme", "i1"); });
  REQUIRE(found);
  CHECK(found->desired == "stopped");
  CHECK(found->state == "stopped");
  CHECK(found->reason == "timeout");
  CHECK(found->started == at(5));
  CHECK(found->ended == at(9));
  CHECK(found->expires == at(8));
}

TEST_CASE("pages follow one another in order of ids, by state or all but deleted") {
  StoreWorld world;
  const char* const states[] = {"running", "stopped", "deleted", "pending"};
  for (int i = 0; i < 8; ++i) {
    SandboxRow row = sandbox_row("i" + std::to_string(i), "acme");
    row.state = states[i % 4];
    REQUIRE(world.put(row).has_value());
  }
  const auto list = [&](const SandboxQuery& query) {
    return ids(world.ask([&](Tx& tx) { return tx.sandboxes(query); }));
  };
  CHECK(list({.tenant = "acme"}) == Ids{"i0", "i1", "i3", "i4", "i5", "i7"});
  CHECK(list({.tenant = "acme", .limit = 4}) == Ids{"i0", "i1", "i3", "i4"});
  CHECK(list({.tenant = "acme", .after = "i4", .limit = 4}) == Ids{"i5", "i7"});
  CHECK(list({.tenant = "acme", .states = {"running"}}) == Ids{"i0", "i4"});
  CHECK(list({.tenant = "acme", .states = {"deleted", "stopped"}, .after = "i1"}) ==
        Ids{"i2", "i5", "i6"});
  CHECK(list({.tenant = "acme", .states = {"running", "running"}}) == Ids{"i0", "i4"});
  CHECK(list({.tenant = "acme", .limit = 0}).empty());
}

TEST_CASE("live counts and a worker's use leave out what has ended") {
  StoreWorld world;
  REQUIRE(world.put(worker_row("w-1", "")).has_value());
  const char* const states[] = {"pending", "starting", "running", "stopping",
                                "stopped", "error",    "lost",    "deleted"};
  for (const char* state : states) {
    SandboxRow row = sandbox_row(std::string("i-") + state, "acme", "w-1");
    row.state = state;
    REQUIRE(world.put(row).has_value());
  }
  CHECK(world.ask([](Tx& tx) { return tx.use_of_tenant("acme"); }).sandboxes == 4);
  CHECK(world.ask([](Tx& tx) { return tx.use_of_tenant("other"); }).sandboxes == 0);
  const auto use = world.ask([](Tx& tx) { return tx.use_of_worker("w-1"); });
  CHECK(use.sandboxes == 4);
  CHECK(use.starting == 2);
  CHECK(use.cpu_cores == 4);
  CHECK(use.memory_mb == 4 * 512);
  CHECK(world.ask([](Tx& tx) { return tx.use_of_worker("w-2"); }).memory_mb == 0);
  CHECK(world.ask([](Tx& tx) { return tx.sandboxes_of_worker("w-1"); }).size() == 4);
}

TEST_CASE("a purge drops what ended before, with its keys and deliveries, and nothing that lives") {
  StoreWorld world;
  for (const auto& [id, state, ended] :
       {std::tuple("i1", "stopped", 10), std::tuple("i2", "stopped", 20),
        std::tuple("i3", "running", 10)}) {
    SandboxRow row = sandbox_row(id, "acme");
    row.state = state;
    row.ended = at(ended);
    REQUIRE(world.put(row).has_value());
    REQUIRE(
        world.put(IdempotencyRow{.tenant = "acme", .key = id, .request_hash = "h", .sandbox = id})
            .has_value());
    REQUIRE(world.put(DeliveryRow{.worker = "w", .sandbox = id, .kind = "remove"}).has_value());
  }
  CHECK(world.ask([](Tx& tx) { return tx.purge_ended(at(20)); }) == 1);
  CHECK(ids(world.ask([](Tx& tx) { return tx.sandboxes({.tenant = "acme"}); })) == Ids{"i2", "i3"});
  CHECK_FALSE(world.ask([](Tx& tx) { return tx.idempotency("acme", "i1"); }).has_value());
  CHECK(world.ask([](Tx& tx) { return tx.idempotency("acme", "i2"); }).has_value());
  CHECK(world.ask([](Tx& tx) { return tx.due_deliveries("w", at(0), 10); }).size() == 2);
}

TEST_CASE("deliveries come in order, when due, until they are finished or dropped") {
  StoreWorld world;
  for (const char* sandbox : {"i1", "i2", "i3"}) {
    REQUIRE(world
                .put(DeliveryRow{.worker = "w-1",
                                 .sandbox = sandbox,
                                 .generation = 2,
                                 .kind = "create",
                                 .created = at(3)})
                .has_value());
  }
  const auto due = [&](std::int64_t now, std::size_t limit = 10) {
    return world.ask([&](Tx& tx) { return tx.due_deliveries("w-1", at(now), limit); });
  };
  const auto all = due(0);
  REQUIRE(all.size() == 3);
  CHECK(all[0].seq < all[1].seq);
  CHECK(all[0].sandbox == "i1");
  CHECK(all[0].generation == 2);
  CHECK(all[0].kind == "create");
  CHECK(all[0].created == at(3));
  CHECK(due(0, 2).size() == 2);
  REQUIRE(world.store->write([&](Tx& tx) { return tx.finish_delivery(all[0].seq, "done"); }));
  REQUIRE(world.store->write([&](Tx& tx) { return tx.retry_delivery(all[1].seq, at(50)); }));
  CHECK(due(49).size() == 1);
  REQUIRE(due(50).size() == 2);
  CHECK(due(50).front().attempts == 1);
  REQUIRE(world.store->write([&](Tx& tx) { return tx.drop_deliveries("i2"); }));
  CHECK(due(50).size() == 1);
  CHECK(world.ask([](Tx& tx) { return tx.due_deliveries("w-2", at(50), 10); }).empty());
}
