#include "store/database_file.h"
#include "store/rows.h"
#include "tests/unit/store/store_world.h"

#include <array>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;         // NOLINT(google-build-using-namespace)
using namespace sandboxkit::store;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::array kStates = {"pending", "starting", "running", "paused", "stopping",
                                "stopped", "error",    "lost",    "deleted"};

bool is_live(const std::string& state) {
  return state != "stopped" && state != "error" && state != "lost" && state != "deleted";
}

/// What the counted use must be: the rows themselves, added up.
Tx::Use recount(const std::vector<SandboxRow>& rows) {
  Tx::Use use;
  std::int64_t millis = 0;
  for (const SandboxRow& row : rows) {
    if (is_live(row.state)) {
      use.sandboxes += 1;
      use.starting += row.state == "pending" || row.state == "starting" ? 1 : 0;
      millis += static_cast<std::int64_t>(row.cpu_cores * 1000);
      use.memory_mb += row.memory_mb;
    }
  }
  use.cpu_cores = static_cast<double>(millis) / 1000;
  return use;
}

void check_same(const Tx::Use& counted, const Tx::Use& expected) {
  CHECK(counted.sandboxes == expected.sandboxes);
  CHECK(counted.starting == expected.starting);
  CHECK(counted.cpu_cores == expected.cpu_cores);
  CHECK(counted.memory_mb == expected.memory_mb);
}

std::vector<SandboxRow> rows_where(const std::map<std::string, SandboxRow>& rows,
                                   std::string SandboxRow::*member, const std::string& value) {
  std::vector<SandboxRow> found;
  for (const auto& [id, row] : rows) {
    if (row.*member == value) {
      found.push_back(row);
    }
  }
  return found;
}

}  // namespace

TEST_CASE(
    "counted use equals the rows added up, through inserts, every change of state and purges") {
  StoreWorld world;
  for (const char* worker : {"w-0", "w-1"}) {
    REQUIRE(world.put(worker_row(worker, "")).has_value());
  }
  std::mt19937 random(7);
  std::map<std::string, SandboxRow> rows;
  for (int step = 0; step < 400; ++step) {
    if (random() % 3 == 0 || rows.empty()) {
      const std::string digit = std::to_string(random() % 2);
      SandboxRow row =
          sandbox_row("i" + std::to_string(step), "t" + digit, "w-" + std::to_string(random() % 2));
      row.created_by = "k" + digit;
      row.state = kStates[random() % kStates.size()];
      row.cpu_cores = static_cast<double>(random() % 40) / 8 + 0.125;
      row.memory_mb = static_cast<std::int64_t>(random() % 2000);
      row.ended = at(step);
      REQUIRE(world.put(row).has_value());
      rows.insert_or_assign(row.id, row);
    } else {
      auto& row = std::next(rows.begin(), static_cast<long>(random() % rows.size()))->second;
      row.state = kStates[random() % kStates.size()];
      REQUIRE(world.ask([&](Tx& tx) { return tx.update_sandbox(row, std::nullopt); }));
    }
  }
  for (const std::string digit : {"0", "1"}) {
    check_same(world.ask([&](Tx& tx) { return tx.use_of_worker("w-" + digit); }),
               recount(rows_where(rows, &SandboxRow::worker, "w-" + digit)));
    check_same(world.ask([&](Tx& tx) { return tx.use_of_tenant("t" + digit); }),
               recount(rows_where(rows, &SandboxRow::tenant, "t" + digit)));
    check_same(world.ask([&](Tx& tx) { return tx.use_of_key("k" + digit); }),
               recount(rows_where(rows, &SandboxRow::created_by, "k" + digit)));
  }
}

TEST_CASE("a fraction of a thousandth of a core is counted as one, so that nothing is free") {
  StoreWorld world;
  REQUIRE(world.put(worker_row("w-1", "")).has_value());
  SandboxRow row = sandbox_row("i1", "acme", "w-1");
  row.cpu_cores = 0.00001;
  REQUIRE(world.put(row).has_value());
  CHECK(world.ask([](Tx& tx) { return tx.use_of_worker("w-1"); }).cpu_cores == 0.001);
}

TEST_CASE("a store of the first version is counted when it is opened") {
  StoreWorld world;
  world.store.reset();
  const std::string path = world.folder.file("old.db");
  {
    const Schema first{.application_id = kControllerSchema.application_id,
                       .steps = kControllerSchema.steps.first(1)};
    auto file = open_database_file(path, first);
    REQUIRE(file);
    const auto run = [&](const char* sql) { REQUIRE((*file).writer->script(sql).has_value()); };
    run("INSERT INTO worker VALUES ('w-1', '', 'one', 'ready', '', '', 1, 1, 1, 1, '[]', '[]', "
        "'{}', '[]', 0, NULL)");
    for (const char* state : {"running", "pending", "lost"}) {
      run((std::string("INSERT INTO sandbox VALUES ('i-") + state +
           "', 'acme', '', 'w-1', 1, 'running', '" + state +
           "', '', '{}', 'h', '', '', 1.5, 512, 'key1', 0, 0, NULL, NULL)")
              .c_str());
    }
  }
  auto store = open_sqlite(path);
  REQUIRE(store);
  const Status read = (*store)->read([](Tx& tx) -> Status {
    check_same(*tx.use_of_worker("w-1"), {2, 1, 3, 1024});
    check_same(*tx.use_of_tenant("acme"), {2, 1, 3, 1024});
    check_same(*tx.use_of_key("key1"), {2, 1, 3, 1024});
    CHECK((*tx.worker("w-1"))->taints == "[]");
    return {};
  });
  CHECK(read.has_value());
}
