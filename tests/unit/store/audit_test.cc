#include "store/audit_chain.h"
#include "store/database_file.h"
#include "store/rows.h"
#include "tests/unit/store/store_world.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sqlite3.h>

using namespace sandboxkit;         // NOLINT(google-build-using-namespace)
using namespace sandboxkit::store;  // NOLINT(google-build-using-namespace)

namespace {

AuditRow line(int number) {
  AuditRow row;
  row.time = at(1000 * number);
  row.tenant = number % 2 == 0 ? "acme" : "";
  row.actor = "actor" + std::to_string(number);
  row.action = "sandbox.create";
  row.target = "i" + std::to_string(number);
  row.outcome = "done";
  row.address = "127.0.0.1";
  return row;
}

/// A state folder whose log has some rows; somebody with the file in hand may then change it.
struct Log {
  TemporaryFolder folder;
  std::unique_ptr<Store> store;

  explicit Log(int rows = 9) {
    auto opened = open_sqlite(path());
    REQUIRE(opened);
    store = std::move(*opened);
    for (int number = 1; number <= rows; ++number) {
      REQUIRE(store->write([&](Tx& tx) { return tx.insert(line(number)); }).has_value());
    }
  }

  std::string path() const { return folder.file("controller.db"); }
  AuditCheck check() const {
    auto checked = verify_audit(folder.file(""));
    REQUIRE(checked);
    return *checked;
  }
  std::int64_t prune(WallTime before) const {
    std::int64_t removed = 0;
    const Status written = store->write([&](Tx& tx) -> Status {
      auto pruned = tx.prune_audit(before);
      removed = pruned.value_or(-1);
      return pruned ? Status() : Status(pruned.error());
    });
    REQUIRE(written.has_value());
    return removed;
  }
  /// With the library alone, and no trigger in the way: what an attacker would do.
  void tamper(const std::string& sql) {
    store.reset();
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open(path().c_str(), &database) == SQLITE_OK);
    const std::string all =
        "DROP TRIGGER audit_keeps_rows; DROP TRIGGER audit_loses_a_prefix; "
        "DROP TRIGGER audit_anchor_is_a_row; " +
        sql;
    char* problem = nullptr;
    sqlite3_exec(database, all.c_str(), nullptr, nullptr, &problem);
    CHECK(std::string(problem != nullptr ? problem : "") == "");
    sqlite3_free(problem);
    sqlite3_close(database);
  }
};

struct Attack {
  const char* name;
  const char* sql;
  std::int64_t row;
  const char* how;
};

constexpr Attack kAttacks[] = {
    {"changed text", "UPDATE audit SET actor = 'nobody' WHERE seq = 4", 4, "does not fit"},
    {"changed time", "UPDATE audit SET time = time + 1 WHERE seq = 1", 1, "does not fit"},
    {"text moved between columns",
     "UPDATE audit SET actor = actor || substr(action, 1, 1), action = substr(action, 2) "
     "WHERE seq = 5",
     5, "does not fit"},
    {"changed hash", "UPDATE audit SET hash = 'x' WHERE seq = 6", 6, "does not fit"},
    {"changed last row and hash", "UPDATE audit SET actor = 'x', hash = 'y' WHERE seq = 9", 9,
     "does not fit"},
    {"removed", "DELETE FROM audit WHERE seq = 3", 3, "row 3 is missing"},
    {"removed several", "DELETE FROM audit WHERE seq IN (3, 4)", 3, "rows 3 to 4 are missing"},
    {"removed and closed up",
     "DELETE FROM audit WHERE seq = 3; UPDATE audit SET seq = seq - 1 WHERE seq > 3", 3,
     "does not fit"},
    {"removed at the beginning", "DELETE FROM audit WHERE seq < 3", 1, "rows 1 to 2 are missing"},
    {"swapped",
     "UPDATE audit SET seq = 100 WHERE seq = 3; UPDATE audit SET seq = 3 WHERE seq = 4; "
     "UPDATE audit SET seq = 4 WHERE seq = 100",
     3, "does not fit"},
    {"inserted before", "INSERT INTO audit VALUES (0, 1, '', 'a', 'b', 'c', 'done', '', '', 'q')",
     0, "inserted"},
    {"inserted behind", "INSERT INTO audit VALUES (10, 1, '', 'a', 'b', 'c', 'done', '', '', 'q')",
     10, "inserted"},
    {"cut off", "DELETE FROM audit WHERE seq > 6", 7, "rows 7 to 9 are missing at the end"},
    {"cut off, and the head set back",
     "DELETE FROM audit WHERE seq > 6; UPDATE setting SET value = '6 ' || substr(value, 3) "
     "WHERE name = 'audit_head'",
     6, "not the one that was written last"},
    {"emptied", "DELETE FROM audit", 1, "rows 1 to 9 are missing at the end"},
    {"emptied below a false anchor",
     "DELETE FROM audit WHERE seq < 5; INSERT INTO setting VALUES ('audit_anchor', '4 ' || "
     "'0000000000000000000000000000000000000000000000000000000000000000')",
     5, "does not fit"},
    {"a head that is gone", "DELETE FROM setting WHERE name = 'audit_head'", 1, "inserted"},
    {"a head that is no head", "UPDATE setting SET value = 'x' WHERE name = 'audit_head'", 0,
     "cannot be read"},
};

}  // namespace

