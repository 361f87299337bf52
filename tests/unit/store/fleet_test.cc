#include "tests/unit/store/store_world.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;         // NOLINT(google-build-using-namespace)
using namespace sandboxkit::store;  // NOLINT(google-build-using-namespace)

namespace {

CredentialRow credential_row(const std::string& id, const std::string& kind,
                             const std::string& tenant) {
  CredentialRow row{.id = id, .kind = kind, .secret_hash = "hash-" + id};
  row.tenant = tenant;
  row.created = at(1);
  return row;
}

}  // namespace

TEST_CASE("a workspace reads back, and its id is taken once") {
  StoreWorld world;
  REQUIRE(
      world.put(WorkspaceRow{.id = "acme", .name = "Acme", .created = at(5), .max_sandboxes = 7})
          .has_value());
  const auto found = world.ask([](Tx& tx) { return tx.workspace("acme"); });
  REQUIRE(found);
  CHECK(found->name == "Acme");
  CHECK(found->created == at(5));
  CHECK(found->max_sandboxes == 7);
  CHECK_FALSE(world.ask([](Tx& tx) { return tx.workspace("other"); }).has_value());
  const Status again = world.put(WorkspaceRow{.id = "acme", .name = "Other"});
  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::kConflict);
  CHECK(world.ask([](Tx& tx) { return tx.workspaces(); }).size() == 1);
}

TEST_CASE("a credential reads back every column") {
  StoreWorld world;
  CredentialRow row = credential_row("k1", "sk", "acme");
  row.role = "owner";
  row.name = "laptop";
  row.worker = "w-1";
  row.uses_left = 3;
  row.expires = at(9);
  REQUIRE(world.put(row).has_value());
  const auto found = world.ask([](Tx& tx) { return tx.credential("k1"); });
  REQUIRE(found);
  CHECK(found->kind == "sk");
  CHECK(found->secret_hash == "hash-k1");
  CHECK(found->tenant == "acme");
  CHECK(found->role == "owner");
  CHECK(found->name == "laptop");
  CHECK(found->worker == "w-1");
  CHECK(found->uses_left == 3);
  CHECK(found->created == at(1));
  CHECK(found->expires == at(9));
  CHECK_FALSE(found->last_used.has_value());
  CHECK_FALSE(found->revoked.has_value());
}

TEST_CASE("a credential without a hash or of an unknown kind is not taken") {
  StoreWorld world;
  CredentialRow row = credential_row("k1", "sk", "acme");
  row.secret_hash = "";
  CHECK_FALSE(world.put(row).has_value());
  CHECK_FALSE(world.put(credential_row("k2", "xx", "acme")).has_value());
}

TEST_CASE("only the tenant's own credential of that kind is revoked, once") {
  StoreWorld world;
  REQUIRE(world.put(credential_row("k1", "sk", "acme")).has_value());
  const auto revoke = [&](const char* kind, const char* tenant) {
    return world.ask([&](Tx& tx) { return tx.revoke_credential(kind, tenant, "k1", at(4)); });
  };
  CHECK_FALSE(revoke("sk", "other"));
  CHECK_FALSE(revoke("wk", "acme"));
  CHECK(world.ask([](Tx& tx) { return tx.credentials("sk", "acme"); }).size() == 1);
  CHECK(revoke("sk", "acme"));
  CHECK_FALSE(revoke("sk", "acme"));
  CHECK(world.ask([](Tx& tx) { return tx.credentials("sk", "acme"); }).empty());
  CHECK(world.ask([](Tx& tx) { return tx.credential("k1"); })->revoked == at(4));
}

TEST_CASE("credentials are listed by kind and tenant, the tenant-less ones by themselves") {
  StoreWorld world;
  REQUIRE(world.put(credential_row("k1", "sk", "acme")).has_value());
  REQUIRE(world.put(credential_row("k2", "jn", "acme")).has_value());
  REQUIRE(world.put(credential_row("k3", "jn", "")).has_value());
  CHECK(world.ask([](Tx& tx) { return tx.credentials("jn", "acme"); }).front().id == "k2");
  CHECK(world.ask([](Tx& tx) { return tx.credentials("jn", ""); }).front().id == "k3");
  REQUIRE(world.store->write([](Tx& tx) { return tx.touch_credential("k1", at(8)); }));
  CHECK(world.ask([](Tx& tx) { return tx.credential("k1"); })->last_used == at(8));
}

