#include "docker/observed.h"

#include "tests/unit/docker/support.h"

#include <doctest/doctest.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::docker;  // NOLINT(google-build-using-namespace)
using docker::test::owner;
using docker::test::parsed;

namespace {

SandboxOrder walled_order() { return docker::test::order(docker::test::walled({"ok.test"})); }

Structure structure_of(const SandboxOrder& order) {
  return order.policy_hash.empty() ? Structure::kNone : Structure::kInternalNet;
}

json::Value container(const SandboxOrder& order, Role role, const char* id,
                      const std::vector<std::string>& networks, const char* state = "running") {
  json::Object endpoints;
  for (const std::string& network : networks) {
    endpoints.emplace_back("name-" + network, json::Object{{"NetworkID", network}});
  }
  return json::Object{{"Id", id},
                      {"State", state},
                      {"Labels", labels_for(owner(), order, role, structure_of(order))},
                      {"NetworkSettings", json::Object{{"Networks", std::move(endpoints)}}}};
}

json::Value wall(const SandboxOrder& order, bool internal = true, bool inhibit = true) {
  json::Object options;
  if (inhibit) {
    options.emplace_back("com.docker.network.bridge.inhibit_ipv4", "true");
  }
  return json::Object{
      {"Id", "wall"},
      {"Internal", internal},
      {"EnableIPv6", false},
      {"Options", std::move(options)},
      {"Labels", labels_for(owner(), order, Role::kNetwork, Structure::kInternalNet)}};
}

/// A walled sandbox as it should be.
struct World {
  SandboxOrder order = walled_order();
  json::Array containers{container(order, Role::kSandbox, "box", {"wall"}),
                         container(order, Role::kEgress, "car", {"egress", "wall"})};
  json::Array networks{wall(order)};

  std::string problem() const {
    const auto seen = read_sandboxes(containers, networks, owner());
    return isolation_problem(seen.at(order.sandbox), "egress");
  }
};

/// A walled sandbox without an interface, as the engine lists it.
json::Value isolated(const SandboxOrder& order, const char* mode, json::Object networks) {
  return json::Object{
      {"Id", "box"},
      {"State", "running"},
      {"Labels", labels_for(owner(), order, Role::kSandbox, Structure::kIsolatedNs)},
      {"HostConfig", json::Object{{"NetworkMode", mode}}},
      {"NetworkSettings", json::Object{{"Networks", std::move(networks)}}}};
}

std::string problem_of(const json::Array& containers, const json::Array& networks) {
  const auto seen = read_sandboxes(containers, networks, owner());
  return isolation_problem(seen.begin()->second, "");
}

}  // namespace

TEST_CASE("an isolated sandbox stands while it has no network, and only then") {
  const SandboxOrder order = walled_order();
  const json::Object none{{"none", json::Object{{"NetworkID", "n"}}}};
  const json::Object bridge{{"bridge", json::Object{{"NetworkID", "b"}}}};
  const json::Object both{{"bridge", json::Object{{"NetworkID", "b"}}},
                          {"none", json::Object{{"NetworkID", "n"}}}};
  CHECK(problem_of({isolated(order, "none", none)}, {}) == "");
  CHECK(problem_of({isolated(order, "none", {})}, {}) == "");
  CHECK(problem_of({isolated(order, "none", bridge)}, {}) == "no wall: it is on a network");
  CHECK(problem_of({isolated(order, "none", both)}, {}) == "no wall: it is on a network");
  // In the namespace of a holder, which the engine lets nobody connect.
  CHECK(problem_of({isolated(order, "container:holder", {})}, {}) == "");
  CHECK(problem_of({isolated(order, "container:holder", bridge)}, {}) ==
        "no wall: it is on a network");
  for (const char* mode : {"default", "bridge", "host", ""}) {
    CAPTURE(mode);
    CHECK(problem_of({isolated(order, mode, none)}, {}) ==
          "no wall: it is in another network namespace than its own");
  }
  CHECK(problem_of({isolated(order, "none", none)}, {wall(order)}) ==
        "no wall: it has a network or a sidecar beside it");
}

TEST_CASE("a walled sandbox that stands as it was made has no problem") {
  CHECK(World().problem() == "");
}

