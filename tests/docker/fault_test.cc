#include "docker/plan.h"
#include "io/socket.h"
#include "tests/docker/house.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace sandboxkit;        // NOLINT(google-build-using-namespace)
using namespace sandboxkit::test;  // NOLINT(google-build-using-namespace)

namespace {

/// The calls of a walled create that change something: the wall's network, sidecar, anchor and
/// sandbox are created, three of them started, and the sidecar joins. Some are under way at once.
constexpr int kCallCount = 8;

/// Lets the `target`-th POST (of those that end with `about`) have its fate, once.
struct OneFault {
  std::atomic<int> posts = 0;
  std::atomic<int> target = -1;
  Fate fate = Fate::kPass;
  std::function<void()> at_target{};
  std::string about{};

  Fate judge(const std::string& request) {
    const bool counts = request.starts_with("POST ") && request.ends_with(about);
    if (!counts || target < 0 || posts++ != target) {
      return Fate::kPass;
    }
    if (at_target) {
      at_target();
    }
    return fate;
  }
};

DockerDriverConfig config_with(const std::string& socket, const std::string& folder) {
  DockerDriverConfig config{*ControllerId::parse("test-x"), *WorkerId::parse("w-x"), folder,
                            programs().stub, programs().stub};
  config.engine_socket = socket;
  config.call_timeout = std::chrono::milliseconds(500);
  return config;
}

/// A house whose shared networks stand, so that each create makes the same calls.
struct FaultyHouse {
  OneFault fault;
  House house{{.judge = [this](const std::string& request) { return fault.judge(request); }}};

  FaultyHouse() {
    const SandboxOrder order = house.walled();
    REQUIRE(problem(house.driver().create(order, {})) == "");
    REQUIRE(problem(house.driver().remove(order.sandbox)) == "");
  }

  Status create_with(int target, Fate fate, std::stop_token stop) {
    fault.posts = 0;
    fault.fate = fate;
    fault.target = target;
    Status created = house.driver().create(house.walled(), std::move(stop));
    CHECK(fault.posts > target);
    fault.target = -1;
    return created;
  }
};

}  // namespace

TEST_CASE("a create whose stop comes at any of its calls leaves nothing") {
  FaultyHouse faulty;
  for (int target = 0; target < kCallCount; ++target) {
    CAPTURE(target);
    std::stop_source stop;
    faulty.fault.at_target = [&] { stop.request_stop(); };
    const Status created = faulty.create_with(target, Fate::kPass, stop.get_token());
    REQUIRE_FALSE(created);
    CHECK(created.error().code == ErrorCode::kCancelled);
    CHECK(faulty.house.leftovers() == "");
  }
}

// Complaint 34: nobody collects what failures leave.
TEST_CASE("a create that loses any of its answers leaves nothing") {
  FaultyHouse faulty;
  for (int target = 0; target < kCallCount; ++target) {
    CAPTURE(target);
    const Status created = faulty.create_with(target, Fate::kLoseAnswer, {});
    REQUIRE_FALSE(created);
    CHECK(reason_of(created.error()) == "engine_unavailable");
    CHECK(faulty.house.leftovers() == "");
  }
}

TEST_CASE("a create of which the engine refuses any call leaves nothing and says why") {
  FaultyHouse faulty;
  for (int target = 0; target < kCallCount; ++target) {
    CAPTURE(target);
    const Status created = faulty.create_with(target, Fate::kRefuse, {});
    REQUIRE_FALSE(created);
    CHECK(created.error().message.find("a test's fault") != std::string::npos);
    CHECK(faulty.house.leftovers() == "");
  }
}

TEST_CASE("what a dead predecessor had ordered comes late, and the create builds anew") {
  FaultyHouse faulty;
  House& house = faulty.house;
  const SandboxOrder order = house.walled();
  const auto make_network = [&] {
    house.meddle("POST", "/networks/create",
                 json::dump(docker::wall_body(house.owner(), order,
                                              *docker::Subnet::parse("10.229.1.0/29"))));
  };
  const auto make_container = [&](const std::string& name, docker::Role role) {
    house.meddle(
        "POST", "/containers/create?name=" + name,
        json::dump(json::Object{{"Image", test_image()},
                                {"Cmd", json::Array{"true"}},
                                {"Labels", docker::labels_for(house.owner(), order, role,
                                                              docker::Structure::kInternalNet)}}));
  };
  std::vector<std::pair<std::string, std::function<void()>>> late{
      {"/networks/create", make_network}};
  for (const auto& [name, role] :
       {std::pair(docker::sidecar_name(order.sandbox), docker::Role::kEgress),
        std::pair(docker::anchor_name(order.sandbox), docker::Role::kAnchor),
        std::pair(docker::sandbox_name(order.sandbox), docker::Role::kSandbox)}) {
    late.emplace_back("/containers/create?name=" + name,
                      [&, name = name, role = role] { make_container(name, role); });
  }
  for (const auto& [about, comes] : late) {
    const auto& shown = about;  // A lambda of clang 14 takes no structured binding.
    CAPTURE(shown);
    faulty.fault.posts = 0;
    faulty.fault.about = about;
    faulty.fault.at_target = comes;
    faulty.fault.target = 0;
    CHECK(problem(house.driver().create(order, {})) == "");
    CHECK(faulty.fault.posts > 0);
    faulty.fault.target = -1;
    CHECK(house.shell(order.sandbox, "echo up").text == "up\n");
    CHECK(problem(house.driver().remove(order.sandbox)) == "");
    CHECK(house.leftovers() == "");
  }
}

