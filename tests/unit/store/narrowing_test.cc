#include "store/database_file.h"
#include "store/schema.h"
#include "tests/unit/store/store_world.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;         // NOLINT(google-build-using-namespace)
using namespace sandboxkit::store;  // NOLINT(google-build-using-namespace)

namespace {

SecretRow secret_row(const std::string& sandbox, const std::string& name) {
  return {sandbox, name, "a.test", "header", "Authorization", "c2VhbGVk", at(9)};
}

}  // namespace

TEST_CASE("what a wall is narrowed to, and how it is made, reads back") {
  StoreWorld world;
  REQUIRE(world.put(worker_row("w-1", "acme")).has_value());
  SandboxRow row = sandbox_row("i1", "acme", "w-1");
  REQUIRE(world.put(row).has_value());
  row.narrowing = R"({"allowed_domains":[]})";
  row.narrowing_hash = "h2";
  row.narrowing_state = "pending";
  row.structure = "isolated-ns";
  CHECK(world.ask([&](Tx& tx) { return tx.update_sandbox(row, "pending"); }));
  const auto back = world.ask([](Tx& tx) { return tx.sandbox("acme", "i1"); });
  CHECK(back->narrowing == row.narrowing);
  CHECK(back->narrowing_hash == "h2");
  CHECK(back->narrowing_state == "pending");
  CHECK(back->structure == "isolated-ns");
}

TEST_CASE("a queued order of a kind is found and dropped, and those of others stay") {
  StoreWorld world;
  REQUIRE(world.put(DeliveryRow{0, "w-1", "i1", 1, "narrow"}).has_value());
  REQUIRE(world.put(DeliveryRow{0, "w-1", "i1", 1, "lend"}).has_value());
  CHECK(world.ask([](Tx& tx) { return tx.has_delivery("i1", "narrow"); }));
  CHECK_FALSE(world.ask([](Tx& tx) { return tx.has_delivery("i2", "narrow"); }));
  REQUIRE(world.store->write([](Tx& tx) { return tx.drop_deliveries("i1", "narrow"); }));
  CHECK_FALSE(world.ask([](Tx& tx) { return tx.has_delivery("i1", "narrow"); }));
  CHECK(world.ask([](Tx& tx) { return tx.has_delivery("i1", "lend"); }));
}

TEST_CASE("secrets of a sandbox are rotated by name, and go when it ends") {
  StoreWorld world;
  REQUIRE(world.put(worker_row("w-1", "acme")).has_value());
  SandboxRow row = sandbox_row("i1", "acme", "w-1");
  row.state = "running";
  REQUIRE(world.put(row).has_value());
  REQUIRE(world.put(secret_row("i1", "B")).has_value());
  REQUIRE(world.put(secret_row("i1", "A")).has_value());
  CHECK(world.ask([](Tx& tx) { return tx.borrowers("w-1"); }) == std::vector<std::string>{"i1"});
  CHECK(world.ask([](Tx& tx) { return tx.borrowers("w-2"); }).empty());
  SecretRow rotated = secret_row("i1", "A");
  rotated.sealed = "bmV4dA==";
  rotated.expires.reset();
  rotated.domain = "evil.test";
  CHECK(world.ask([&](Tx& tx) { return tx.rotate_secret(rotated); }));
  rotated.name = "C";
  CHECK_FALSE(world.ask([&](Tx& tx) { return tx.rotate_secret(rotated); }));
  const auto rows = world.ask([](Tx& tx) { return tx.secrets("i1"); });
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].name == "A");
  CHECK(rows[0].sealed == "bmV4dA==");
  CHECK(rows[0].domain == "a.test");
  CHECK_FALSE(rows[0].expires.has_value());
  CHECK(rows[1].expires == at(9));
  row.state = "lost";
  CHECK(world.ask([&](Tx& tx) { return tx.update_sandbox(row, "running"); }));
  CHECK(world.ask([](Tx& tx) { return tx.secrets("i1"); }).size() == 2);
  row.state = "deleted";
  CHECK(world.ask([&](Tx& tx) { return tx.update_sandbox(row, "lost"); }));
  CHECK(world.ask([](Tx& tx) { return tx.secrets("i1"); }).empty());
}

TEST_CASE("orders of a store of the third version stay, and their numbers go on") {
  StoreWorld world;
  world.store.reset();
  const std::string path = world.folder.file("old.db");
  {
    const Schema third{.application_id = kControllerSchema.application_id,
                       .steps = kControllerSchema.steps.first(3)};
    auto file = open_database_file(path, third);
    REQUIRE(file);
    const auto run = [&](const char* sql) { REQUIRE((*file).writer->script(sql).has_value()); };
    run("INSERT INTO delivery VALUES (7, 'w-1', 'i1', 2, 'remove', 'queued', 3, 1, 2, 'trace')");
    run("INSERT INTO delivery VALUES (9, 'w-1', 'i1', 2, 'renew', 'done', 0, 1, 2, '')");
    run("DELETE FROM delivery WHERE seq = 9");
  }
  auto store = open_sqlite(path);
  REQUIRE(store);
  REQUIRE((*store)->write([](Tx& tx) {
    return tx.insert(DeliveryRow{0, "w-1", "i2", 1, "narrow"});
  }));
  const Status read = (*store)->read([](Tx& tx) -> Status {
    const auto due = *tx.due_deliveries("w-1", at(10), 10);
    REQUIRE(due.size() == 2);
    CHECK(due[0].seq == 7);
    CHECK(due[0].attempts == 3);
    CHECK(due[0].trace == "trace");
    CHECK(due[1].seq == 10);
    return {};
  });
  CHECK(read.has_value());
}