TEST_CASE("each way to stand without a wall is named") {
  World on_two;
  on_two.containers[0] = container(on_two.order, Role::kSandbox, "box", {"wall", "bridge"});
  CHECK(on_two.problem() == "no wall: it is on another network than its own");

  World no_sidecar;
  no_sidecar.containers.pop_back();
  CHECK(no_sidecar.problem() == "no wall: its egress proxy is gone");

  World dead_sidecar;
  dead_sidecar.containers[1] =
      container(dead_sidecar.order, Role::kEgress, "car", {"egress", "wall"}, "exited");
  CHECK(dead_sidecar.problem() == "no wall: its egress proxy is exited");

  World strange_sidecar;
  strange_sidecar.containers[1] =
      container(strange_sidecar.order, Role::kEgress, "car", {"egress", "host", "wall"});
  CHECK(strange_sidecar.problem() ==
        "no wall: its egress proxy is on other networks than it should be");

  World no_network;
  no_network.networks.clear();
  CHECK(no_network.problem() == "no wall: its network is gone");

  World not_internal;
  not_internal.networks[0] = wall(not_internal.order, false);
  CHECK(not_internal.problem() == "no wall: its network is not internal");

  World with_gateway;
  with_gateway.networks[0] = wall(with_gateway.order, true, false);
  CHECK(with_gateway.problem() == "no wall: its network is not internal");

  World other_policy;
  SandboxOrder other = walled_order();
  other.policy_hash = "hash-2";
  other_policy.containers[1] = container(other, Role::kEgress, "car", {"egress", "wall"});
  CHECK(other_policy.problem() == "no wall: its egress proxy has another policy");

  World doubled;
  doubled.containers.push_back(container(doubled.order, Role::kSandbox, "box2", {"wall"}));
  CHECK(doubled.problem() == "half made");
}

namespace {

/// A container of a wall that waited.
json::Value part(Role role, const char* id, const std::vector<std::string>& networks,
                 const std::string& wall = "wall1", const char* state = "running") {
  json::Object entry = *container(walled_order(), role, id, networks, state).as_object();
  for (auto& [name, value] : entry) {
    if (name == "Labels") {
      value = labels_for_wall(owner(), role, wall);
    }
  }
  return entry;
}

json::Value part_network(const std::string& wall_id = "wall1") {
  json::Object entry = *wall(walled_order()).as_object();
  for (auto& [name, value] : entry) {
    if (name == "Labels") {
      value = labels_for_wall(owner(), Role::kNetwork, wall_id);
    }
  }
  return entry;
}

json::Value taker(const SandboxOrder& order, const std::string& mode = "container:anchor",
                  json::Object networks = {}) {
  return json::Object{
      {"Id", "box"},
      {"State", "running"},
      {"Labels", labels_for(owner(), order, Role::kSandbox, Structure::kInternalNet, "wall1")},
      {"HostConfig", json::Object{{"NetworkMode", mode}}},
      {"NetworkSettings", json::Object{{"Networks", std::move(networks)}}}};
}

/// A sandbox in a wall that waited, as it should be.
struct TakenWorld {
  SandboxOrder order = walled_order();
  json::Array containers{taker(order), part(Role::kEgress, "car", {"egress", "wall"}),
                         part(Role::kAnchor, "anchor", {"wall"})};
  json::Array networks{part_network()};

  std::string problem() const {
    const auto seen = read_sandboxes(containers, networks, owner());
    return isolation_problem(seen.at(order.sandbox), "egress");
  }
};

}  // namespace