TEST_CASE("a removal during a create ends the create, and nothing is left") {
  OneFault fault;
  std::atomic<bool> creating = false;
  House house({.judge = [&](const std::string& request) {
    creating = creating || request.starts_with("POST /v1.41/containers/");
    return fault.judge(request);
  }});
  const SandboxOrder order = house.walled();
  Status created;
  std::jthread creator([&] { created = house.driver().create(order, {}); });
  REQUIRE(becomes_true([&] { return creating.load(); }, std::chrono::seconds(60)));
  CHECK(problem(house.driver().remove(order.sandbox)) == "");
  creator.join();
  REQUIRE_FALSE(created);
  CHECK(created.error().code == ErrorCode::kCancelled);
  CHECK(house.leftovers() == "");
}

TEST_CASE("a removal that loses its answer can be asked for again") {
  std::atomic<bool> lose = false;
  House house({.judge = [&](const std::string& request) {
    return lose && request.starts_with("DELETE ") ? Fate::kLoseRequest : Fate::kPass;
  }});
  const SandboxOrder order = house.walled();
  REQUIRE(problem(house.driver().create(order, {})) == "");
  lose = true;
  CHECK_FALSE(house.driver().remove(order.sandbox).has_value());
  CHECK(house.leftovers() != "");
  lose = false;
  CHECK(problem(house.driver().remove(order.sandbox)) == "");
  CHECK(house.leftovers() == "");
}

TEST_CASE("a pool without a free subnet refuses a wall with the way out") {
  House house({.subnet_pool = "172.17.0.0/20"});  // The engine's default bridge lies over it.
  const Status created = house.driver().create(house.walled(), {});
  REQUIRE_FALSE(created);
  CHECK(created.error().code == ErrorCode::kResourceExhausted);
  CHECK(created.error().message.find("172.17.0.0/20") != std::string::npos);
  CHECK(house.leftovers() == "");
}

TEST_CASE("an engine that is not there is named with its socket") {
  const auto driver =
      DockerDriver::create(config_with("/nonexistent/docker.sock", "/tmp/sk-fault"));
  REQUIRE_FALSE(driver);
  CHECK(driver.error().code == ErrorCode::kUnavailable);
  CHECK(reason_of(driver.error()) == "engine_unavailable");
  CHECK(driver.error().message.find("/nonexistent/docker.sock") != std::string::npos);
  rmdir("/tmp/sk-fault");
}

TEST_CASE("an engine that takes the connection and says nothing is given up in time") {
  const std::string path = "/tmp/sk-hang-" + std::to_string(getpid()) + ".sock";
  const auto listener = io::listen_unix(path, 0600, 1);
  REQUIRE(listener);
  const auto start = std::chrono::steady_clock::now();
  const auto driver = DockerDriver::create(config_with(path, "/tmp/sk-fault"));
  REQUIRE_FALSE(driver);
  CHECK(driver.error().code == ErrorCode::kDeadlineExceeded);
  CHECK(reason_of(driver.error()) == "engine_timeout");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  unlink(path.c_str());
  rmdir("/tmp/sk-fault");
}

TEST_CASE("each bad option is named") {
  const auto field_of = [](const std::function<void(DockerDriverConfig&)>& spoil) {
    DockerDriverConfig config = config_with(programs().engine_socket, "/tmp/sk-fault");
    spoil(config);
    const auto driver = DockerDriver::create(config);
    rmdir("/tmp/sk-fault");
    return driver ? std::string("none") : driver.error().field;
  };
  CHECK(field_of([](auto& c) { c.guest_binary = "/nonexistent"; }) == "guest_binary");
  CHECK(field_of([](auto& c) { c.egress_binary = "/tmp"; }) == "egress_binary");
  CHECK(field_of([](auto& c) { c.state_dir = ""; }) == "state_dir");
  CHECK(field_of([](auto& c) { c.state_dir = "/tmp/" + std::string(300, 'x'); }) == "state_dir");
  CHECK(field_of([](auto& c) { c.subnet_pool = "10.0.0.0/30"; }) == "subnet_pool");
  CHECK(field_of([](auto& c) { c.egress_hosts = {"a.test"}; }) == "egress_hosts");
  CHECK(field_of([](auto& c) { c.egress_hosts = {"a.test=b"}; }) == "egress_hosts");
  rmdir(("/tmp/" + std::string(80, 'x')).c_str());
}

TEST_CASE("an archive that is none, or is not there, makes no image") {
  House house;
  const Status missing = house.driver().import_image("/nonexistent.tar", "sandboxkit-test/x", {});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::kNotFound);
  const Status broken = house.driver().import_image("/bin/busybox", "sandboxkit-test/x", {});
  REQUIRE_FALSE(broken);
  CHECK(broken.error().message.find("sandboxkit-test/x") != std::string::npos);
  CHECK_FALSE(house.driver().has_image("sandboxkit-test/x").value_or(true));
}
