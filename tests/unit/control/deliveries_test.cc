#include "base/text.h"
#include "tests/unit/control/house.h"

#include <algorithm>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

std::size_t count_of(const FakeWorker& worker, const std::string& order) {
  const auto orders = worker.orders();
  return static_cast<std::size_t>(std::ranges::count(orders, order));
}

}  // namespace

TEST_CASE("a create that was under way when the controller ended is sent again by the next one") {
  House house;
  const auto worker = house.worker();
  worker->hold(wire::DeliveryKind::kCreate);
  const auto made =
      house.call("POST", "/v1/sandboxes?wait=false", R"({"image": "x", "egress": null})");
  const std::string id = made.body.text("id");
  REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
  house.stop();
  worker->disconnect();
  house.restart();
  worker->connect();
  REQUIRE(worker->wait_until([&] { return count_of(*worker, "create " + id) == 2; }));
  worker->release();
  CHECK(House::eventually([&] { return house.state_of(id) == "running"; }));
}

// Complaint 29: a restart empties the list.
TEST_CASE("sandboxes run on over a restart of the controller, and keys stay good") {
  House house;
  const auto worker = house.worker();
  const std::string id = house.create().body.text("id");
  house.restart();
  CHECK(house.state_of(id) == "running");
  worker->connect();
  REQUIRE(house.sees(*worker, true));
  CHECK(house.call("POST", "/v1/sandboxes/" + id + "/exec", R"({"command": ["true"]})").status ==
        200);
  CHECK(worker->orders().size() == 1);
}

TEST_CASE("a delete while the worker is away is recorded, and done at its return") {
  const House house;
  const auto worker = house.worker();
  const std::string id = house.create().body.text("id");
  worker->disconnect();
  REQUIRE(house.sees(*worker, false));
  const auto recorded = house.call("DELETE", "/v1/sandboxes/" + id);
  CHECK(recorded.status == 202);
  CHECK(recorded.body.text("state") == "stopping");
  CHECK(worker->holds(id));
  worker->connect();
  CHECK(worker->wait_until([&] { return !worker->holds(id); }));
  CHECK(House::eventually([&] { return house.state_of(id) == "deleted"; }));
}

TEST_CASE("a delete does not wait for the create that it supersedes") {
  const House house;
  const auto worker = house.worker();
  worker->hold(wire::DeliveryKind::kCreate);
  const std::string id =
      house.call("POST", "/v1/sandboxes?wait=false", R"({"image": "x", "egress": null})")
          .body.text("id");
  REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
  CHECK(house.call("DELETE", "/v1/sandboxes/" + id).status == 204);
  worker->release();  // The create's late answer changes nothing.
  const std::string other = house.create().body.text("id");
  CHECK(house.state_of(other) == "running");
  CHECK(house.state_of(id) == "deleted");
}

TEST_CASE("a sandbox that ended by itself is told by the heartbeat with its reason") {
  const House house;
  const auto worker = house.worker();
  const std::string id = house.create().body.text("id");
  worker->end(id, "timeout");
  CHECK(worker->heartbeat() == 200);
  const auto row = house.get(id);
  CHECK(row.body.text("state") == "stopped");
  CHECK(row.body.text("reason") == "timeout");
  const auto refused = house.call("POST", "/v1/sandboxes/" + id + "/exec", "{}");
  CHECK(refused.status == 409);
  CHECK(refused.error() == "sandbox_not_running");
  CHECK(refused.body.text("message").find("timeout") != std::string::npos);
  CHECK(refused.body.text("reason") == "timeout");
}

// Complaint 33: said to run, but there is no container.
TEST_CASE("a sandbox that is missing on its worker is lost once the inventory agrees") {
  const House house;
  const auto worker = house.worker();
  const std::string id = house.create().body.text("id");
  worker->forget(id);
  CHECK(worker->heartbeat() == 200);
  CHECK(House::eventually([&] { return house.state_of(id) == "lost"; }));
  CHECK(house.get(id).body.text("reason") == "missing on its worker");
  const auto refused = house.call("POST", "/v1/sandboxes/" + id + "/exec", "{}");
  CHECK(refused.status == 409);
  CHECK(refused.error() == "sandbox_not_running");
  CHECK(refused.body.text("reason") == "missing on its worker");
}

TEST_CASE("what a returning worker runs without a row, or against it, is removed") {
  const House house;
  const auto worker = house.worker();
  const std::string id = house.create().body.text("id");
  worker->disconnect();
  REQUIRE(house.sees(*worker, false));
  CHECK(house.call("DELETE", "/v1/sandboxes/" + id).status == 202);
  worker->connect();
  CHECK(worker->wait_until([&] { return !worker->holds(id); }));
}

