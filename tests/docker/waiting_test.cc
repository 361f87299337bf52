// Walls that wait for their sandbox, with the real helpers.
#include "docker/bodies.h"
#include "docker/plan.h"
#include "tests/docker/house.h"
#include "tests/docker/upstream.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <signal.h>

using namespace sandboxkit;        // NOLINT(google-build-using-namespace)
using namespace sandboxkit::test;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::chrono::seconds kSoon{60};

bool have_helpers() {
  if (programs().guest.empty() || programs().egress.empty()) {
    MESSAGE("the helpers are not built: not run");
    return false;
  }
  return true;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A worker that keeps one wall ready.
struct Waiting {
  Upstream upstream;
  House house{{.real_helpers = true,
               .hosts = {"packages.test=" + host_address(), "other.test=" + host_address()},
               .structure = EgressStructure::kInternalNet,
               .wall_pool = 1}};
  std::mutex mutex;
  std::vector<DriverEvent> events;

  Waiting() {
    REQUIRE(house.driver().probe());
    follow();
  }

  void follow() {
    house.driver().on_event([this](const DriverEvent& event) {
      const std::lock_guard lock(mutex);
      events.push_back(event);
    });
  }

  /// The engine's names of one part of the walls that nobody took.
  std::set<std::string> parts(docker::Role role) {
    std::set<std::string> found;
    std::set<std::string> taken;
    const auto all =
        house.engine().get("/containers/json?all=1&" + docker::filters_for(house.owner()));
    REQUIRE(all);
    for (const json::Value& entry : *all->as_array()) {
      const json::Value* labels = entry.find("Labels");
      if (const auto sandbox = docker::read_labels(labels, house.owner())) {
        taken.insert(docker::wall_part_name(sandbox->wall, role));
      }
      const auto part = docker::read_wall_labels(labels, house.owner());
      const auto* networks = entry.find("NetworkSettings")->find("Networks")->as_object();
      // The sidecar's second network is the last thing that is done.
      if (part && part->role == role && (role != docker::Role::kEgress || networks->size() == 2)) {
        found.insert(docker::wall_part_name(part->wall, role));
      }
    }
    for (const std::string& name : taken) {
      found.erase(name);
    }
    return found;
  }

  std::string wait_for_sidecar() {
    REQUIRE(becomes_true([&] { return parts(docker::Role::kEgress).size() == 1; }, kSoon));
    return *parts(docker::Role::kEgress).begin();
  }
  std::string wait_for_anchor() {
    wait_for_sidecar();
    return *parts(docker::Role::kAnchor).begin();
  }

  /// A kernel setting of a container's network, which only a process in it can read.
  std::string sidecar_says(const std::string& container, const std::string& setting) {
    const pid_t pid = static_cast<pid_t>(house.inspect(container).find("State")->integer("Pid"));
    const std::string out = house.config().state_dir + "/said";
    const std::string command =
        "nsenter -t " + std::to_string(pid) + " -n cat /proc/sys/" + setting + " > " + out;
    return std::system(command.c_str()) == 0 ? text_of(out).substr(0, 1) : "no answer";
  }

  SandboxOrder create() {
    SandboxOrder order = house.walled({"packages.test:" + upstream.port()});
    REQUIRE(problem(house.driver().create(order, {})) == "");
    return order;
  }
  House::Output fetch(const SandboxOrder& order, const std::string& host) {
    return house.shell(order.sandbox,
                       "timeout 20 wget -q -O - http://" + host + ":" + upstream.port() + "/");
  }
  std::string mode_of(const SandboxOrder& order) {
    return house.inspect(docker::sandbox_name(order.sandbox))
        .find("HostConfig")
        ->text("NetworkMode");
  }
  bool told(const SandboxOrder& order, const std::string& reason) {
    return becomes_true(
        [&] {
          const std::lock_guard lock(mutex);
          return events.size() == 1 && events[0].sandbox == order.sandbox &&
                 events[0].reason == reason;
        },
        kSoon);
  }
};

}  // namespace

