// Workers that are away, come back, or only half there: complaints of docs/field-complaints.md.
#include "tests/unit/control/house.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

std::string id_of(const Answer& made) { return made.body.text("id"); }

std::size_t count_of(const FakeWorker& worker, const std::string& order) {
  const auto orders = worker.orders();
  return static_cast<std::size_t>(std::ranges::count(orders, order));
}

bool is_connected(const House& house, const FakeWorker& worker) {
  return *house.call("GET", "/v1/workers/" + worker.id()).body.find("connected")->as_bool();
}

std::unique_ptr<FakeWorker> second_worker(const House& house) {
  FakeWorker::Options options;
  options.name = "w2";
  return house.worker(options);
}

}  // namespace

// Complaint 22: what is being deleted for hours counts against the limit.
TEST_CASE("a delete whose worker is lost is done without it, and counts no more from then on") {
  House house([](ControllerConfig& config) { config.max_sandboxes_per_workspace = 1; });
  const auto worker = house.worker();
  const std::string id = id_of(house.create());
  worker->disconnect();
  REQUIRE(house.sees(*worker, false));
  const std::string path = "/v1/sandboxes/" + id;
  CHECK(house.call("DELETE", path).status == 202);
  CHECK(house.call("DELETE", path).status == 202);
  CHECK(house.create().error() == "concurrency_limit");  // It may run there yet.
  house.advance(std::chrono::hours(1));
  REQUIRE(House::eventually([&] { return house.state_of(id) == "deleted"; }));
  const auto second = second_worker(house);
  CHECK(house.create().status == 201);
  worker->connect();
  CHECK(worker->wait_until([&] { return !worker->holds(id); }));
}

// Complaint 37: a delete is lost when the process ends after it was accepted.
TEST_CASE("a delete that was accepted is done though the controller ended before it could be") {
  House house;
  const auto worker = house.worker();
  const std::string id = id_of(house.create());
  worker->hold(wire::DeliveryKind::kRemove);
  worker->disconnect();
  REQUIRE(house.sees(*worker, false));
  REQUIRE(house.call("DELETE", "/v1/sandboxes/" + id).status == 202);
  house.restart();
  worker->connect();
  REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
  house.stop();  // The order is under way: it counts as not done until it was answered.
  worker->disconnect();
  house.restart();
  worker->connect();
  REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
  worker->release();
  CHECK(House::eventually([&] { return house.state_of(id) == "deleted"; }));
  CHECK_FALSE(worker->holds(id));
}

// Complaint 44: what still runs is replaced, and the replacement is stopped at once.
// Complaint 48: heartbeats are green while the data path is dead.
TEST_CASE("until a worker's inventory is read nothing is placed there, ordered, or given up") {
  const House house;
  const auto worker = house.worker();
  const std::string kept = id_of(house.create());
  const std::string unwanted = id_of(house.create());
  worker->disconnect();
  REQUIRE(house.sees(*worker, false));
  REQUIRE(house.call("DELETE", "/v1/sandboxes/" + unwanted).status == 202);
  worker->hold_inventories();
  worker->connect();
  REQUIRE(worker->wait_until([&] { return worker->inventories() == 2; }));
  CHECK(worker->heartbeat() == 200);
  CHECK_FALSE(is_connected(house, *worker));
  CHECK(house.create().error() == "no_capacity");
  CHECK(house.state_of(kept) == "running");
  CHECK(count_of(*worker, "remove " + unwanted) == 0);
  worker->release();
  CHECK(worker->wait_until([&] { return !worker->holds(unwanted); }));
  CHECK(house.sees(*worker, true));
  CHECK(house.create().status == 201);
  CHECK(house.state_of(kept) == "running");
  CHECK(count_of(*worker, "create " + kept) == 1);
}

// Complaint 48: heartbeats are green while the data path is dead.
TEST_CASE("a worker that beats without a tunnel is shown as not connected and gets no work") {
  const House house;
  const auto worker = house.worker();
  const std::string id = id_of(house.create());
  worker->disconnect();
  REQUIRE(house.sees(*worker, false));
  for (int i = 0; i < 3; ++i) {
    CHECK(worker->heartbeat() == 200);
    CHECK_FALSE(is_connected(house, *worker));
    const auto refused = house.create();
    CHECK(refused.error() == "no_capacity");
    CHECK(json::dump(*refused.body.find("counts")) == R"({"state":1})");
    CHECK(house.call("POST", "/v1/sandboxes/" + id + "/exec", "{}").error() ==
          "worker_unreachable");
  }
}