TEST_CASE("a sandbox in a wall that waited stands while its anchor does, and only then") {
  CHECK(TakenWorld().problem() == "");

  TakenWorld no_anchor;
  no_anchor.containers.pop_back();
  CHECK(no_anchor.problem() == "no wall: the container that holds its network is gone");

  TakenWorld dead_anchor;
  dead_anchor.containers[2] = part(Role::kAnchor, "anchor", {"wall"}, "wall1", "exited");
  CHECK(dead_anchor.problem() == "no wall: the container that holds its network is exited");

  TakenWorld other_namespace;
  other_namespace.containers[0] = taker(other_namespace.order, "container:somebody");
  CHECK(other_namespace.problem() == "no wall: it is in another network namespace than its own");

  TakenWorld anchor_on_two;
  anchor_on_two.containers[2] = part(Role::kAnchor, "anchor", {"bridge", "wall"});
  CHECK(anchor_on_two.problem() == "no wall: it is on another network than its own");

  TakenWorld on_bridge;
  on_bridge.containers[0] =
      taker(on_bridge.order, "bridge", {{"bridge", json::Object{{"NetworkID", "b"}}}});
  CHECK(on_bridge.problem() == "no wall: it is on another network than its own");

  TakenWorld no_sidecar;
  no_sidecar.containers.erase(no_sidecar.containers.begin() + 1);
  CHECK(no_sidecar.problem() == "no wall: its egress proxy is gone");

  TakenWorld no_network;
  no_network.networks.clear();
  CHECK(no_network.problem() == "no wall: its network is gone");

  TakenWorld parts_of_another;
  parts_of_another.containers[1] = part(Role::kEgress, "car", {"egress", "wall"}, "wall2");
  CHECK(parts_of_another.problem() == "no wall: its egress proxy is gone");
}

TEST_CASE("two sandboxes in one wall do not stand, neither of them") {
  TakenWorld world;
  SandboxOrder second = world.order;
  second.sandbox = docker::test::id<SandboxId>("i0123456789abcdefghik");
  world.containers.push_back(taker(second));
  const auto seen = read_sandboxes(world.containers, world.networks, owner());
  CHECK(isolation_problem(seen.at(world.order.sandbox), "egress") == "half made");
  CHECK(isolation_problem(seen.at(second.sandbox), "egress") == "half made");
}

TEST_CASE("a wall that nobody took is told from one that has its sandbox") {
  TakenWorld world;
  CHECK(read_untaken_walls(world.containers, world.networks, owner()).empty());
  world.containers.push_back(part(Role::kAnchor, "second", {"other"}, "wall2"));
  world.networks.push_back(part_network("wall3"));
  CHECK(read_untaken_walls(world.containers, world.networks, owner()) ==
        std::set<std::string>{"wall2", "wall3"});
  CHECK(read_sandboxes(world.containers, world.networks, owner()).size() == 1);
  Owner other = owner();
  other.worker = docker::test::id<WorkerId>("w-2");
  CHECK(read_untaken_walls(world.containers, world.networks, other).empty());
}

TEST_CASE("an event of a part of a wall that waited is ours") {
  json::Object attributes = *labels_for_wall(owner(), Role::kAnchor, "wall1").as_object();
  const json::Value line = json::Object{
      {"Action", "die"},
      {"Actor", json::Object{{"ID", "anchor"}, {"Attributes", std::move(attributes)}}}};
  const auto event = read_event(json::dump(line), owner());
  REQUIRE(event);
  CHECK(event->container == "anchor");
}

TEST_CASE("an unwalled sandbox belongs on the open network alone") {
  const SandboxOrder order = docker::test::order(Egress::unwalled(UnwalledEgress{}));
  const auto problem = [&](const std::vector<std::string>& networks) {
    const auto seen = read_sandboxes(json::Array{container(order, Role::kSandbox, "box", networks)},
                                     json::Array{}, owner());
    return isolation_problem(seen.at(order.sandbox), "open");
  };
  CHECK(problem({"open"}) == "");
  CHECK(problem({"bridge"}) != "");
  CHECK(problem({"bridge", "open"}) != "");
}

TEST_CASE("objects of others are not seen") {
  Owner other = owner();
  other.worker = docker::test::id<WorkerId>("w-2");
  const World world;
  CHECK(read_sandboxes(world.containers, world.networks, other).empty());
}

TEST_CASE("a shared network whose containers could talk to each other is refused") {
  const auto network = [](const char* icc) {
    return json::Array{
        json::Object{{"Id", "n"},
                     {"Name", "sandboxkit-egress-w-1"},
                     {"Driver", "bridge"},
                     {"Labels", labels_for_shared(owner(), Role::kEgressNetwork)},
                     {"Options", json::Object{{"com.docker.network.bridge.enable_icc", icc}}}}};
  };
  CHECK(**read_shared_network(network("false"), owner(), Role::kEgressNetwork) == "n");
  CHECK_FALSE(read_shared_network(network("true"), owner(), Role::kEgressNetwork).has_value());
  CHECK_FALSE(read_shared_network(network("false"), owner(), Role::kOpenNetwork)->has_value());
}

