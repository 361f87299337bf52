#include "control/audit_keeper.h"

#include "tests/unit/control/store_world.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

std::vector<store::AuditRow> lines_of(StoreWorld& world, const std::string& tenant) {
  std::vector<store::AuditRow> lines;
  REQUIRE(world.store->read([&](store::Tx& tx) -> Status {
    auto rows = tx.audit(tenant, 0, 1000);
    REQUIRE(rows);
    lines = std::move(*rows);
    return {};
  }));
  return lines;
}

void write_line(StoreWorld& world) {
  store::AuditRow row;
  row.time = world.clock.now();
  row.tenant = "acme";
  REQUIRE(world.store->write([&](store::Tx& tx) { return tx.insert(row); }));
}

Caller member() { return Caller{policy::Role::kMember, "acme", "key1", {}, "10.0.0.1"}; }

}  // namespace

TEST_CASE("lines past the retention go, and later ones stay") {
  StoreWorld world;
  world.config.audit_retention = std::chrono::hours(48);
  AuditKeeper keeper(world.context);
  write_line(world);
  world.clock.pass(std::chrono::hours(47));
  write_line(world);
  keeper.pass();
  CHECK(lines_of(world, "acme").size() == 2);
  world.clock.pass(std::chrono::hours(2));
  keeper.pass();
  CHECK(lines_of(world, "acme").size() == 1);
}

TEST_CASE("with a negative retention every line stays") {
  StoreWorld world;
  world.config.audit_retention = std::chrono::seconds(-1);
  AuditKeeper keeper(world.context);
  write_line(world);
  world.clock.pass(std::chrono::hours(24 * 10'000));
  keeper.pass();
  CHECK(lines_of(world, "acme").size() == 1);
}

TEST_CASE("within a minute one refusal of a credential is a line, and the others share another") {
  StoreWorld world;
  AuditKeeper keeper(world.context);
  for (int minute = 0; minute < 2; ++minute) {
    for (int i = 0; i < 500; ++i) {
      keeper.note(member(), policy::Action::kListKeys, "owner_required");
    }
    keeper.pass();
  }
  world.pool.stop();
  const auto lines = lines_of(world, "acme");
  REQUIRE(lines.size() == 4);
  CHECK(std::ranges::count(lines, "owner_required", &store::AuditRow::outcome) == 2);
  CHECK(std::ranges::count(lines, "owner_required, 499 more within a minute",
                           &store::AuditRow::outcome) == 2);
  CHECK(lines.front().actor == "key1");
  CHECK(lines.front().action == "key.list");
  CHECK(lines.front().address == "10.0.0.1");
}

TEST_CASE("only a refusal leaves a line") {
  StoreWorld world;
  AuditKeeper keeper(world.context);
  for (const int status : {200, 401, 404, 409, 429, 503}) {
    net::ApiResponse answer;
    answer.status = status;
    keeper.note(member(), policy::Action::kListKeys, answer);
  }
  world.pool.stop();
  CHECK(lines_of(world, "acme").empty());
}

TEST_CASE("more credentials than are counted share one line of nobody's") {
  StoreWorld world;
  world.pool.stop();  // Nothing is written at once: it is counted instead.
  AuditKeeper keeper(world.context);
  Caller caller = member();
  for (std::size_t i = 0; i < AuditKeeper::kMaxCounted + 3; ++i) {
    caller.credential = "key" + std::to_string(i);
    caller.tenant = "t" + std::to_string(i);
    keeper.note(caller, policy::Action::kListKeys, "owner_required");
  }
  keeper.flush();
  const auto shared = lines_of(world, "");
  REQUIRE(shared.size() == 1);
  CHECK(shared.front().action == "audit.refusals");
  CHECK(shared.front().outcome == "refused, 3 more within a minute");
  CHECK(lines_of(world, "t1").front().outcome == "owner_required, 1 more within a minute");
}