TEST_CASE("a join token is used as often as it says and not when it is revoked") {
  StoreWorld world;
  CredentialRow token = credential_row("t1", "jn", "acme");
  token.uses_left = 2;
  REQUIRE(world.put(token).has_value());
  CredentialRow key = credential_row("k1", "sk", "acme");
  key.uses_left = 2;
  REQUIRE(world.put(key).has_value());
  const auto use = [&](const char* id) {
    return world.ask([&](Tx& tx) { return tx.use_join_token(id); });
  };
  CHECK(use("t1"));
  CHECK(use("t1"));
  CHECK_FALSE(use("t1"));
  CHECK_FALSE(use("k1"));
  CHECK_FALSE(use("absent"));
  token.id = "t2";
  token.revoked = at(1);
  REQUIRE(world.put(token).has_value());
  CHECK_FALSE(use("t2"));
}

TEST_CASE("a heartbeat replaces what a worker may tell and nothing else") {
  StoreWorld world;
  WorkerRow row = worker_row("w-1", "acme");
  row.name = "node";
  REQUIRE(world.put(row).has_value());
  CHECK(world.ask([](Tx& tx) { return tx.set_worker_state("w-1", "cordoned"); }));
  CHECK_FALSE(world.ask([](Tx& tx) { return tx.set_worker_state("w-9", "cordoned"); }));
  WorkerRow told = worker_row("w-1", "other");
  told.arch = "arm64";
  told.engine = "docker 20";
  told.cpu_cores = 2.5;
  told.memory_mb = 4096;
  told.max_sandboxes = 9;
  told.max_starting = 3;
  told.capabilities = R"(["egress"])";
  told.runtimes = R"(["runc"])";
  told.labels = R"({"zone":"a"})";
  told.images = R"(["base"])";
  told.last_heartbeat = at(77);
  REQUIRE(world.store->write([&](Tx& tx) { return tx.update_heartbeat(told); }).has_value());
  const auto found = world.ask([](Tx& tx) { return tx.worker("w-1"); });
  REQUIRE(found);
  CHECK(found->tenant == "acme");
  CHECK(found->name == "node");
  CHECK(found->state == "cordoned");
  CHECK(found->joined == at(1));
  CHECK(found->arch == "arm64");
  CHECK(found->engine == "docker 20");
  CHECK(found->cpu_cores == 2.5);
  CHECK(found->memory_mb == 4096);
  CHECK(found->max_sandboxes == 9);
  CHECK(found->max_starting == 3);
  CHECK(found->capabilities == R"(["egress"])");
  CHECK(found->runtimes == R"(["runc"])");
  CHECK(found->labels == R"({"zone":"a"})");
  CHECK(found->images == R"(["base"])");
  CHECK(found->last_heartbeat == at(77));
  told.id = "w-9";
  CHECK(reason(world.store->write([&](Tx& tx) { return tx.update_heartbeat(told); })) ==
        "worker_not_found");
}

TEST_CASE("a worker's name is taken once in its workspace, and once in the unscoped fleet") {
  StoreWorld world;
  const auto join = [&](const std::string& id, const std::string& tenant) {
    WorkerRow row = worker_row(id, tenant);
    row.name = "build";
    return reason(world.put(row));
  };
  CHECK(join("w-1", "acme") == "ok");
  CHECK(join("w-2", "acme") == "name_taken");
  CHECK(join("w-3", "rival") == "ok");
  CHECK(join("w-4", "") == "ok");
  CHECK(join("w-5", "") == "name_taken");
}

TEST_CASE("a tenant sees its own workers and, where asked for, the unscoped ones") {
  StoreWorld world;
  REQUIRE(world.put(worker_row("w-own", "acme")).has_value());
  REQUIRE(world.put(worker_row("w-free", "")).has_value());
  REQUIRE(world.put(worker_row("w-other", "other")).has_value());
  const auto count = [&](const char* tenant, bool unscoped) {
    return world.ask([&](Tx& tx) { return tx.workers(tenant, unscoped); }).size();
  };
  CHECK(count("acme", false) == 1);
  CHECK(count("acme", true) == 2);
  CHECK(count("third", false) == 0);
  CHECK(count("third", true) == 1);
  CHECK(count("", true) == 1);
  CHECK(world.ask([](Tx& tx) { return tx.all_workers(); }).size() == 3);
  REQUIRE(world.store->write([](Tx& tx) { return tx.remove_worker("w-own"); }).has_value());
  CHECK_FALSE(world.ask([](Tx& tx) { return tx.worker("w-own"); }).has_value());
}