TEST_CASE("a state says why a container ended") {
  CHECK(end_reason(read_state(parsed(R"({"State":{"Running":false,"ExitCode":137}})"))) ==
        "exit 137");
  CHECK(end_reason(read_state(parsed(R"({"State":{"OOMKilled":true,"ExitCode":137}})"))) ==
        "out of memory");
  CHECK(read_state(parsed(R"({"State":{"Running":true,"Pid":42}})")).pid == 42);
  CHECK_FALSE(read_state(parsed("{}")).running);
}

TEST_CASE("memory that the kernel can take back is not counted as used") {
  const auto stats = read_stats(parsed(R"({
    "cpu_stats": {"cpu_usage": {"total_usage": 2500000000}},
    "memory_stats": {"usage": 1000, "limit": 5000, "stats": {"total_inactive_file": 400}},
    "pids_stats": {"current": 7}})"));
  CHECK(stats.cpu_seconds == doctest::Approx(2.5));
  CHECK(stats.memory_bytes == 600);
  CHECK(stats.memory_limit_bytes == 5000);
  CHECK(stats.processes == 7);
  CHECK(read_stats(parsed("{}")).memory_bytes == 0);
}

TEST_CASE("a denied log reads with the most recent line last, and nonsense is an error") {
  const auto denied = read_denied(R"({"denied":[
    {"host":"b.test","port":443,"reason":"not_in_allow_list","count":1,
     "first":"2026-01-01T00:00:02.000Z","last":"2026-01-01T00:00:03.000Z"},
    {"host":"a.test","port":80,"reason":"address_class","count":9,
     "first":"2026-01-01T00:00:00.000Z","last":"2026-01-01T00:00:01.000Z"}]})");
  REQUIRE(denied);
  REQUIRE(denied->size() == 2);
  CHECK(denied->front().host == "a.test");
  CHECK(denied->back().host == "b.test");
  CHECK(denied->front().count == 9);
  CHECK_FALSE(read_denied("{}").has_value());
  CHECK_FALSE(read_denied(R"({"denied":[{"host":"a","port":99999}]})").has_value());
}

TEST_CASE("an event of our container is read, others and broken lines are not") {
  json::Object attributes =
      *labels_for(owner(), walled_order(), Role::kSandbox, Structure::kInternalNet).as_object();
  attributes.emplace_back("exitCode", "137");
  const std::string line = json::dump(
      json::Object{{"Action", "die"},
                   {"Actor", json::Object{{"ID", "box"}, {"Attributes", std::move(attributes)}}}});
  const auto event = read_event(line, owner());
  REQUIRE(event);
  CHECK(event->action == "die");
  CHECK(event->container == "box");
  CHECK(event->exit_code == "137");
  CHECK_FALSE(read_event("{\"Action\":\"die\"}", owner()));
  CHECK_FALSE(read_event("{", owner()));
}

TEST_CASE("an event of a network names the container that it is about") {
  CHECK(
      read_network_event(
          R"({"Type":"network","Action":"connect","Actor":{"ID":"n","Attributes":{"container":"box","name":"bridge"}}})") ==
      "box");
  CHECK_FALSE(read_network_event(R"({"Type":"network","Actor":{"Attributes":{}}})"));
  CHECK_FALSE(
      read_network_event(R"({"Type":"container","Actor":{"Attributes":{"container":"box"}}})"));
  CHECK_FALSE(read_network_event("{"));
}

TEST_CASE("the frames of a log become one line without controls") {
  const std::string frames("\x02\0\0\0\0\0\0\x04one\n\x02\0\0\0\0\0\0\x05t\x1bwo\n", 25);
  CHECK(read_log(frames) == "one; t wo");
  CHECK(read_log("") == "");
  CHECK(read_log(std::string("\x02\0\0\0\xff\xff\xff\xffshort", 13)) == "short");
}
