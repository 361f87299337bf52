#include "tests/unit/control/house.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

TEST_CASE("a create answers with the sandbox once it runs, and a delete once it is gone") {
  const House house;
  const auto worker = house.worker();
  const auto made = house.create(R"("metadata": {"a": "b"}, "timeout_seconds": 60)");
  REQUIRE(made.status == 201);
  const std::string id = made.body.text("id");
  CHECK(id.size() == 21);
  CHECK(made.body.text("state") == "running");
  CHECK(made.body.text("workspace") == "acme");
  CHECK(made.body.text("worker") == worker->id());
  CHECK(made.body.text("policy_hash").size() == 64);
  CHECK(made.body.find("metadata")->text("a") == "b");
  CHECK(worker->holds(id));
  CHECK(house.get(id).body == made.body);

  CHECK(house.call("DELETE", "/v1/sandboxes/" + id).status == 204);
  CHECK_FALSE(worker->holds(id));
  const auto gone = house.get(id);
  CHECK(gone.body.text("state") == "deleted");
  CHECK(gone.body.text("reason").starts_with("deleted by "));
  CHECK(house.call("DELETE", "/v1/sandboxes/" + id).status == 204);
  CHECK(house.call("GET", "/v1/sandboxes").body.find("sandboxes")->as_array()->empty());
}

TEST_CASE("an unwalled sandbox says so") {
  const House house;
  const auto worker = house.worker();
  const auto made = house.call("POST", "/v1/sandboxes", R"({"image": "x", "egress": null})");
  REQUIRE(made.status == 201);
  REQUIRE(made.body.find("egress") != nullptr);
  CHECK(made.body.find("egress")->is_null());
  CHECK(made.body.text("policy_hash").empty());
}

TEST_CASE("a name that an owner wrote in letters is kept and shown in its xn-- form") {
  const House house;
  const auto worker = house.worker();
  const auto made =
      house.call("POST", "/v1/sandboxes",
                 R"({"image": "x", "egress": {"allowed_domains": ["*.bücher.example:8443"]}})");
  REQUIRE(made.status == 201);
  const auto id = made.body.text("id");
  CHECK(json::dump(*house.get(id).body.find("egress")->find("allowed_domains")) ==
        R"(["*.xn--bcher-kva.example:8443"])");
  const auto refused =
      house.call("POST", "/v1/sandboxes",
                 R"({"image": "x", "egress": {"allowed_domains": ["a.test", "ｏk.test"]}})");
  CHECK(refused.status == 400);
  CHECK(refused.body.text("field") == "egress.allowed_domains[1]");
  CHECK(refused.body.text("message").find("write `ok`") != std::string::npos);
}

TEST_CASE("without waiting a create answers at once and runs soon") {
  const House house;
  const auto worker = house.worker();
  worker->hold(wire::DeliveryKind::kCreate);
  const auto made = house.call("POST", "/v1/sandboxes?wait=false",
                               R"({"image": "x", "egress": {"allowed_domains": []}})");
  REQUIRE(made.status == 202);
  CHECK(made.body.text("state") == "pending");
  const std::string id = made.body.text("id");
  REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
  worker->release();
  CHECK(House::eventually([&] { return house.state_of(id) == "running"; }));
}

TEST_CASE("an image that the worker does not have is a refusal that names the field") {
  const House house;
  const auto worker = house.worker();
  worker->refuse_creates(404, "image_not_found", "no image `x` on this worker");
  const auto refused = house.create(R"("name": "x")");
  CHECK(refused.status == 409);
  CHECK(refused.error() == "image_not_found");
  CHECK(refused.body.text("field") == "image");
  CHECK(refused.body.text("message") == "no image `x` on this worker");
  const auto row = house.get(refused.body.text("sandbox"));
  CHECK(row.body.text("state") == "error");
  CHECK(row.body.text("reason").starts_with("image_not_found: "));
}

