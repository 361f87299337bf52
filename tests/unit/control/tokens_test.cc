#include "control/networks.h"
#include "tests/unit/control/house.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

/// A sandbox that runs, and a token for it.
struct Opened {
  std::string sandbox;
  Answer made;
  std::string token() const { return made.body.text("token"); }
};

Opened open_one(const House& house, const std::string& body = "{}") {
  const std::string sandbox = house.create().body.text("id");
  return {sandbox, house.call("POST", "/v1/sandboxes/" + sandbox + "/tokens", body)};
}

std::vector<std::string> capabilities_of(const House& house, const std::string& worker) {
  std::vector<std::string> names;
  const auto answer = house.call("GET", "/v1/workers/" + worker);
  for (const json::Value& each : *answer.body.find("capabilities")->as_array()) {
    names.push_back(*each.as_string());
  }
  return names;
}

Answer join(const House& house, const std::string& token, const std::string& name) {
  return house.call("POST", "/v1/worker/join", R"({"name": ")" + name + "\"}", token);
}

}  // namespace

// Complaint 19: no key for one sandbox only.
TEST_CASE("a sandbox's token uses that sandbox by its id and sees no other one") {
  const House house;
  const auto worker = house.worker();
  const auto opened = open_one(house, R"({"name": "agent"})");
  REQUIRE(opened.made.status == 201);
  const std::string other = house.create(R"("name": "other")").body.text("id");
  const std::string mine = "/v1/sandboxes/" + opened.sandbox;
  CHECK(house.call("GET", mine, {}, opened.token()).status == 200);
  CHECK(house.call("GET", mine + "/stats", {}, opened.token()).status == 200);
  CHECK(house.call("POST", mine + "/exec", R"({"command": ["true"]})", opened.token()).status ==
        200);
  CHECK(
      house.call("POST", mine + "/timeout", R"({"timeout_seconds": 60})", opened.token()).status ==
      200);
  const auto absent = house.call("GET", "/v1/sandboxes/i00000000000000000000", {}, opened.token());
  CHECK(absent.status == 404);
  for (const std::string& name : {other, std::string("other")}) {
    CHECK(house.call("GET", "/v1/sandboxes/" + name, {}, opened.token()).text == absent.text);
    CHECK(house.call("DELETE", "/v1/sandboxes/" + name, {}, opened.token()).text == absent.text);
    CHECK(house
              .call("POST", "/v1/sandboxes/" + name + "/exec", R"({"command": ["true"]})",
                    opened.token())
              .text == absent.text);
  }
  CHECK(house.call("GET", "/v1/sandboxes", {}, opened.token()).error() == "owner_required");
  CHECK(house.create({}, opened.token()).error() == "owner_required");
  CHECK(house.call("POST", mine + "/tokens", "{}", opened.token()).error() == "owner_required");
  CHECK(house.call("DELETE", mine, {}, opened.token()).status == 204);
}

TEST_CASE("a sandbox's token does not open it by its name") {
  const House house;
  const auto worker = house.worker();
  house.create(R"("name": "mine")");
  const auto made = house.call("POST", "/v1/sandboxes/mine/tokens");
  REQUIRE(made.status == 201);
  CHECK(house.call("GET", "/v1/sandboxes/mine", {}, made.body.text("token")).status == 404);
  CHECK(house.call("GET", "/v1/sandboxes/" + made.body.text("sandbox"), {}, made.body.text("token"))
            .status == 200);
}

TEST_CASE("a sandbox's tokens are listed without their secrets and revoked one by one") {
  const House house;
  const auto worker = house.worker();
  const auto opened = open_one(house, R"({"name": "agent", "ttl_seconds": 60})");
  const std::string tokens = "/v1/sandboxes/" + opened.sandbox + "/tokens";
  const auto second = house.call("POST", tokens);
  const auto listed = house.call("GET", tokens);
  CHECK(listed.body.find("tokens")->as_array()->size() == 2);
  CHECK(listed.text.find(opened.token()) == std::string::npos);
  // They are no keys of the workspace.
  const std::string id = opened.made.body.text("id");
  CHECK(house.call("GET", "/v1/keys").text.find(id) == std::string::npos);
  CHECK(house.call("DELETE", "/v1/keys/" + id).error() == "key_not_found");
  CHECK(house.call("DELETE", tokens + "/" + id).status == 204);
  CHECK(house.call("DELETE", tokens + "/" + id).error() == "token_not_found");
  CHECK(house.call("GET", "/v1/sandboxes/" + opened.sandbox, {}, opened.token()).status == 401);
  CHECK(
      house.call("GET", "/v1/sandboxes/" + opened.sandbox, {}, second.body.text("token")).status ==
      200);
}