TEST_CASE("a wall that waits opens nothing, and is taken by one sandbox with its own policy") {
  if (!have_helpers()) {
    return;
  }
  Waiting world;
  std::set<std::string> used;
  std::vector<SandboxOrder> orders;
  for (int i = 0; i < 2; ++i) {
    const std::string sidecar = world.wait_for_sidecar();
    const std::string anchor = *world.parts(docker::Role::kAnchor).begin();
    CHECK(used.insert(sidecar).second);
    const json::Value waits = world.house.inspect(sidecar);
    const std::string proc = "/proc/" + std::to_string(waits.find("State")->integer("Pid"));
    // 0C38 is the proxy's port.
    CHECK(text_of(proc + "/net/tcp").find(":0C38 ") == std::string::npos);
    const std::string anchor_id = world.house.inspect(anchor).text("Id");
    orders.push_back(world.create());
    const SandboxOrder& order = orders.back();
    CHECK(world.mode_of(order) == "container:" + anchor_id);
    CHECK(text_of(proc + "/net/tcp").find(":0C38 ") != std::string::npos);
    // It joined its second network while it ran, and routes between the two no more than before.
    for (const char* end : {"all", "default", "eth0", "eth1"}) {
      CAPTURE(end);
      CHECK(world.sidecar_says(sidecar, std::string("net/ipv4/conf/") + end + "/forwarding") ==
            "0");
    }
    CHECK(world.fetch(order, "packages.test").text == "packages\n");
    CHECK(world.fetch(order, "other.test").exit_code != 0);
    CHECK(world.house.shell(order.sandbox, "cat /proc/sys/kernel/hostname").text == "sandbox\n");
    CHECK(world.house.driver().list()->size() == orders.size());
  }
  CHECK(world.upstream.visits() == 2);
  const auto denied = world.house.driver().denied(orders[0].sandbox);
  REQUIRE_MESSAGE(denied.has_value(), problem(denied));
  CHECK(denied->size() == 1);
  CHECK(problem(world.house.driver().remove(orders[0].sandbox)) == "");
  CHECK(world.fetch(orders[1], "packages.test").text == "packages\n");
  CHECK(problem(world.house.driver().remove(orders[1].sandbox)) == "");
  world.house.stop_driver();
  CHECK(world.house.leftovers() == "");
}

TEST_CASE("a worker that restarts keeps a sandbox with the wall that it took, and ends with both") {
  if (!have_helpers()) {
    return;
  }
  Waiting world;
  world.wait_for_sidecar();
  const SandboxOrder order = world.create();
  const std::string mode = world.mode_of(order);
  world.house.restart_driver();
  const auto kept = world.house.driver().adopt();
  REQUIRE(kept);
  REQUIRE(kept->size() == 1);
  CHECK(kept->front().state == SandboxState::kRunning);
  CHECK(kept->front().reason == "");
  CHECK(world.mode_of(order) == mode);
  CHECK(world.fetch(order, "packages.test").text == "packages\n");
  CHECK(world.fetch(order, "other.test").exit_code != 0);
  CHECK(problem(world.house.driver().remove(order.sandbox)) == "");
  CHECK(world.house.leftovers() == "");
}

TEST_CASE("walls that a dead worker had waiting go at the next look, whenever they appeared") {
  if (!have_helpers()) {
    return;
  }
  House house;
  REQUIRE(house.driver().adopt());
  const auto leave = [&](const std::string& wall, const char* subnet) {
    house.meddle(
        "POST", "/networks/create",
        json::dump(docker::wall_body(
            docker::wall_part_name(wall, docker::Role::kNetwork), *docker::Subnet::parse(subnet),
            docker::labels_for_wall(house.owner(), docker::Role::kNetwork, wall))));
    house.meddle(
        "POST", "/containers/create",
        json::dump(json::Object{
            {"Image", test_image()},
            {"Cmd", json::Array{"true"}},
            {"Labels", docker::labels_for_wall(house.owner(), docker::Role::kAnchor, wall)}}));
    std::filesystem::create_directories(docker::wall_folder(house.config().state_dir, wall));
  };
  leave("leftover1", "10.229.1.0/29");
  std::filesystem::create_directories(docker::wall_folder(house.config().state_dir, "folder1"));
  REQUIRE(house.leftovers() != "");
  CHECK(house.driver().list()->empty());
  CHECK(house.leftovers() == "");
  leave("leftover2", "10.229.1.8/29");
  house.restart_driver();
  CHECK(house.driver().adopt()->empty());
  CHECK(house.leftovers() == "");
}