// Complaint 42: what was replaced still runs on the client that was lost.
TEST_CASE("a worker that stays away loses its sandboxes, and gets them back when it returns") {
  const House house([](ControllerConfig& config) {
    config.unreachable_after = std::chrono::milliseconds(1500);
    config.lost_after = std::chrono::milliseconds(2000);
  });
  const auto worker = house.worker();
  const std::string kept = house.create().body.text("id");
  CHECK(worker->heartbeat() == 200);
  const std::string taken = house.create(R"("name": "build")").body.text("id");
  worker->disconnect();
  REQUIRE(House::eventually([&] { return house.state_of(kept) == "lost"; }));
  CHECK(house.get(kept).body.text("reason") == "worker lost");
  CHECK(house.call("GET", "/v1/workers/" + worker->id()).body.text("state") == "lost");
  CHECK(house.create().error() == "no_capacity");

  FakeWorker::Options options;
  options.name = "w2";
  const auto second = house.worker(options);
  const auto replaced = house.create(R"("name": "build")");
  REQUIRE(replaced.status == 201);

  worker->connect();
  CHECK(House::eventually([&] { return house.state_of(kept) == "running"; }));
  CHECK(worker->wait_until([&] { return !worker->holds(taken); }));
  CHECK(house.state_of(taken) == "lost");
  CHECK(house.state_of(replaced.body.text("id")) == "running");
}

TEST_CASE("a renewal moves the end on the worker before it is answered") {
  const House house;
  const auto worker = house.worker();
  const auto made = house.create(R"("timeout_seconds": 30)");
  const std::string id = made.body.text("id");
  const auto renewed =
      house.call("POST", "/v1/sandboxes/" + id + "/timeout", R"({"timeout_seconds": 600})");
  REQUIRE(renewed.status == 200);
  CHECK(renewed.body.text("expires_at") > made.body.text("expires_at"));
  REQUIRE(worker->expiry_of(id));
  CHECK(to_rfc3339(*worker->expiry_of(id)) == renewed.body.text("expires_at"));
  CHECK(house.call("POST", "/v1/sandboxes/" + id + "/timeout", R"({"timeout_seconds": 0})")
            .body.text("field") == "timeout_seconds");
}

// Complaint 32: a renewal races the end that it wants to move.
TEST_CASE("a renewal that comes after the end says that the sandbox is not running") {
  const House house;
  const auto worker = house.worker();
  const std::string id = house.create().body.text("id");
  worker->end(id, "timeout");
  const auto late =
      house.call("POST", "/v1/sandboxes/" + id + "/timeout", R"({"timeout_seconds": 600})");
  CHECK(late.status == 409);
  CHECK(late.error() == "sandbox_not_running");
  CHECK(house.get(id).body.text("reason") == "timeout");
}

TEST_CASE("a worker that refuses for now is asked again until the create's time is over") {
  const House house;
  const auto worker = house.worker();
  worker->refuse_creates(503, "engine_unavailable", "the engine does not answer");
  const auto made =
      house.call("POST", "/v1/sandboxes?wait=false", R"({"image": "x", "egress": null})");
  const std::string create = "create " + made.body.text("id");
  CHECK(worker->wait_until([&] { return count_of(*worker, create) >= 3; }));
  CHECK(house.state_of(made.body.text("id")) == "pending");
}

TEST_CASE("a stop answers the creates that wait, and they go on after the restart") {
  House house;
  const auto worker = house.worker();
  worker->hold(wire::DeliveryKind::kCreate);
  Answer waiting;
  std::thread caller([&] { waiting = house.create(R"("name": "build")"); });
  REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
  house.stop();
  caller.join();
  CHECK(waiting.status == 503);
  CHECK(waiting.error() == "overloaded");
  worker->disconnect();
  house.restart();
  worker->connect();
  REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
  worker->release();
  CHECK(House::eventually([&] { return house.state_of("build") == "running"; }));
}

TEST_CASE("a create that runs within the grace of a stop is answered, and no new call is taken") {
  House house([](ControllerConfig& config) { config.shutdown_grace = std::chrono::seconds(30); });
  const auto worker = house.worker();
  worker->hold(wire::DeliveryKind::kCreate);
  Answer waiting;
  std::thread caller([&] { waiting = house.create(R"("name": "build")"); });
  REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
  std::thread stopper([&] { house.stop(); });
  CHECK(House::eventually([&] { return house.call("GET", "/healthz").status != 200; }));
  worker->release();
  caller.join();
  stopper.join();
  CHECK(waiting.status == 201);
  CHECK(waiting.body.text("state") == "running");
  house.restart();
  CHECK(house.state_of("build") == "running");
}