TEST_CASE("a sandbox's token ends with its time, and with the sandbox's row") {
  House house;
  const auto worker = house.worker();
  const auto timed = open_one(house, R"({"ttl_seconds": 60})");
  const auto kept = open_one(house);
  house.advance(std::chrono::seconds(61));
  CHECK(house.call("GET", "/v1/sandboxes/" + timed.sandbox, {}, timed.token()).status == 401);
  const std::string path = "/v1/sandboxes/" + kept.sandbox;
  CHECK(house.call("GET", path, {}, kept.token()).status == 200);
  CHECK(house.call("DELETE", path).status == 204);
  CHECK(house.call("POST", path + "/tokens").error() == "sandbox_not_running");
  // The tombstone still tells why; when it goes, the token goes.
  CHECK(house.call("GET", path, {}, kept.token()).status == 200);
  house.advance(std::chrono::hours(24 * 8));
  CHECK(House::eventually([&] { return house.call("GET", path, {}, kept.token()).status == 401; }));
}

TEST_CASE("a key's limits, end and last use are shown, and its end counts") {
  House house;
  const auto made = house.call("POST", "/v1/keys", R"({"role": "member", "max_sandboxes": 2,
      "max_cpu_cores": 1.5, "max_memory_mb": 1024, "ttl_seconds": 60})");
  REQUIRE(made.status == 201);
  CHECK(made.text.find(R"("max_sandboxes":2,"max_cpu_cores":1.5,"max_memory_mb":1024)") !=
        std::string::npos);
  CHECK_FALSE(made.body.text("expires_at").empty());
  const std::string key = made.body.text("key");
  CHECK(house.call("GET", "/v1/sandboxes", {}, key).status == 200);
  CHECK(House::eventually([&] {
    const auto keys = house.call("GET", "/v1/keys");
    for (const json::Value& each : *keys.body.find("keys")->as_array()) {
      if (each.text("id") == made.body.text("id")) {
        return !each.text("last_used_at").empty();
      }
    }
    return false;
  }));
  house.advance(std::chrono::seconds(61));
  CHECK(house.call("GET", "/v1/sandboxes", {}, key).status == 401);
  for (const char* bad : {R"("max_sandboxes": -1)", R"("max_cpu_cores": -1)",
                          R"("max_memory_mb": -1)", R"("ttl_seconds": 0)"}) {
    CAPTURE(bad);
    CHECK(
        house.call("POST", "/v1/keys", std::string(R"({"role": "member", )") + bad + "}").status ==
        400);
  }
}

// Complaint 18: agents share a tenant's key and eat each other's share.
TEST_CASE("a key's own limit refuses its create and no other key's") {
  const House house;
  const auto worker = house.worker();
  const std::string key =
      house.call("POST", "/v1/keys", R"({"role": "member", "max_sandboxes": 1})").body.text("key");
  CHECK(house.create({}, key).status == 201);
  const auto refused = house.create({}, key);
  CHECK(refused.error() == "concurrency_limit");
  CHECK(refused.body.text("scope") == "key");
  CHECK(house.create().status == 201);
}

TEST_CASE("an owner key that ends by itself does not count as the last one") {
  const House house;
  const auto first =
      house.call("GET", "/v1/keys").body.find("keys")->as_array()->front().text("id");
  CHECK(house.call("POST", "/v1/keys", R"({"role": "owner", "ttl_seconds": 60})").status == 201);
  CHECK(house.call("DELETE", "/v1/keys/" + first).error() == "last_owner_key");
}