TEST_CASE("a log that nobody touched is intact, and its last row is its head") {
  const Log log;
  const AuditCheck check = log.check();
  CHECK(check.problem == "");
  CHECK(check.rows == 9);
  CHECK(check.head_seq == 9);
  CHECK(check.head_hash.size() == 64);
}

TEST_CASE("an empty log is intact") {
  const Log log(0);
  CHECK(log.check().intact());
  CHECK(log.check().rows == 0);
}

TEST_CASE("a row that is changed, removed, moved, inserted or cut off is found and named") {
  for (const Attack& attack : kAttacks) {
    Log log;
    log.tamper(attack.sql);
    const AuditCheck check = log.check();
    CAPTURE(attack.name);
    CAPTURE(check.problem);
    CHECK_FALSE(check.intact());
    CHECK(check.broken_row == attack.row);
    CHECK(check.problem.find(attack.how) != std::string::npos);
  }
}

TEST_CASE("every single byte of every row counts") {
  const std::vector<std::function<void(AuditRow&)>> changes = {
      [](AuditRow& row) { row.seq += 1; },       [](AuditRow& row) { row.time += at(1) - at(0); },
      [](AuditRow& row) { row.tenant += 'x'; },  [](AuditRow& row) { row.actor += 'x'; },
      [](AuditRow& row) { row.action += 'x'; },  [](AuditRow& row) { row.target += 'x'; },
      [](AuditRow& row) { row.outcome += 'x'; }, [](AuditRow& row) { row.address += 'x'; },
      [](AuditRow& row) { row.request += 'x'; },
  };
  const AuditRow plain = line(1);
  std::vector<std::string> hashes = {audit_hash("", plain), audit_hash("x", plain)};
  for (const auto& change : changes) {
    AuditRow row = plain;
    change(row);
    hashes.push_back(audit_hash("", row));
  }
  std::ranges::sort(hashes);
  CHECK(std::unique(hashes.begin(), hashes.end()) == hashes.end());
}

TEST_CASE("the hash is the documented one") {
  // printf '0:,1:1,4:1000,0:,6:actor1,14:sandbox.create,2:i1,4:done,9:127.0.0.1,0:,' | sha256sum
  AuditRow row = line(1);
  row.seq = 1;
  CHECK(audit_hash("", row) == "dd0daf2279a495a53ea79de9f0dc629ae920a96df6f21954a158e621638e4e60");
}

TEST_CASE("retention removes a prefix alone, and what is left proves itself") {
  const Log log;
  CHECK(log.prune(at(4000)) == 3);
  AuditCheck check = log.check();
  CHECK(check.problem == "");
  CHECK(check.rows == 6);
  CHECK(log.prune(at(4000)) == 0);
  CHECK(log.prune(at(1'000'000)) == 6);
  CHECK(log.check().intact());
  CHECK(log.check().rows == 0);
  REQUIRE(log.store->write([](Tx& tx) { return tx.insert(line(10)); }).has_value());
  check = log.check();
  CHECK(check.problem == "");
  CHECK(check.head_seq == 10);
}

TEST_CASE("retention keeps an old row that stands behind a younger one") {
  const Log log(0);
  for (const int number : {1, 5, 2}) {
    REQUIRE(log.store->write([&](Tx& tx) { return tx.insert(line(number)); }).has_value());
  }
  CHECK(log.prune(at(3000)) == 1);
  CHECK(log.check().rows == 2);
}

TEST_CASE("a row that retention should have removed, or took too much of, is found") {
  for (const char* sql : {"DELETE FROM audit WHERE seq = 4",
                          "INSERT INTO audit VALUES (2, 1, '', 'a', 'b', 'c', '', '', '', 'q')"}) {
    Log log;
    REQUIRE(log.prune(at(4000)) == 3);
    log.tamper(sql);
    CAPTURE(sql);
    CHECK_FALSE(log.check().intact());
  }
}

