#include "policy/access.h"
#include "tests/unit/control/house.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

TEST_CASE("a worker's credential is refused on unknown routes as on known ones") {
  const House house;
  const auto worker = house.worker();
  std::string first;
  for (const char* method : {"GET", "POST", "PUT", "DELETE"}) {
    for (const char* path :
         {"/", "/v1/nothing", "/v1/sandboxes", "/v1/worker/join", "/healthz", "/v1/keys",
          "/v1/sandboxes/i00000000000000000000/exec", "/v1/sandboxes/x/files?path=/",
          "/v1/worker/tunnel", "/v1/worker/heartbeat"}) {
      if (policy::is_worker_route(method, path)) {
        continue;
      }
      CAPTURE(method);
      CAPTURE(path);
      const auto answer = house.call(method, path, "", worker->credential());
      CHECK(answer.status == 403);
      CHECK(answer.error() == "worker_role");
      first = first.empty() ? answer.text : first;
      CHECK(answer.text == first);
    }
  }
}

TEST_CASE("a key that is revoked or expired opens nothing any more") {
  const House house;
  const auto made = house.call("POST", "/v1/keys", R"({"role": "member", "name": "ci"})");
  REQUIRE(made.status == 201);
  const std::string key = made.body.text("key");
  CHECK(house.call("GET", "/v1/sandboxes", {}, key).status == 200);
  CHECK(house.call("DELETE", "/v1/keys/" + made.body.text("id")).status == 204);
  CHECK(house.call("GET", "/v1/sandboxes", {}, key).status == 401);
  CHECK(house.call("DELETE", "/v1/keys/" + made.body.text("id")).error() == "key_not_found");
}

TEST_CASE("the last owner key of a workspace cannot be revoked") {
  const House house;
  const auto keys = house.call("GET", "/v1/keys");
  const std::string id = keys.body.find("keys")->as_array()->front().text("id");
  CHECK(house.call("DELETE", "/v1/keys/" + id).error() == "last_owner_key");
  CHECK(house.call("POST", "/v1/keys", R"({"role": "owner"})").status == 201);
  CHECK(house.call("DELETE", "/v1/keys/" + id).status == 204);
}

TEST_CASE("a listed key or token does not show its secret") {
  const House house;
  const std::string token = house.join_token();
  CHECK(house.call("GET", "/v1/join-tokens").text.find(token) == std::string::npos);
  CHECK(house.call("GET", "/v1/keys").text.find(house.owner()) == std::string::npos);
}

// Complaint 56: somebody joins as the runner that a record was made for.
TEST_CASE("a join token works as often as it says and for the name that it says") {
  const House house;
  const std::string once = house.join_token();
  const auto first = house.call("POST", "/v1/worker/join", R"({"name": "a"})", once);
  REQUIRE(first.status == 201);
  CHECK(first.body.text("worker").starts_with("w-"));
  CHECK(first.body.text("workspace") == "acme");
  CHECK(house.call("POST", "/v1/worker/join", R"({"name": "b"})", once).status == 401);

  const std::string bound = house.join_token("<owner>", R"({"name": "c", "max_uses": 5})");
  CHECK(house.call("POST", "/v1/worker/join", R"({"name": "d"})", bound).body.text("field") ==
        "name");
  CHECK(house.call("POST", "/v1/worker/join", R"({"name": "c"})", bound).status == 201);
  CHECK(house.call("POST", "/v1/worker/join", R"({"name": "c"})", bound).error() == "name_taken");
}

// Complaint 53: join tokens that neither end nor are used up.
TEST_CASE("twenty joins at once with a token of two uses give exactly two workers") {
  const House house;
  const std::string token = house.join_token("<owner>", R"({"max_uses": 2})");
  std::atomic<int> joined{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 20; ++i) {
    callers.emplace_back([&, i] {
      const auto answer = house.call("POST", "/v1/worker/join",
                                     R"({"name": "w)" + std::to_string(i) + "\"}", token);
      joined += answer.status == 201 ? 1 : 0;
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  CHECK(joined == 2);
}

TEST_CASE("an owner cannot mint tokens for another workspace or for the unscoped fleet") {
  const House house;
  for (const char* workspace : {"", "rival"}) {
    const auto refused = house.call("POST", "/v1/join-tokens",
                                    std::string(R"({"workspace": ")") + workspace + "\"}");
    CHECK(refused.status == 400);
    CHECK(refused.body.text("field") == "workspace");
  }
  CHECK(house.call("POST", "/v1/join-tokens", "{}", house.operator_key()).body.text("field") ==
        "workspace");
}

TEST_CASE("an unscoped worker is seen by owners and changed by the operator alone") {
  const House house;
  FakeWorker::Options options;
  options.join_token = house.join_token(house.operator_key(), R"({"workspace": ""})");
  const auto worker = house.worker(options);
  const std::string path = "/v1/workers/" + worker->id();
  CHECK(house.call("GET", path).status == 200);
  CHECK(house.call("POST", path + "/cordon").error() == "operator_required");
  CHECK(house.call("DELETE", path).error() == "operator_required");
  CHECK(house.call("POST", path + "/cordon", {}, house.operator_key()).status == 200);
  CHECK(house.call("DELETE", path, {}, house.operator_key()).status == 204);
}

TEST_CASE("a worker that is removed ends its sandboxes, and is cut off") {
  const House house;
  const auto worker = house.worker();
  const auto sandbox = house.create().body.text("id");
  CHECK(house.call("DELETE", "/v1/workers/" + worker->id()).status == 204);
  CHECK(worker->wait_until([&] { return !worker->holds(sandbox); }));
  CHECK(worker->wait_until([&] { return !worker->connected(); }));
  CHECK(worker->heartbeat() == 401);
  CHECK(house.state_of(sandbox) == "lost");
  CHECK(house.get(sandbox).body.text("reason") == "its worker was removed");
  CHECK(house.call("GET", "/v1/workers/" + worker->id()).error() == "worker_not_found");
}