TEST_CASE("a sandbox whose anchor ends is stopped, and its reason told") {
  if (!have_helpers()) {
    return;
  }
  Waiting world;
  const std::string anchor = world.wait_for_anchor();
  const SandboxOrder order = world.create();
  world.house.meddle("POST", "/containers/" + anchor + "/kill");
  CHECK(world.told(order, "no wall: the container that holds its network is exited"));
  CHECK(becomes_true([&] { return world.house.driver().list()->empty(); }, kSoon));
  world.house.stop_driver();
  CHECK(world.house.leftovers() == "");
}

TEST_CASE("a sandbox whose anchor somebody puts on another network is stopped, and told of") {
  if (!have_helpers()) {
    return;
  }
  Waiting world;
  const std::string anchor = world.wait_for_anchor();
  const SandboxOrder order = world.create();
  const auto connect = [&](const std::string& container) {
    return world.house.engine().call(
        {.method = "POST",
         .target = "/networks/bridge/connect",
         .body = json::dump(json::Object{{"Container", container}, {"Force", true}})});
  };
  // The engine refuses it for the sandbox itself.
  CHECK_FALSE(connect(docker::sandbox_name(order.sandbox)).has_value());
  CHECK(connect(anchor).has_value());
  CHECK(world.told(order, "no wall: it is on another network than its own"));
  world.house.stop_driver();
  CHECK(world.house.leftovers() == "");
}

TEST_CASE("a wall whose anchor died while it waited is of no use, and a create makes its own") {
  if (!have_helpers()) {
    return;
  }
  Waiting world;
  const std::string anchor = world.wait_for_anchor();
  world.house.meddle("POST", "/containers/" + anchor + "/kill");
  const SandboxOrder order = world.create();
  CHECK(world.fetch(order, "packages.test").text == "packages\n");
  CHECK(world.mode_of(order) ==
        "container:" + world.house.container_id(order.sandbox, docker::Role::kAnchor));
  CHECK(becomes_true([&] { return !world.parts(docker::Role::kAnchor).contains(anchor); }, kSoon));
  CHECK(problem(world.house.driver().remove(order.sandbox)) == "");
  world.house.stop_driver();
  CHECK(world.house.leftovers() == "");
}

TEST_CASE("a removal takes the wall along though somebody removed the sandbox's container") {
  if (!have_helpers()) {
    return;
  }
  Waiting world;
  world.wait_for_sidecar();
  const SandboxOrder order = world.create();
  world.house.stop_driver();  // A new one knows of the wall by the sandbox's folder alone.
  world.house.meddle("DELETE", "/containers/" + docker::sandbox_name(order.sandbox) + "?force=1");
  REQUIRE(world.house.leftovers() != "");
  world.house.restart_driver();
  CHECK(problem(world.house.driver().remove(order.sandbox)) == "");
  CHECK(world.house.leftovers() == "");
}

TEST_CASE("a create begins anew where a dead worker had taken a wall and made nothing more") {
  if (!have_helpers()) {
    return;
  }
  House house{{.real_helpers = true, .structure = EgressStructure::kInternalNet}};
  const SandboxOrder order = house.walled();
  const std::string& state_dir = house.config().state_dir;
  const std::string wall = docker::wall_folder(state_dir, "taken1");
  for (const bool swept : {false, true}) {
    CAPTURE(swept);
    std::filesystem::create_directories(docker::sandbox_folder(state_dir, order.sandbox));
    std::filesystem::create_directories(wall);
    std::filesystem::create_directory_symlink(wall,
                                              docker::egress_folder(state_dir, order.sandbox));
    if (swept) {
      std::filesystem::remove(wall);
    }
    CHECK(problem(house.driver().create(order, {})) == "");
    CHECK_FALSE(std::filesystem::exists(wall));
    CHECK(house.shell(order.sandbox, "echo up").text == "up\n");
    CHECK(problem(house.driver().remove(order.sandbox)) == "");
    CHECK(house.leftovers() == "");
  }
}

TEST_CASE("a create in a wall that waited whose stop comes leaves nothing of either") {
  if (!have_helpers()) {
    return;
  }
  Waiting world;
  world.wait_for_sidecar();
  std::stop_source stop;
  stop.request_stop();
  const Status created = world.house.driver().create(world.house.walled(), stop.get_token());
  REQUIRE_FALSE(created);
  CHECK(created.error().code == ErrorCode::kCancelled);
  CHECK(becomes_true([&] { return world.parts(docker::Role::kEgress).size() == 1; }, kSoon));
  world.house.stop_driver();
  CHECK(world.house.leftovers() == "");
}