TEST_CASE("the audit log is read by tenant in pages and in order") {
  StoreWorld world;
  for (const char* tenant : {"acme", "other", "acme", "acme"}) {
    AuditRow row;
    row.tenant = tenant;
    row.time = at(2);
    row.actor = "key";
    row.action = "sandbox.create";
    row.target = "i1";
    row.outcome = "ok";
    row.address = "127.0.0.1";
    REQUIRE(world.put(row).has_value());
  }
  const auto page = world.ask([](Tx& tx) { return tx.audit("acme", 0, 2); });
  REQUIRE(page.size() == 2);
  CHECK(page[0].seq < page[1].seq);
  CHECK(page[0].time == at(2));
  CHECK(page[0].actor == "key");
  CHECK(page[0].action == "sandbox.create");
  CHECK(page[0].target == "i1");
  CHECK(page[0].outcome == "ok");
  CHECK(page[0].address == "127.0.0.1");
  CHECK(world.ask([&](Tx& tx) { return tx.audit("acme", page[1].seq, 9); }).size() == 1);
}

TEST_CASE("an idempotency key belongs to its tenant and is taken once") {
  StoreWorld world;
  IdempotencyRow row{.tenant = "acme", .key = "k", .request_hash = "h", .sandbox = "i1"};
  row.created = at(6);
  REQUIRE(world.put(row).has_value());
  CHECK(reason(world.put(row)) == "already_exists");
  const auto found = world.ask([](Tx& tx) { return tx.idempotency("acme", "k"); });
  REQUIRE(found);
  CHECK(found->request_hash == "h");
  CHECK(found->sandbox == "i1");
  CHECK(found->created == at(6));
  CHECK_FALSE(world.ask([](Tx& tx) { return tx.idempotency("other", "k"); }).has_value());
}

TEST_CASE("a setting reads as empty until it is set, and is replaced") {
  StoreWorld world;
  CHECK(world.ask([](Tx& tx) { return tx.setting("a"); }).empty());
  REQUIRE(world.store->write([](Tx& tx) { return tx.set_setting("a", "1"); }).has_value());
  REQUIRE(world.store->write([](Tx& tx) { return tx.set_setting("a", "2"); }).has_value());
  CHECK(world.ask([](Tx& tx) { return tx.setting("a"); }) == "2");
}

TEST_CASE("a worker of another tenant is a plain miss, and one without a tenant is seen by all") {
  StoreWorld world;
  for (const auto& [id, tenant] : {std::pair("w-1", "acme"), std::pair("w-2", "")}) {
    REQUIRE(world.put(worker_row(id, tenant)).has_value());
  }
  const auto sees = [&](const char* tenant, const char* id) {
    return world.ask([&](Tx& tx) { return tx.visible_worker(tenant, id); }).has_value();
  };
  CHECK(sees("acme", "w-1"));
  CHECK(sees("acme", "w-2"));
  CHECK(sees("rival", "w-2"));
  CHECK_FALSE(sees("rival", "w-1"));
  CHECK_FALSE(sees("", "w-1"));
  CHECK_FALSE(sees("acme", "w-3"));
}

TEST_CASE("a renewal that was not used gives way to the next, and its first use ends the old one") {
  StoreWorld world;
  const auto credential = [](const std::string& id, const std::string& replaces) {
    CredentialRow row{.id = id, .kind = "wk", .secret_hash = id};
    row.worker = "w-1";
    row.expires = at(100);
    row.replaces = replaces;
    return row;
  };
  const auto live = [&] {
    std::vector<std::string> ids;
    for (const CredentialRow& row : world.ask([](Tx& tx) { return tx.credentials("wk", ""); })) {
      ids.push_back(row.id);
    }
    return ids;
  };
  REQUIRE(world.put(credential("a", "")).has_value());
  for (const char* id : {"b", "c"}) {
    REQUIRE(world.store->write([&](Tx& tx) { return tx.insert_renewal(credential(id, "a")); })
                .has_value());
  }
  CHECK(live() == std::vector<std::string>{"a", "c"});
  for (int i = 0; i < 2; ++i) {
    REQUIRE(world.store->write([&](Tx& tx) { return tx.settle_renewal("c", at(50)); }).has_value());
    CHECK(live() == std::vector<std::string>{"c"});
  }
  CHECK(world.ask([](Tx& tx) { return tx.has_live_credential("w-1", at(99)); }));
  CHECK_FALSE(world.ask([](Tx& tx) { return tx.has_live_credential("w-1", at(100)); }));
  CHECK_FALSE(world.ask([](Tx& tx) { return tx.has_live_credential("w-2", at(1)); }));
}
