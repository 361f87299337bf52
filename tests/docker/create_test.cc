#include "tests/docker/house.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include <doctest/doctest.h>

using namespace sandboxkit;        // NOLINT(google-build-using-namespace)
using namespace sandboxkit::test;  // NOLINT(google-build-using-namespace)

namespace {

std::string problem(const Status& status) { return status ? "" : status.error().message; }

}  // namespace

TEST_CASE("a walled sandbox is made, runs a command and is removed without a trace") {
  House house;
  const SandboxOrder order = house.walled();
  CHECK(problem(house.driver().create(order, {})) == "");
  CHECK(house.exec(order.sandbox, {"/bin/echo", "hello"}).text == "hello\n");
  const auto reports = house.driver().list();
  REQUIRE(reports);
  REQUIRE(reports->size() == 1);
  CHECK(reports->front().sandbox == order.sandbox);
  CHECK(reports->front().state == SandboxState::kRunning);
  CHECK(reports->front().policy_hash == "test-hash");
  CHECK(reports->front().reason == "");
  CHECK(problem(house.driver().remove(order.sandbox)) == "");
  CHECK(house.leftovers() == "");
}

TEST_CASE("an unwalled sandbox is made, runs a command and is removed without a trace") {
  House house;
  const SandboxOrder order = house.unwalled();
  CHECK(problem(house.driver().create(order, {})) == "");
  CHECK(house.exec(order.sandbox, {"/bin/echo", "hello"}).text == "hello\n");
  CHECK(problem(house.driver().remove(order.sandbox)) == "");
  CHECK(house.leftovers() == "");
}
