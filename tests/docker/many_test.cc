// Attack 69 and 75 in great number: what an engine's own address pools, of thirty networks, do not
// hold.
#include "docker/plan.h"
#include "tests/docker/house.h"

#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;        // NOLINT(google-build-using-namespace)
using namespace sandboxkit::test;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kWalls = 300;
constexpr const char* kPool = "10.226.0.0/16";

/// Takes minutes; `scripts/test --full` sets it.
bool is_full() { return std::getenv("SANDBOXKIT_FULL") != nullptr; }

std::size_t seconds_since(std::chrono::steady_clock::time_point begin) {
  return static_cast<std::size_t>(
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin)
          .count());
}

std::vector<docker::Subnet> blocks_of_engine(House& house) {
  return docker::subnets_of_networks(*house.engine().get("/networks"));
}

/// What a worker leaves that dies between the network and the sandbox of a create.
void make_wall(House& house, const docker::Subnet& block) {
  const json::Value body = docker::wall_body(house.owner(), house.walled(), block);
  house.meddle("POST", "/networks/create", json::dump(body));
}

}  // namespace

TEST_CASE("beside 300 walls a sandbox finds a block, and a worker that starts sweeps all of them" *
          doctest::skip(!is_full())) {
  House house({.subnet_pool = kPool});
  const docker::Subnet pool = *docker::Subnet::parse(kPool);
  auto begin = std::chrono::steady_clock::now();
  std::vector<docker::Subnet> taken = blocks_of_engine(house);
  for (std::size_t i = 0; i < kWalls; ++i) {
    const auto block = docker::free_subnet(pool, docker::kWallPrefix, taken, 0);
    REQUIRE(block);
    make_wall(house, *block);
    taken.push_back(*block);
  }
  MESSAGE(kWalls << " walls made in " << seconds_since(begin) << " s");

  begin = std::chrono::steady_clock::now();
  const SandboxOrder order = house.walled();
  REQUIRE(problem(house.driver().create(order, {})) == "");
  CHECK(house.shell(order.sandbox, "echo stands").text == "stands\n");
  std::set<std::string> distinct;
  std::size_t ours = 0;
  for (const docker::Subnet& block : blocks_of_engine(house)) {
    const bool in_pool = block.overlaps(pool);
    ours += in_pool ? 1 : 0;
    CHECK((!in_pool || distinct.insert(block.to_string()).second));
  }
  CHECK(ours >= kWalls + 2);  // The sandbox's own, and the network that proxies go out by.
  MESSAGE("a sandbox beside them in " << seconds_since(begin) << " s");

  begin = std::chrono::steady_clock::now();
  house.restart_driver();
  const auto reports = house.driver().adopt();
  REQUIRE(reports);
  std::size_t swept = 0;
  for (const SandboxReport& report : *reports) {
    swept += report.state == SandboxState::kError && report.reason == "half made" ? 1 : 0;
  }
  CHECK(swept == kWalls);
  CHECK(house.shell(order.sandbox, "echo stands").text == "stands\n");
  REQUIRE(problem(house.driver().remove(order.sandbox)) == "");
  CHECK(house.leftovers() == "");
  MESSAGE("all of them swept in " << seconds_since(begin) << " s");
}