TEST_CASE("a worker offers no more than its join token lets through, now and later") {
  const House house;
  FakeWorker::Options options;
  options.capabilities = {"egress", "persistence", "gpu"};
  options.join_token = house.join_token("<owner>", R"({"capabilities": ["egress", "x"]})");
  const auto worker = house.worker(options);
  CHECK(capabilities_of(house, worker->id()) == std::vector<std::string>{"egress"});
  CHECK(worker->heartbeat() == 200);
  CHECK(capabilities_of(house, worker->id()) == std::vector<std::string>{"egress"});
}

TEST_CASE("a join token counts from its networks alone, and elsewhere is no token at all") {
  const House house;
  const std::string here =
      house.join_token("<owner>", R"({"networks": ["10.0.0.0/8", "127.0.0.0/8"]})");
  const std::string elsewhere = house.join_token("<owner>", R"({"networks": ["10.0.0.0/8"]})");
  const auto unknown = join(house, "jn_AAAAAAAA_" + std::string(38, 'B'), "a");
  const auto refused = join(house, elsewhere, "a");
  CHECK(refused.status == 401);
  CHECK(refused.text == unknown.text);
  CHECK(house.call("GET", "/v1/sandboxes", {}, elsewhere).status == 401);
  CHECK(join(house, here, "a").status == 201);
  CHECK(House::eventually([&] {
    return house.call("GET", "/v1/audit").text.find("foreign_network") != std::string::npos;
  }));
}

TEST_CASE("a join token's lists are checked and shown in one spelling") {
  const House house;
  const auto made =
      house.call("POST", "/v1/join-tokens",
                 R"({"networks": ["10.1.2.3", "FD00::/8"], "capabilities": ["gpu"]})");
  CHECK(made.text.find(R"("networks":["10.1.2.3/32","fd00::/8"])") != std::string::npos);
  CHECK(made.text.find(R"("capabilities":["gpu"])") != std::string::npos);
  for (const char* bad :
       {R"({"networks": []})", R"({"networks": ["10.0.0.1/8"]})",
        R"({"networks": ["10.0.0.0/33"]})", R"({"networks": ["host"]})", R"({"networks": [""]})"}) {
    CAPTURE(bad);
    CHECK(house.call("POST", "/v1/join-tokens", bad).body.text("field") == "networks");
  }
  CHECK(house.call("POST", "/v1/join-tokens", R"({"capabilities": []})").body.text("field") ==
        "capabilities");
}

// Complaint 53: join tokens that neither end nor are used up.
TEST_CASE("the third join of a token of two uses is refused") {
  const House house;
  const std::string token = house.join_token("<owner>", R"({"max_uses": 2})");
  CHECK(join(house, token, "a").status == 201);
  CHECK(join(house, token, "b").status == 201);
  CHECK(join(house, token, "c").error() == "unauthenticated");
}

// Complaint 53: join tokens that neither end nor are used up.
TEST_CASE("a join token joins nobody past its end, however many uses it has left") {
  House house;
  const std::string token = house.join_token("<owner>", R"({"max_uses": 5, "ttl_seconds": 60})");
  CHECK(join(house, token, "a").status == 201);
  house.advance(std::chrono::seconds(61));
  CHECK(join(house, token, "b").error() == "unauthenticated");
  const auto workers = house.call("GET", "/v1/workers");
  CHECK(workers.body.find("workers")->as_array()->size() == 1);
}

TEST_CASE("an address is in a block, or in none") {
  CHECK(in_networks("", "10.1.2.3"));
  CHECK(in_networks(R"(["10.0.0.0/8"])", "10.1.2.3"));
  CHECK(in_networks(R"(["10.0.0.0/8"])", "::ffff:10.1.2.3"));
  CHECK(in_networks(R"(["fd00::/8"])", "fd12::1"));
  CHECK(in_networks(R"(["0.0.0.0/0"])", "1.2.3.4"));
  for (const char* address : {"11.0.0.1", "fd12::1", "", "host"}) {
    CAPTURE(address);
    CHECK_FALSE(in_networks(R"(["10.0.0.0/8"])", address));
  }
  for (const char* list : {"[]", "x", R"([1])", R"(["10.0.0.1/8"])"}) {
    CAPTURE(list);
    CHECK_FALSE(in_networks(list, "10.1.2.3"));
  }
}
