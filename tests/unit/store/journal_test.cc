#include "store/journal.h"

#include "tests/unit/store/store_world.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;         // NOLINT(google-build-using-namespace)
using namespace sandboxkit::store;  // NOLINT(google-build-using-namespace)

namespace {

JournalRow journal_row(const std::string& sandbox) {
  JournalRow row{.sandbox = sandbox, .tenant = "acme", .generation = 2, .state = "creating"};
  row.policy_hash = "policy";
  row.expires = at(50);
  row.updated = at(3);
  return row;
}

}  // namespace

TEST_CASE("a journal keeps the newest row of each sandbox, and keeps it when it is opened again") {
  TemporaryFolder folder;
  {
    auto journal = open_sqlite_journal(folder.file("journal.db"));
    REQUIRE(journal);
    JournalRow row = journal_row("i1");
    REQUIRE((*journal)->put(row).has_value());
    row.state = "running";
    row.reason = "why";
    REQUIRE((*journal)->put(row).has_value());
    REQUIRE((*journal)->put(journal_row("i2")).has_value());
  }
  auto journal = open_sqlite_journal(folder.file("journal.db"));
  REQUIRE(journal);
  const auto found = (*journal)->get("i1");
  REQUIRE(found);
  REQUIRE(*found);
  CHECK((*found)->state == "running");
  CHECK((*found)->reason == "why");
  CHECK((*found)->tenant == "acme");
  CHECK((*found)->generation == 2);
  CHECK((*found)->policy_hash == "policy");
  CHECK((*found)->expires == at(50));
  CHECK((*found)->updated == at(3));
  CHECK((*journal)->all()->size() == 2);
}

TEST_CASE("a sandbox that was erased or never written is a plain miss") {
  TemporaryFolder folder;
  auto journal = open_sqlite_journal(folder.file("journal.db"));
  REQUIRE(journal);
  REQUIRE((*journal)->put(journal_row("i1")).has_value());
  REQUIRE((*journal)->erase("i1").has_value());
  REQUIRE((*journal)->erase("i9").has_value());
  CHECK_FALSE((*journal)->get("i1")->has_value());
  CHECK((*journal)->all()->empty());
}

TEST_CASE("a journal takes only states that it knows and a tenant") {
  TemporaryFolder folder;
  auto journal = open_sqlite_journal(folder.file("journal.db"));
  REQUIRE(journal);
  JournalRow row = journal_row("i1");
  row.state = "flying";
  CHECK_FALSE((*journal)->put(row).has_value());
  row = journal_row("i1");
  row.tenant = "";
  CHECK_FALSE((*journal)->put(row).has_value());
}
