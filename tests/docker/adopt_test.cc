#include "docker/plan.h"
#include "tests/docker/house.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>

#include <doctest/doctest.h>

using namespace sandboxkit;        // NOLINT(google-build-using-namespace)
using namespace sandboxkit::test;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::chrono::seconds kSoon{30};

/// Collects events from the driver's thread.
struct Events {
  std::mutex mutex;
  std::vector<DriverEvent> seen;

  void follow(DockerDriver& driver) {
    driver.on_event([this](const DriverEvent& event) {
      const std::lock_guard lock(mutex);
      seen.push_back(event);
    });
  }
  std::optional<DriverEvent> first() {
    const std::lock_guard lock(mutex);
    return seen.empty() ? std::nullopt : std::optional(seen.front());
  }
};

/// Restarts the driver and adopts; the one report.
SandboxReport adopt_one(House& house) {
  house.restart_driver();
  const auto reports = house.driver().adopt();
  REQUIRE_MESSAGE(reports.has_value(), problem(reports));
  REQUIRE(reports->size() == 1);
  return reports->front();
}

}  // namespace

// Complaint 29: a restart empties the list.
TEST_CASE("a driver that starts again finds its sandboxes and the way to their guests") {
  House house;
  const SandboxOrder walled = house.walled();
  const SandboxOrder open = house.unwalled();
  REQUIRE(problem(house.driver().create(walled, {})) == "");
  REQUIRE(problem(house.driver().create(open, {})) == "");
  house.shell(walled.sandbox, "echo kept > /tmp/file");
  house.restart_driver();
  CHECK(house.driver().connect_guest(walled.sandbox).error().code == ErrorCode::kNotFound);
  const auto reports = house.driver().adopt();
  REQUIRE(reports);
  REQUIRE(reports->size() == 2);
  for (const SandboxReport& report : *reports) {
    CHECK(report.state == SandboxState::kRunning);
    CHECK(report.reason == "");
    CHECK(report.tenant.str() == "acme");
    CHECK(report.expires_at == walled.expires_at);
  }
  CHECK(house.shell(walled.sandbox, "cat /tmp/file").text == "kept\n");
  CHECK(house.shell(open.sandbox, "echo here").text == "here\n");
  CHECK(problem(house.driver().denied(walled.sandbox)) == "");
  CHECK(problem(house.driver().create(walled, {})) == "");
  CHECK(house.shell(walled.sandbox, "cat /tmp/file").text == "kept\n");
}

TEST_CASE("a walled sandbox that somebody joined to another network is not kept") {
  House house;
  const SandboxOrder order = house.walled();
  REQUIRE(problem(house.driver().create(order, {})) == "");
  const std::string container = house.container_id(order.sandbox, docker::Role::kAnchor);
  house.stop_driver();  // A worker that is there would not leave it to its successor.
  house.meddle("POST", "/networks/bridge/connect", "{\"Container\":\"" + container + "\"}");
  const SandboxReport report = adopt_one(house);
  CHECK(report.state == SandboxState::kError);
  CHECK(report.reason == "no wall: it is on another network than its own");
  CHECK(house.leftovers() == "");
}

TEST_CASE("a walled sandbox whose proxy is gone is not kept") {
  House house;
  const SandboxOrder order = house.walled();
  REQUIRE(problem(house.driver().create(order, {})) == "");
  house.meddle("DELETE", "/containers/" + docker::sidecar_name(order.sandbox) + "?force=1");
  const SandboxReport report = adopt_one(house);
  CHECK(report.state == SandboxState::kError);
  CHECK(report.reason == "no wall: its egress proxy is gone");
  CHECK(house.leftovers() == "");
}

// Complaint 34: nobody collects what failures leave.
TEST_CASE("a wall without its sandbox is half made and swept") {
  House house;
  const SandboxOrder order = house.walled();
  REQUIRE(problem(house.driver().create(order, {})) == "");
  house.stop_driver();
  house.meddle("DELETE", "/containers/" + docker::sandbox_name(order.sandbox) + "?force=1");
  const SandboxReport report = adopt_one(house);
  CHECK(report.state == SandboxState::kError);
  CHECK(report.reason == "half made");
  CHECK(report.generation == 1);
  CHECK(house.leftovers() == "");
}

TEST_CASE("what the probe of a dead worker left goes at the next look, whenever it appeared") {
  House house;
  SandboxOrder order = house.walled();
  order.sandbox = *SandboxId::parse("probe-0123456789ab");
  house.restart_driver();
  REQUIRE(house.driver().adopt());
  // The engine makes only now what the dead worker had ordered.
  house.meddle(
      "POST", "/networks/create",
      json::dump(docker::wall_body(house.owner(), order, *docker::Subnet::parse("10.229.1.0/29"))));
  std::filesystem::create_directories(house.config().state_dir + "/sandboxes/probe-ba9876543210");
  REQUIRE(house.leftovers() != "");
  const auto reports = house.driver().list();
  REQUIRE(reports);
  CHECK(reports->empty());
  CHECK(house.leftovers() == "");
}

