#include "tests/docker/house.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include <doctest/doctest.h>

using namespace sandboxkit;        // NOLINT(google-build-using-namespace)
using namespace sandboxkit::test;  // NOLINT(google-build-using-namespace)

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

TEST_CASE("an image that the engine lacks is refused with its name and the way out") {
  House house;
  SandboxOrder order = house.walled();
  order.spec.image = "no/such-image:v1";
  const Status created = house.driver().create(order, {});
  REQUIRE_FALSE(created);
  CHECK(created.error().code == ErrorCode::kNotFound);
  CHECK(reason_of(created.error()) == "image_not_found");
  CHECK(created.error().message.find("`no/such-image:v1`") != std::string::npos);
  CHECK(house.leftovers() == "");
}

TEST_CASE("a removal of what is not there is a success, and so is a second one") {
  House house;
  const SandboxOrder order = house.unwalled();
  CHECK(problem(house.driver().remove(order.sandbox)) == "");
  REQUIRE(problem(house.driver().create(order, {})) == "");
  CHECK(problem(house.driver().remove(order.sandbox)) == "");
  CHECK(problem(house.driver().remove(order.sandbox)) == "");
  CHECK(house.driver().connect_guest(order.sandbox).error().code == ErrorCode::kNotFound);
}

TEST_CASE("a guest that ends at once fails the create with its last words") {
  House house;
  SandboxOrder order = house.walled();
  order.spec.env["SANDBOXKIT_STUB"] = "dies";
  const Status created = house.driver().create(order, {});
  REQUIRE_FALSE(created);
  CHECK(reason_of(created.error()) == "guest_unavailable");
  CHECK(created.error().message.find("exit 3") != std::string::npos);
  CHECK(created.error().message.find("these are my last words") != std::string::npos);
  CHECK(house.leftovers() == "");
}

TEST_CASE("a guest that never answers ends the create at its time limit") {
  House house({.create_timeout = std::chrono::milliseconds(6000)});
  SandboxOrder order = house.unwalled();
  order.spec.env["SANDBOXKIT_STUB"] = "silent";
  const auto start = std::chrono::steady_clock::now();
  const Status created = house.driver().create(order, {});
  REQUIRE_FALSE(created);
  CHECK(created.error().code == ErrorCode::kDeadlineExceeded);
  CHECK(reason_of(created.error()) == "create_timeout");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  CHECK(house.leftovers() == "");
}

TEST_CASE("walled and unwalled sandboxes are made side by side, each wall with its own subnet") {
  House house;
  const SandboxOrder orders[] = {house.walled(), house.walled(), house.unwalled()};
  std::string problems[3];
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] { problems[i] = problem(house.driver().create(orders[i], {})); });
    }
  }
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(problems[i] == "");
    CHECK(house.exec(orders[i].sandbox, {"/bin/echo", "here"}).text == "here\n");
  }
  for (const SandboxOrder& order : orders) {
    CHECK(problem(house.driver().remove(order.sandbox)) == "");
  }
  CHECK(house.leftovers() == "");
}

TEST_CASE(
    "the same create again has no second effect, an older generation is refused, a newer "
    "one replaces") {
  House house;
  SandboxOrder order = house.walled();
  order.generation = 2;
  REQUIRE(problem(house.driver().create(order, {})) == "");
  const std::string first = house.container_id(order.sandbox, docker::Role::kSandbox);
  CHECK(problem(house.driver().create(order, {})) == "");
  CHECK(house.container_id(order.sandbox, docker::Role::kSandbox) == first);

  order.generation = 1;
  const Status older = house.driver().create(order, {});
  REQUIRE_FALSE(older);
  CHECK(reason_of(older.error()) == "generation_conflict");
  CHECK(house.container_id(order.sandbox, docker::Role::kSandbox) == first);

  order.generation = 3;
  CHECK(problem(house.driver().create(order, {})) == "");
  CHECK(house.container_id(order.sandbox, docker::Role::kSandbox) != first);
  CHECK(house.driver().list()->front().generation == 3);
}

TEST_CASE("a hardened sandbox runs as an unprivileged user without capabilities") {
  House house;
  const SandboxOrder order = house.walled();
  REQUIRE(problem(house.driver().create(order, {})) == "");
  const std::string status = house.shell(order.sandbox, "id -u; id -g; cat /proc/self/status").text;
  CHECK(status.starts_with("1000\n1000\n"));
  CHECK(status.find("CapEff:\t0000000000000000") != std::string::npos);
  CHECK(status.find("CapBnd:\t0000000000000000") != std::string::npos);
  CHECK(status.find("NoNewPrivs:\t1") != std::string::npos);
  CHECK(status.find("Seccomp:\t2") != std::string::npos);
}

TEST_CASE("a sudo sandbox's root has no raw sockets, and cannot mount or set up networks") {
  House house;
  SandboxOrder order = house.walled();
  order.spec.profile = HardeningProfile::kSudo;
  REQUIRE(problem(house.driver().create(order, {})) == "");
  CHECK(house.shell(order.sandbox, "id -u").text == "0\n");
  CHECK(house.shell(order.sandbox, "ping -c 1 -W 1 127.0.0.1").exit_code != 0);
  CHECK(house.shell(order.sandbox, "ip addr add 10.1.2.3/24 dev eth0").exit_code != 0);
  CHECK(house.shell(order.sandbox, "echo x > /sbin/sandboxkit-guest").exit_code != 0);
}

TEST_CASE("limits of memory and processes hold, and figures of use are there") {
  House house;
  SandboxOrder order = house.unwalled();
  order.spec.memory_mb = 64;
  REQUIRE(problem(house.driver().create(order, {})) == "");
  const auto stats = house.driver().stats(order.sandbox);
  REQUIRE_MESSAGE(stats.has_value(), problem(stats));
  CHECK(stats->memory_limit_bytes == 64 << 20);
  CHECK(stats->memory_bytes > 0);
  CHECK(stats->processes >= 1);
  CHECK(stats->cpu_seconds > 0);
  CHECK(house.driver().stats(house.unwalled().sandbox).error().code == ErrorCode::kNotFound);
}

TEST_CASE("an order that contradicts itself is refused before anything is made") {
  House house;
  SandboxOrder order = house.walled();
  order.policy_hash = "";
  CHECK(house.driver().create(order, {}).error().field == "policy_hash");
  order = house.unwalled();
  order.policy_hash = "hash";
  CHECK(house.driver().create(order, {}).error().field == "policy_hash");
  order = house.walled();
  order.spec.image = "../containers/json";
  CHECK(house.driver().create(order, {}).error().field == "image");
  CHECK(house.leftovers() == "");
}
