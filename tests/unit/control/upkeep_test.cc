#include "tests/unit/control/house.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

std::string worker_path(const FakeWorker& worker, const std::string& rest = {}) {
  return "/v1/workers/" + worker.id() + rest;
}

}  // namespace

TEST_CASE("a drain without a deadline gives nothing new and lets what runs end by itself") {
  const House house;
  const auto worker = house.worker();
  const std::string id = house.create().body.text("id");
  const auto drained = house.call("POST", worker_path(*worker, "/drain"), "{}");
  REQUIRE(drained.status == 200);
  CHECK(drained.body.text("state") == "draining");
  CHECK(drained.body.find("drain")->integer("remaining") == 1);
  CHECK(house.create().error() == "no_capacity");
  CHECK(house.state_of(id) == "running");
  CHECK(house.call("DELETE", "/v1/sandboxes/" + id).status == 204);
  const auto done = house.call("GET", worker_path(*worker));
  CHECK(done.body.find("drain")->integer("remaining") == 0);
  CHECK(house.call("POST", worker_path(*worker, "/uncordon")).body.find("drain")->is_null());
  CHECK(house.create().status == 201);
}

TEST_CASE("at the deadline of a drain what runs is stopped, and its tombstone says why") {
  const House house([](ControllerConfig& config) {
    config.create_wait = std::chrono::milliseconds(1000);  // The sweep looks four times as often.
  });
  const auto worker = house.worker();
  const std::string id = house.create().body.text("id");
  CHECK(house.call("POST", worker_path(*worker, "/drain"), R"({"deadline_seconds": 0})").status ==
        200);
  CHECK(worker->wait_until([&] { return !worker->holds(id); }));
  CHECK(House::eventually([&] { return house.state_of(id) == "deleted"; }));
  CHECK(house.get(id).body.text("reason") == "drained");
  CHECK(house.call("POST", worker_path(*worker, "/drain"), R"({"deadline_seconds": -1})")
            .body.text("field") == "deadline_seconds");
}

TEST_CASE("a tainted worker runs only what tolerates its taints") {
  const House house;
  const auto worker = house.worker();
  const auto tainted =
      house.call("PUT", worker_path(*worker, "/taints"), R"({"taints": ["gpu-only"]})");
  REQUIRE(tainted.status == 200);
  const auto refused = house.create();
  CHECK(refused.status == 409);
  CHECK(refused.body.text("missing") == "toleration:gpu-only");
  const auto made = house.create(R"("tolerations": ["gpu-only", "other"])");
  CHECK(made.status == 201);
  CHECK(made.body.find("tolerations")->as_array()->size() == 2);
  CHECK(house.create(R"("tolerations": ["no good"])").body.text("field") == "tolerations[0]");
  CHECK(house.call("PUT", worker_path(*worker, "/taints"), "{}").body.text("field") == "taints");
  CHECK(house.call("PUT", worker_path(*worker, "/taints"), R"({"taints": ["\u0007"]})").status ==
        400);
  CHECK(house.call("PUT", worker_path(*worker, "/taints"), R"({"taints": []})").status == 200);
  CHECK(house.create().status == 201);
}

// Complaint 10: a burst on one engine; the scheduler avoids a worker that says that it is unwell.
TEST_CASE("a worker that complains gets nothing new, says why, and is used again when it is well") {
  const House house;
  const auto worker = house.worker();
  const std::string id = house.create().body.text("id");
  worker->complain("the engine does not answer");
  CHECK(worker->heartbeat() == 200);
  const auto seen = house.call("GET", worker_path(*worker));
  CHECK(seen.body.text("state") == "unhealthy");
  CHECK(seen.body.text("problem") == "the engine does not answer");
  CHECK(house.create().error() == "no_capacity");
  CHECK(house.state_of(id) == "running");
  worker->complain("");
  CHECK(worker->heartbeat() == 200);
  CHECK(house.create().status == 201);
}

// Complaint 23: limits are configuration, and the refusal names the limit, the use, the setting.
TEST_CASE("a workspace's limits on cores and memory are kept, named, and changed by the operator") {
  const House house;
  const auto worker = house.worker();
  const auto limit = [&](const std::string& body) {
    return house.call("PUT", "/v1/workspaces/acme/limits", body, house.operator_key());
  };
  CHECK(limit(R"({"max_cpu_cores": 2.5, "max_memory_mb": 2048})").status == 200);
  CHECK(house.create(R"("cpu_cores": 2)").status == 201);
  const auto cores = house.create(R"("cpu_cores": 0.6)");
  CHECK(cores.status == 403);
  CHECK(cores.error() == "concurrency_limit");
  CHECK(cores.body.text("resource") == "cpu_cores");
  CHECK(cores.body.text("setting") == "workspace.max_cpu_cores");
  CHECK(house.create(R"("cpu_cores": 0.5, "memory_mb": 2000)").body.text("resource") ==
        "memory_mb");
  CHECK(house.create(R"("cpu_cores": 0.5)").status == 201);
  CHECK(limit("{}").status == 200);  // Back to the deployment's defaults: none.
  CHECK(house.create(R"("cpu_cores": 8)").status == 201);
  CHECK(limit(R"({"max_sandboxes": -1})").body.text("field") == "max_sandboxes");
  CHECK(house.call("PUT", "/v1/workspaces/nobody/limits", "{}", house.operator_key()).error() ==
        "workspace_not_found");
  CHECK(house.call("PUT", "/v1/workspaces/acme/limits", "{}").error() == "operator_required");
}

// Complaint 20: 200 parallel creates at a limit of 20 give exactly 20.
TEST_CASE("two hundred creates at once at a limit of twenty give exactly twenty") {
  const House house([](ControllerConfig& config) { config.max_sandboxes_per_workspace = 20; });
  FakeWorker::Options options;
  options.max_starting = 64;
  const auto worker = house.worker(options);
  std::atomic<int> made{0};
  std::atomic<int> refused{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 200; ++i) {
    callers.emplace_back([&] {
      const auto answer = house.create();
      made += answer.status == 201 ? 1 : 0;
      refused += answer.status == 403 && answer.error() == "concurrency_limit" ? 1 : 0;
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  CHECK(made == 20);
  CHECK(refused == 180);
}

// Complaint 1: parallel creates oversell a node.
TEST_CASE("a hundred creates at once on a worker with room for seven give exactly seven") {
  const House house;
  FakeWorker::Options options;
  options.max_sandboxes = 7;
  const auto worker = house.worker(options);
  std::atomic<int> made{0};
  std::atomic<int> refused{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 100; ++i) {
    callers.emplace_back([&] {
      const auto answer = house.create();
      made += answer.status == 201 ? 1 : 0;
      refused += answer.error() == "no_capacity" ? 1 : 0;
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  CHECK(made == 7);
  CHECK(refused == 93);
}