TEST_CASE("a sandbox that ended while the driver was away is reported with its reason") {
  House house;
  const SandboxOrder order = house.unwalled();
  REQUIRE(problem(house.driver().create(order, {})) == "");
  house.stop_driver();
  house.meddle("POST", "/containers/" + docker::sandbox_name(order.sandbox) + "/kill");
  const SandboxReport report = adopt_one(house);
  CHECK(report.state == SandboxState::kStopped);
  CHECK(report.reason == "exit 137");
  CHECK(house.leftovers() == "");
}

// Complaint 36: a start-up sweep takes a sibling's sandboxes.
TEST_CASE("objects of another worker are neither listed nor adopted nor removed") {
  House house;
  House other;
  const SandboxOrder order = house.unwalled();
  REQUIRE(problem(house.driver().create(order, {})) == "");
  CHECK(other.driver().list()->empty());
  CHECK(other.driver().adopt()->empty());
  CHECK(problem(other.driver().remove(order.sandbox)) == "");
  CHECK(house.shell(order.sandbox, "echo here").text == "here\n");
}

TEST_CASE("an end that nobody asked for is told with its reason, a removal is not") {
  House house;
  Events events;
  events.follow(house.driver());
  const SandboxOrder removed = house.unwalled();
  const SandboxOrder killed = house.unwalled();
  REQUIRE(problem(house.driver().create(removed, {})) == "");
  REQUIRE(problem(house.driver().create(killed, {})) == "");
  CHECK(problem(house.driver().remove(removed.sandbox)) == "");
  house.meddle("POST", "/containers/" + docker::sandbox_name(killed.sandbox) + "/kill");
  REQUIRE(becomes_true([&] { return events.first().has_value(); }, kSoon));
  CHECK(events.first()->sandbox == killed.sandbox);
  CHECK(events.first()->state == SandboxState::kStopped);
  CHECK(events.first()->reason == "exit 137");
  const auto reports = house.driver().list();
  REQUIRE(reports);
  REQUIRE(reports->size() == 1);
  CHECK(reports->front().state == SandboxState::kStopped);
  CHECK(problem(house.driver().remove(killed.sandbox)) == "");
  CHECK(house.leftovers() == "");
}

TEST_CASE("an end while the engine was away is told when it is back") {
  House house({.judge = [](const std::string&) { return Fate::kPass; }});
  Events events;
  events.follow(house.driver());
  const SandboxOrder order = house.unwalled();
  REQUIRE(problem(house.driver().create(order, {})) == "");
  house.proxy().shut();
  CHECK(reason_of(house.driver().list().error()) == "engine_unavailable");
  house.meddle("DELETE", "/containers/" + docker::sandbox_name(order.sandbox) + "?force=1");
  house.proxy().open();
  REQUIRE(becomes_true([&] { return events.first().has_value(); }, kSoon));
  CHECK(events.first()->sandbox == order.sandbox);
  CHECK(house.driver().list().has_value());
}

TEST_CASE("a sandbox cannot take the guest's place at its socket") {
  House house;
  SandboxOrder order = house.walled();
  order.spec.profile = HardeningProfile::kSudo;
  REQUIRE(problem(house.driver().create(order, {})) == "");
  const SandboxId& sandbox = order.sandbox;
  CHECK(house.shell(sandbox, "rm /run/sandboxkit/guest.sock").exit_code != 0);
  CHECK(house.shell(sandbox, "ln -s /tmp/x /run/sandboxkit/other").exit_code != 0);
  // A second guest dials the socket itself: the kernel says that it is not the first process.
  house.shell(sandbox, "/sbin/sandboxkit-guest >/dev/null 2>&1 &");
  const auto parent = [&] { return house.shell(sandbox, "echo $PPID").text; };
  for (int i = 0; i < 5; ++i) {
    CHECK(parent() == "1\n");
  }
  // After a restart of the driver both dial a new socket; again only the first process counts.
  house.restart_driver();
  REQUIRE(house.driver().adopt());
  for (int i = 0; i < 5; ++i) {
    CHECK(parent() == "1\n");
  }
}

// Complaint 63: a guarantee that one driver does not give, and nobody says so.
TEST_CASE("the probe builds a wall before it claims one, and leaves nothing") {
  House house;
  const auto found = house.driver().probe();
  REQUIRE_MESSAGE(found.has_value(), problem(found));
  CHECK(found->engine.starts_with("docker "));
  CHECK(found->capabilities ==
        std::vector<std::string>{"egress", "egress.internal-net", "secrets"});
  CHECK(found->cpu_cores >= 1);
  CHECK(found->memory_mb > 0);
  CHECK_FALSE(found->runtimes.empty());
  CHECK(house.leftovers() == "");
  test_image();
  const auto again = house.driver().probe();
  REQUIRE(again);
  CHECK(std::find(again->images.begin(), again->images.end(), test_image()) != again->images.end());
}
