#include "tests/unit/control/house.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

int status_with(const House& house, const std::string& key) {
  return house.call("GET", "/v1/sandboxes", {}, key).status;
}

}  // namespace

TEST_CASE("a credential that calls too often is told when to come back, and others go on") {
  const House house([](ControllerConfig& config) {
    config.rate_limit_per_key = 1;
    config.rate_limit_burst = 5;
  });
  const std::string other = house.make_workspace("globex");
  Answer answer;
  for (int i = 0; i < 7; ++i) {
    answer = house.call("GET", "/v1/sandboxes");
  }
  CHECK(answer.status == 429);
  CHECK(answer.error() == "rate_limited");
  CHECK(answer.body.text("setting") == "rate_limit_per_key");
  CHECK(answer.headers.at("retry-after") == "1");
  CHECK(house.call("POST", "/v1/sandboxes/inone/exec", "{}").error() == "rate_limited");
  CHECK(house.call("GET", "/v1/sandboxes", {}, other).status == 200);
}

TEST_CASE("a worker's calls have a limit of their own") {
  const House house([](ControllerConfig& config) {
    config.rate_limit_per_key = 1;
    config.rate_limit_burst = 20;
  });
  FakeWorker worker({house.url(), house.join_token()});
  REQUIRE(worker.start());
  for (int i = 0; i < 50; ++i) {
    REQUIRE(worker.heartbeat() == 200);
  }
}

TEST_CASE("after too many wrong credentials an address is refused unlooked, but for who is known") {
  const House house([](ControllerConfig& config) { config.failed_auth_per_minute = 3; });
  const std::string newcomer = house.make_workspace("globex");
  REQUIRE(status_with(house, house.owner()) == 200);
  // No credential at all is no failure.
  for (int i = 0; i < 10; ++i) {
    CHECK(status_with(house, "") == 401);
  }
  std::string forged = newcomer;
  forged.back() = forged.back() == 'a' ? 'b' : 'a';
  for (int i = 0; i < 3; ++i) {
    CHECK(status_with(house, forged) == 401);
  }
  const auto refused = house.call("GET", "/v1/sandboxes", {}, forged);
  CHECK(refused.status == 429);
  CHECK(refused.error() == "rate_limited");
  CHECK(refused.body.text("setting") == "failed_auth_per_minute");
  CHECK(refused.headers.at("retry-after") == "20");
  CHECK(house.call("GET", "/v1/sandboxes/inone/files?path=/", {}, forged).status == 429);
  // Not known yet: it must wait as well. Known: goes on.
  CHECK(status_with(house, newcomer) == 429);
  CHECK(status_with(house, house.owner()) == 200);
  CHECK(status_with(house, "") == 401);
}
