#include "tests/unit/control/house.h"

#include <chrono>
#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

using std::chrono::hours;

constexpr hours kDay{24};

Answer beat(const House& house, const std::string& credential, bool renew = true) {
  return house.call("POST", "/v1/worker/heartbeat",
                    renew ? R"({"sandboxes": [], "renew": true})" : R"({"sandboxes": []})",
                    credential);
}

/// Joins without a tunnel: what counts here is the credential.
std::string joined(const House& house, const std::string& name = "w1") {
  const auto answer =
      house.call("POST", "/v1/worker/join", R"({"name": ")" + name + "\"}", house.join_token());
  REQUIRE(answer.status == 201);
  return answer.body.text("credential");
}

}  // namespace

TEST_CASE("a worker gets its next credential from half of the old one's life on, if it asks") {
  House house;
  const std::string first = joined(house);
  CHECK(beat(house, first).body.find("credential") == nullptr);
  house.advance(14 * kDay);
  CHECK(beat(house, first).body.find("credential") == nullptr);
  house.advance(2 * kDay);
  CHECK(beat(house, first, false).body.find("credential") == nullptr);
  const auto answer = beat(house, first);
  CHECK(answer.status == 200);
  CHECK(answer.body.text("credential").starts_with("wk_"));
  CHECK(answer.body.text("credential") != first);
}

TEST_CASE("the old credential counts until the new one is first used, and never again") {
  House house;
  const std::string first = joined(house);
  house.advance(16 * kDay);
  const std::string second = beat(house, first).body.text("credential");
  CHECK(beat(house, first, false).status == 200);
  CHECK(beat(house, second, false).status == 200);
  CHECK(beat(house, first).status == 401);
  CHECK(beat(house, second).status == 200);
  CHECK(house.call("GET", "/v1/audit").text.find("worker.renew") != std::string::npos);
}

TEST_CASE("of several renewals that nobody used the last one counts") {
  House house;
  const std::string first = joined(house);
  house.advance(16 * kDay);
  const std::string second = beat(house, first).body.text("credential");
  const std::string third = beat(house, first).body.text("credential");
  CHECK(second != third);
  CHECK(beat(house, second).status == 401);
  CHECK(beat(house, third).status == 200);
  CHECK(beat(house, first).status == 401);
}

TEST_CASE("an expired credential may renew for a while, and do nothing else") {
  House house;
  const std::string first = joined(house);
  house.advance(31 * kDay);
  CHECK(beat(house, first, false).status == 401);
  CHECK(house
            .call("GET", "/v1/worker/tunnel", {}, first,
                  {{"Connection", "Upgrade"}, {"Upgrade", "sandboxkit-tunnel/1"}})
            .status == 401);
  CHECK(house.call("GET", "/v1/sandboxes", {}, first).status == 401);
  const std::string before = house.call("GET", "/v1/workers").text;
  const auto renewed = house.call("POST", "/v1/worker/heartbeat",
                                  R"({"sandboxes": [], "renew": true, "engine": "told"})", first);
  CHECK(renewed.status == 200);
  CHECK(house.call("GET", "/v1/workers").text.find("told") == std::string::npos);
  CHECK(beat(house, renewed.body.text("credential")).status == 200);
  CHECK(beat(house, first).status == 401);
}

TEST_CASE("past the renewal window a credential opens nothing, and its worker joins again") {
  House house;
  const std::string first = joined(house);
  house.advance(38 * kDay);
  CHECK(beat(house, first).status == 401);
}

TEST_CASE("a worker that was removed cannot renew, expired or not") {
  House house;
  const auto answer =
      house.call("POST", "/v1/worker/join", R"({"name": "w1"})", house.join_token());
  const std::string first = answer.body.text("credential");
  const std::string other = joined(house, "w2");
  house.advance(16 * kDay);
  const std::string second = beat(house, first).body.text("credential");
  CHECK(house.call("DELETE", "/v1/workers/" + answer.body.text("worker")).status == 204);
  CHECK(beat(house, first).status == 401);
  CHECK(beat(house, second).status == 401);
  house.advance(16 * kDay);
  CHECK(beat(house, first).status == 401);
  CHECK(beat(house, other).status == 200);
}

TEST_CASE("the tunnel of a worker that did not renew in time is cut") {
  House house(
      [](ControllerConfig& config) { config.worker_credential_ttl = std::chrono::seconds(20); });
  const auto worker = house.worker();
  // Heartbeats come from the test alone, and none asks for another credential.
  house.advance(std::chrono::seconds(25));
  CHECK(house.sees(*worker, false));
}