// Complaint 27: a lost answer makes a second sandbox.
TEST_CASE("the same idempotency key gives the same sandbox, another body is refused") {
  const House house;
  const auto worker = house.worker();
  const std::map<std::string, std::string> key = {{"Idempotency-Key", "round-1"}};
  const auto first = house.create({}, "<owner>", key);
  const auto again = house.create({}, "<owner>", key);
  const auto other = house.create(R"("memory_mb": 600)", "<owner>", key);
  CHECK(first.status == 201);
  CHECK(again.status == 200);
  CHECK(first.body.text("id") == again.body.text("id"));
  CHECK(other.status == 422);
  CHECK(other.error() == "idempotency_mismatch");
  CHECK(worker->orders().size() == 1);

  const std::map<std::string, std::string> bad = {{"Idempotency-Key", std::string(129, 'a')}};
  CHECK(house.create({}, "<owner>", bad).body.text("field") == "Idempotency-Key");
}

// Complaint 27: a lost answer makes a second sandbox.
TEST_CASE("a second create with the key of one that is under way waits for the same sandbox") {
  const House house;
  const auto worker = house.worker();
  worker->hold(wire::DeliveryKind::kCreate);
  const std::map<std::string, std::string> key = {{"Idempotency-Key", "k"}};
  Answer first;
  Answer second;
  std::thread one([&] { first = house.create({}, "<owner>", key); });
  REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
  std::thread two([&] { second = house.create({}, "<owner>", key); });
  worker->release();
  one.join();
  two.join();
  CHECK(first.status == 201);
  CHECK(second.status == 200);
  CHECK(first.body.text("id") == second.body.text("id"));
}

TEST_CASE("a name belongs to one live sandbox of its workspace") {
  const House house;
  const auto worker = house.worker();
  const auto first = house.create(R"("name": "build")");
  const auto again = house.create(R"("name": "build")");
  const auto other = house.create(R"("name": "build", "memory_mb": 600)");
  CHECK(first.status == 201);
  CHECK(again.status == 200);
  CHECK(again.body.text("id") == first.body.text("id"));
  CHECK(other.status == 409);
  CHECK(other.error() == "spec_mismatch");
  CHECK(house.get("build").body.text("id") == first.body.text("id"));
  CHECK(house.call("DELETE", "/v1/sandboxes/build").status == 204);
  const auto next = house.create(R"("name": "build", "memory_mb": 600)");
  CHECK(next.status == 201);
  CHECK(next.body.text("id") != first.body.text("id"));
}