TEST_CASE("the tables themselves refuse to change or to lose a row") {
  const Log log;
  REQUIRE(log.prune(at(3000)) == 2);
  auto connection = Connection::open(log.path(), Connection::Mode::kReadWrite);
  REQUIRE(connection);
  for (const char* sql :
       {"UPDATE audit SET actor = 'x' WHERE seq = 5", "DELETE FROM audit WHERE seq = 9",
        "DELETE FROM audit WHERE seq = 3", "DELETE FROM audit",
        "REPLACE INTO setting VALUES ('audit_anchor', '5 x')",
        "REPLACE INTO setting VALUES ('audit_anchor', '99 x')"}) {
    CAPTURE(sql);
    const auto changed = (*connection)->run(sql);
    REQUIRE_FALSE(changed);
    CHECK(changed.error().reason == "audit_append_only");
  }
  CHECK(log.check().rows == 7);
}

TEST_CASE("a write that fails leaves no trace in the chain") {
  const Log log;
  const Status failed = log.store->write([](Tx& tx) -> Status {
    if (auto status = tx.insert(line(10)); !status) {
      return status;
    }
    return Error{ErrorCode::kConflict, "changed its mind"};
  });
  CHECK_FALSE(failed.has_value());
  CHECK(log.check().rows == 9);
  CHECK(log.check().intact());
}

TEST_CASE("nothing is done any more when the log cannot be written on") {
  Log log;
  log.tamper("UPDATE setting SET value = '3 ' || substr(value, 3) WHERE name = 'audit_head'");
  auto opened = open_sqlite(log.path());
  REQUIRE(opened);
  const Status written = (*opened)->write([](Tx& tx) { return tx.insert(line(10)); });
  CHECK(reason(written) == "store_unavailable");
}

TEST_CASE("a tenant's page starts behind a row of its own and shows no other tenant's") {
  const Log log;
  const Status read = log.store->read([](Tx& tx) -> Status {
    const auto all = tx.audit("acme", 0, 100);
    REQUIRE(all);
    REQUIRE(all->size() == 4);
    CHECK(std::ranges::all_of(*all, [](const AuditRow& row) { return row.tenant == "acme"; }));
    const auto second = tx.audit_seq("acme", (*all)[1].hash);
    REQUIRE(second);
    CHECK(*second == (*all)[1].seq);
    CHECK(tx.audit("acme", **second, 100)->size() == 2);
    CHECK_FALSE(tx.audit_seq("rival", (*all)[1].hash)->has_value());
    return {};
  });
  CHECK(read.has_value());
}

TEST_CASE("rows of an older version are chained when the store is opened") {
  const TemporaryFolder folder;
  const std::string path = folder.file("controller.db");
  {
    const Schema second{.application_id = kControllerSchema.application_id,
                        .steps = kControllerSchema.steps.first(2)};
    auto file = open_database_file(path, second);
    REQUIRE(file);
    for (int number = 1; number <= 300; ++number) {
      const AuditRow row = line(number);
      REQUIRE(file->writer
                  ->run("INSERT INTO audit VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", row.time,
                        row.tenant, row.actor, row.action, row.target, row.outcome, row.address)
                  .has_value());
    }
  }
  const auto early = verify_audit(folder.file(""));
  REQUIRE_FALSE(early);
  CHECK(early.error().reason == "store_unavailable");
  {
    auto store = open_sqlite(path);
    REQUIRE(store);
    CHECK((*store)->write([](Tx& tx) { return tx.insert(line(301)); }).has_value());
  }
  const auto check = verify_audit(folder.file(""));
  REQUIRE(check);
  CHECK(check->problem == "");
  CHECK(check->rows == 301);
}

TEST_CASE("verifying writes nothing, and works beside an open store and on a closed one") {
  Log log;
  const auto content = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(log.folder.file(""))) {
      names.push_back(entry.path().filename().string() + " " + std::to_string(entry.file_size()) +
                      " " + std::to_string(entry.last_write_time().time_since_epoch().count()));
    }
    std::ranges::sort(names);
    return names;
  };
  const auto before = content();
  CHECK(log.check().rows == 9);
  CHECK(content() == before);
  log.store.reset();
  CHECK(log.check().rows == 9);
}

TEST_CASE("a folder without a store is said to have none") {
  const TemporaryFolder folder;
  const auto check = verify_audit(folder.file(""));
  REQUIRE_FALSE(check);
  CHECK(check.error().code == ErrorCode::kNotFound);
}