// Complaint 45: after a restart the old owner of a connection keeps the new one out for a while.
TEST_CASE("a worker that dials anew gets on the new tunnel what the older one left undone") {
  House house;
  const auto worker = house.worker();
  worker->hold(wire::DeliveryKind::kCreate);
  const std::string id =
      id_of(house.call("POST", "/v1/sandboxes?wait=false", R"({"image": "x", "egress": null})"));
  REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
  worker->connect();  // The older tunnel still stands, with an order under way.
  REQUIRE(worker->wait_until([&] { return count_of(*worker, "create " + id) == 2; }));
  worker->release();
  CHECK(House::eventually([&] { return house.state_of(id) == "running"; }));
  house.restart();  // Nobody waits for the former process's claim on the worker to end.
  worker->connect();
  REQUIRE(house.sees(*worker, true));
  CHECK(house.create().status == 201);
}

// Complaint 47: what is in an error state cannot be stopped.
TEST_CASE("a sandbox is deleted from every state, and then counts no more") {
  const House house([](ControllerConfig& config) { config.max_sandboxes_per_workspace = 1; });
  const auto worker = house.worker();
  const auto remove = [&](const std::string& id) {
    return house.call("DELETE", "/v1/sandboxes/" + id).status;
  };
  const auto pending = [&] {
    worker->hold(wire::DeliveryKind::kCreate);
    const auto made =
        house.call("POST", "/v1/sandboxes?wait=false", R"({"image": "x", "egress": null})");
    REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
    return id_of(made);
  };
  const auto stopping = [&] {
    const std::string id = id_of(house.create());
    worker->disconnect();
    REQUIRE(house.sees(*worker, false));
    REQUIRE(remove(id) == 202);
    return id;
  };
  const auto stopped = [&] {
    const std::string id = id_of(house.create());
    worker->end(id, "timeout");
    REQUIRE(worker->heartbeat() == 200);
    return id;
  };
  const auto lost = [&] {
    const std::string id = id_of(house.create());
    worker->forget(id);
    REQUIRE(worker->heartbeat() == 200);
    REQUIRE(House::eventually([&] { return house.state_of(id) == "lost"; }));
    return id;
  };
  const auto error = [&] {
    worker->refuse_creates(404, "image_not_found", "no image `x` on this worker");
    return house.create().body.text("sandbox");
  };
  struct Row {
    const char* state;
    std::function<std::string()> make;
    int status = 204;
  };
  const std::vector<Row> rows = {
      {"pending", pending},
      {"running", [&] { return id_of(house.create()); }},
      {"stopping", stopping, 202},
      {"stopped", stopped},
      {"lost", lost},
      {"error", error},  // The last one: creates are refused from there on.
  };
  for (const Row& row : rows) {
    CAPTURE(row.state);
    const std::string id = row.make();
    CHECK(house.state_of(id) == row.state);
    CHECK(remove(id) == row.status);
    worker->release();
    if (row.status == 202) {
      worker->connect();
    }
    REQUIRE(House::eventually([&] { return house.state_of(id) == "deleted"; }));
    CHECK(remove(id) == 204);
    REQUIRE(house.sees(*worker, true));
    REQUIRE(worker->heartbeat() == 200);  // Tells of what was made behind the delete's back.
    CHECK(worker->wait_until([&] { return !worker->holds(id); }));
  }
  CHECK(house.call("GET", "/v1/sandboxes").body.find("sandboxes")->as_array()->empty());
}

// Complaint 54: a fleet shares one token, and one of its nodes cannot be revoked.
TEST_CASE("a worker that is removed leaves those that joined with the same token alone") {
  const House house;
  FakeWorker::Options options;
  options.join_token = house.join_token("<owner>", R"({"max_uses": 2})");
  const auto stolen = house.worker(options);
  const std::string lost = id_of(house.create());
  options.name = "w2";
  const auto other = house.worker(options);
  REQUIRE(house.call("DELETE", "/v1/workers/" + stolen->id()).status == 204);
  CHECK(stolen->heartbeat() == 401);
  CHECK(house.call("POST", "/v1/worker/join", R"({"name": "w3"})", options.join_token).status ==
        401);
  CHECK(house.state_of(lost) == "lost");
  CHECK(other->heartbeat() == 200);
  CHECK(is_connected(house, *other));
  const auto made = house.create();
  CHECK(made.status == 201);
  CHECK(made.body.text("worker") == other->id());
  CHECK(house
            .call("GET", "/v1/worker/tunnel", {}, stolen->credential(),
                  {{"Connection", "Upgrade"}, {"Upgrade", "sandboxkit-tunnel/1"}})
            .status == 401);
}