TEST_CASE("fifty creates at once at a limit of five give exactly five") {
  const House house([](ControllerConfig& config) { config.max_sandboxes_per_workspace = 5; });
  const auto worker = house.worker();
  std::atomic<int> made{0};
  std::atomic<int> refused{0};
  std::atomic<int> odd{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 50; ++i) {
    callers.emplace_back([&] {
      const auto answer = house.create();
      if (answer.status == 201) {
        ++made;
      } else if (answer.status == 403 && answer.error() == "concurrency_limit" &&
                 answer.body.integer("limit") == 5 && answer.body.integer("used") == 5) {
        ++refused;
      } else {
        ++odd;
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  CHECK(made == 5);
  CHECK(refused == 45);
  CHECK(odd == 0);
}

// Complaint 5: a fleet with room refuses because too many start at once.
TEST_CASE("more creates than start slots wait for one instead of being refused") {
  const House house;
  FakeWorker::Options options;
  options.max_starting = 1;
  const auto worker = house.worker(options);
  std::atomic<int> made{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 6; ++i) {
    callers.emplace_back([&] { made += house.create().status == 201 ? 1 : 0; });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  CHECK(made == 6);
}

// Complaint 7: pending for ever, though no worker could ever take it.
// Complaint 64: a policy that cannot be enforced is dropped in silence.
TEST_CASE("a refusal for lack of a worker says which kind of lack it is") {
  const House house;
  const auto nobody = house.call("POST", "/v1/sandboxes", R"({"image": "x", "egress": null})");
  CHECK(nobody.status == 503);
  CHECK(nobody.error() == "no_capacity");
  CHECK(nobody.headers.contains("retry-after"));

  FakeWorker::Options options;
  options.capabilities = {};
  const auto worker = house.worker(options);
  const auto no_wall = house.create();
  CHECK(no_wall.status == 409);
  CHECK(no_wall.error() == "worker_capability_unavailable");
  CHECK(no_wall.body.text("missing") == "egress");
  const auto no_disk = house.call("POST", "/v1/sandboxes",
                                  R"({"image": "x", "egress": null, "persistence": "workspace"})");
  CHECK(no_disk.status == 409);
  CHECK(no_disk.body.text("missing") == "persistence");
  CHECK(worker->orders().empty());
}

// Attack 77: what an engine could yesterday says nothing about today.
TEST_CASE("a worker that loses its wall gets no walled sandbox any more, and keeps what it has") {
  const House house;
  const auto worker = house.worker();
  const auto before = house.create();
  REQUIRE(before.status == 201);
  worker->offer({});
  REQUIRE(worker->heartbeat() == 200);
  const auto refused = house.create();
  CHECK(refused.status == 409);
  CHECK(refused.error() == "worker_capability_unavailable");
  CHECK(refused.body.text("missing") == "egress");
  CHECK(worker->orders().size() == 1);
  CHECK(worker->holds(before.body.text("id")));
  CHECK(house.call("POST", "/v1/sandboxes", R"({"image": "x", "egress": null})").status == 201);

  worker->offer({"egress"});
  REQUIRE(worker->heartbeat() == 200);
  CHECK(house.create().status == 201);
}

TEST_CASE("a tenant's sandbox never lands on another tenant's worker") {
  const House house;
  const auto worker = house.worker();
  const std::string rival = house.make_workspace("rival");
  const auto refused = house.create({}, rival);
  CHECK((refused.status == 503 || refused.status == 409));
  CHECK(refused.text.find(worker->id()) == std::string::npos);
  CHECK(refused.text.find("\"w1\"") == std::string::npos);
  CHECK(worker->orders().empty());
  CHECK(house.call("GET", "/v1/workers", {}, rival).body.find("workers")->as_array()->empty());
}

TEST_CASE("an unscoped worker serves every workspace") {
  const House house;
  FakeWorker::Options options;
  options.join_token = house.join_token(house.operator_key(), R"({"workspace": ""})");
  const auto worker = house.worker(options);
  CHECK(house.create().status == 201);
  CHECK(house.create({}, house.make_workspace("rival")).status == 201);
}

// Complaint 5: the wait for a start is bounded, and its end has a name of its own.
TEST_CASE("a create that does not run in time is an error, and is taken back") {
  const House house(
      [](ControllerConfig& config) { config.create_wait = std::chrono::milliseconds(300); });
  const auto worker = house.worker();
  worker->hold(wire::DeliveryKind::kCreate);
  const auto late = house.create();
  CHECK(late.status == 504);
  CHECK(late.error() == "create_timeout");
  const std::string id = late.body.text("sandbox");
  CHECK(worker->wait_until([&] { return worker->orders().size() == 2; }));
  CHECK(House::eventually([&] { return house.state_of(id) == "error"; }));
  CHECK(house.get(id).body.text("reason").starts_with("create_timeout"));
}

// Complaint 6: no way to keep new work off a node.
TEST_CASE("a cordoned worker gets nothing new and keeps what it runs") {
  const House house;
  const auto worker = house.worker();
  const auto made = house.create();
  const std::string path = "/v1/workers/" + worker->id();
  CHECK(house.call("POST", path + "/cordon").body.text("state") == "cordoned");
  CHECK(house.create().error() == "no_capacity");
  CHECK(house.state_of(made.body.text("id")) == "running");
  CHECK(house.call("POST", path + "/uncordon").body.text("state") == "ready");
  CHECK(house.create().status == 201);
}

TEST_CASE("a list comes in pages and by state") {
  const House house;
  const auto worker = house.worker();
  std::set<std::string> made;
  for (int i = 0; i < 5; ++i) {
    made.insert(house.create().body.text("id"));
  }
  std::set<std::string> seen;
  std::string after;
  int pages = 0;
  do {
    const auto page = house.call("GET", "/v1/sandboxes?limit=2&after=" + after);
    REQUIRE(page.status == 200);
    for (const json::Value& each : *page.body.find("sandboxes")->as_array()) {
      seen.insert(each.text("id"));
    }
    after = page.body.text("next");
    ++pages;
  } while (!after.empty() && pages < 10);
  CHECK(pages == 3);
  CHECK(seen == made);
  CHECK(house.call("GET", "/v1/sandboxes?state=pending,stopped")
            .body.find("sandboxes")
            ->as_array()
            ->empty());
  CHECK(house.call("GET", "/v1/sandboxes?state=odd").body.text("field") == "state");
  CHECK(house.call("GET", "/v1/sandboxes?limit=0").body.text("field") == "limit");
  CHECK(house.call("GET", "/v1/sandboxes?colour=red").error() == "unknown_field");
}
