#include "docker/plan.h"

#include "docker/holders.h"
#include "docker/seccomp.h"
#include "tests/unit/docker/support.h"

#include <algorithm>

#include <doctest/doctest.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::docker;  // NOLINT(google-build-using-namespace)
using docker::test::at;
using docker::test::parsed;

namespace {

const Ids kIds{.shared_network = "shared-id",
               .wall = "wall-id",
               .sandbox = "sandbox-id",
               .sidecar = "sidecar-id",
               .anchor = "anchor-id"};

/// The steps with those of branches in their place: one of the orders that may happen.
Plan flat(const Plan& plan) {
  Plan steps;
  for (const Step& step : plan) {
    if (const auto* at_once = std::get_if<AtOnce>(&step)) {
      for (const Branch& branch : at_once->branches) {
        steps.insert(steps.end(), branch.steps.begin(), branch.steps.end());
      }
    } else {
      steps.push_back(step);
    }
  }
  return steps;
}

Plan walled_plan(const SandboxOrder& order) {
  static const DockerDriverConfig config = docker::test::config();
  return flat(plan_walled(PlanInput{config, order}, WallInput{*Subnet::parse("10.231.0.8/29"),
                                                              "sandboxkit/egress:abc",
                                                              {*Subnet::parse("203.0.113.7/32")}}));
}

Plan waiting_plan() {
  static const DockerDriverConfig config = docker::test::config();
  return flat(plan_waiting(
      WaitingWall{config, "wall1", *Subnet::parse("10.231.0.8/29"), "sandboxkit/egress:abc"}));
}

Plan taken_plan(const SandboxOrder& order) {
  static const DockerDriverConfig config = docker::test::config();
  return plan_taken(
      PlanInput{config, order},
      TakenWall{"wall1", *Subnet::parse("10.231.0.8/29"), {*Subnet::parse("203.0.113.7/32")}});
}

Plan taken_plan() { return taken_plan(docker::test::order(docker::test::walled({"ok.test"}))); }

Plan walled_plan() { return walled_plan(docker::test::order(docker::test::walled({"ok.test"}))); }

Plan isolated_plan(const SandboxOrder& order) {
  static const DockerDriverConfig config = docker::test::config();
  return plan_isolated(PlanInput{config, order}, IsolatedInput{{*Subnet::parse("10.231.0.0/16")}});
}

Plan isolated_plan() {
  return isolated_plan(docker::test::order(docker::test::walled({"ok.test"})));
}

Plan open_plan() {
  static const DockerDriverConfig config = docker::test::config();
  return plan_unwalled(PlanInput{config, docker::test::order(Egress::unwalled(UnwalledEgress{}))});
}

/// `POST /path` of each call of the engine, in order.
std::vector<std::string> calls_of(const Plan& plan) {
  std::vector<std::string> calls;
  for (const Step& step : plan) {
    if (const auto call = request_of(step, kIds)) {
      calls.push_back(call->method + " " + call->target);
    }
  }
  return calls;
}

Plan lending_plan(std::map<std::string, std::string> env = {}) {
  static const DockerDriverConfig config = docker::test::config();
  SandboxOrder order = docker::test::order(docker::test::walled({"api.test", "other.test"}));
  order.spec.env = std::move(env);
  order.spec.secrets = {
      {.name = "API_KEY", .domain = "api.test", .key = "X-Key", .value = "s3cret"},
      {.name = "OTHER", .domain = "other.test", .key = "X-Key", .value = "s3cret too"}};
  return flat(
      with_trust(plan_walled(PlanInput{config, order},
                             WallInput{*Subnet::parse("10.231.0.8/29"), "sandboxkit/egress:abc"}),
                 Trust{"the certificate", "the roots"}));
}

template <typename T>
std::ptrdiff_t place_of(const Plan& plan, Part part) {
  const auto found = std::find_if(plan.begin(), plan.end(), [&](const Step& step) {
    const T* wanted = std::get_if<T>(&step);
    return wanted != nullptr && wanted->part == part;
  });
  return found - plan.begin();
}

json::Value container_body(const Plan& plan, Part part) {
  for (const Step& step : plan) {
    const auto* create = std::get_if<CreateContainer>(&step);
    if (create != nullptr && create->part == part) {
      return parsed(request_of(step, kIds)->body);
    }
  }
  return {};
}

}  // namespace

TEST_CASE("a walled sandbox is made by these calls in this order") {
  CHECK(calls_of(walled_plan()) ==
        std::vector<std::string>{
            "POST /containers/create?name=sbx-i0123456789abcdefghij-egress",
            "POST /containers/sidecar-id/start",
            "POST /networks/create",
            "POST /containers/create?name=sbx-i0123456789abcdefghij-anchor",
            "POST /containers/anchor-id/start",
            "POST /containers/create?name=sbx-i0123456789abcdefghij",
            "POST /networks/wall-id/connect",
            "POST /containers/sandbox-id/start",
        });
}

TEST_CASE("a wall that waits is made by these calls, and a sandbox in it by two") {
  CHECK(calls_of(waiting_plan()) == std::vector<std::string>{
                                        "POST /containers/create?name=sbx-wall-wall1-egress",
                                        "POST /containers/sidecar-id/start",
                                        "POST /networks/create",
                                        "POST /containers/create?name=sbx-wall-wall1-anchor",
                                        "POST /containers/anchor-id/start",
                                        "POST /networks/wall-id/connect",
                                    });
  CHECK(calls_of(taken_plan()) == std::vector<std::string>{
                                      "POST /containers/create?name=sbx-i0123456789abcdefghij",
                                      "POST /containers/sandbox-id/start",
                                  });
}

TEST_CASE("a wall that waits has no policy, and no link to anybody") {
  for (const Step& step : waiting_plan()) {
    CHECK_FALSE(std::holds_alternative<WriteFile>(step));
    CHECK_FALSE(std::holds_alternative<OpenLink>(step));
  }
}

TEST_CASE("a sandbox in a wall that waited stands as one whose wall was made for it") {
  for (const HardeningProfile profile : {HardeningProfile::kHardened, HardeningProfile::kSudo}) {
    SandboxOrder order = docker::test::order(docker::test::walled({"ok.test"}));
    order.spec.profile = profile;
    json::Object cold = *container_body(walled_plan(order), Part::kSandbox).as_object();
    json::Object taken = *container_body(taken_plan(order), Part::kSandbox).as_object();
    CHECK(at(taken, {"Labels", label::kWall}) == json::Value("wall1"));
    for (const auto& [name, value] : cold) {
      if (name != "Labels") {
        CHECK(at(taken, {name}) == value);
      }
    }
    CHECK(cold.size() == taken.size());
    // So do its proxy and its anchor, but for whose they are.
    for (const Part part : {Part::kSidecar, Part::kAnchor}) {
      const json::Value made = container_body(walled_plan(order), part);
      const json::Value waited = container_body(waiting_plan(), part);
      for (const auto& [name, value] : *made.as_object()) {
        if (name != "Labels" && name != "HostConfig") {
          CHECK(at(waited, {name}) == value);
        }
      }
      const json::Value host = at(made, {"HostConfig"});
      for (const auto& [name, value] : *host.as_object()) {
        if (name != "Mounts") {
          CHECK(at(waited, {"HostConfig", name}) == value);
        }
      }
      CHECK(at(waited, {"Labels", label::kSandbox}).is_null());
    }
  }
}

TEST_CASE("a sandbox in a wall that waited gives its proxy the policy, and then starts") {
  const Plan plan = taken_plan();
  const auto write = std::find_if(plan.begin(), plan.end(), [](const Step& step) {
    return std::holds_alternative<WriteFile>(step);
  });
  const auto link = std::find_if(plan.begin(), plan.end(), [](const Step& step) {
    return std::holds_alternative<LinkFolder>(step);
  });
  REQUIRE(write != plan.end());
  REQUIRE(link != plan.end());
  CHECK(std::get<LinkFolder>(*link).path == "/state/sandboxes/i0123456789abcdefghij/egress");
  CHECK(std::get<LinkFolder>(*link).target == "/state/walls/wall1");
  CHECK(link < write);
  CHECK(std::get<WriteFile>(*write).path ==
        "/state/sandboxes/i0123456789abcdefghij/egress/policy.json");
  // It can answer at once, and says whose policy it has.
  CHECK(place_of<OpenLink>(plan, Part::kSidecar) < write - plan.begin());
  const auto serves = place_of<AwaitHelper>(plan, Part::kSidecar);
  CHECK(write - plan.begin() < serves);
  CHECK(std::get<AwaitHelper>(plan[static_cast<std::size_t>(serves)]).policy_hash == "hash-1");
  CHECK(serves < place_of<StartContainer>(plan, Part::kSandbox));
  const Plan cold = walled_plan();
  for (const Step& step : cold) {
    if (const auto* file = std::get_if<WriteFile>(&step)) {
      CHECK(file->text == std::get<WriteFile>(*write).text);
    }
  }
}

TEST_CASE("the wall's network is internal, without an address of the host, IPv6 or default pool") {
  const Plan plan = walled_plan();
  const auto create = std::find_if(plan.begin(), plan.end(), [](const Step& step) {
    return std::holds_alternative<CreateNetwork>(step);
  });
  REQUIRE(create != plan.end());
  CHECK(parsed(request_of(*create, kIds)->body) == parsed(R"({
    "Name": "sbx-i0123456789abcdefghij", "CheckDuplicate": true, "Driver": "bridge",
    "Internal": true, "EnableIPv6": false,
    "IPAM": {"Driver": "default", "Config": [{"Subnet": "10.231.0.8/29"}]},
    "Options": {"com.docker.network.bridge.inhibit_ipv4": "true"},
    "Labels": {
      "dev.sandboxkit.controller": "ctl-1", "dev.sandboxkit.worker": "w-1",
      "dev.sandboxkit.tenant": "acme", "dev.sandboxkit.sandbox": "i0123456789abcdefghij",
      "dev.sandboxkit.generation": "3", "dev.sandboxkit.expires-at": "2023-11-14T22:13:20.000Z",
      "dev.sandboxkit.policy-hash": "hash-1", "dev.sandboxkit.role": "network",
      "dev.sandboxkit.structure": "internal-net"}})"));
}

TEST_CASE("a walled sandbox is born in a namespace that is on its internal network alone") {
  for (const Plan& plan : {walled_plan(), waiting_plan()}) {
    const json::Value anchor = container_body(plan, Part::kAnchor);
    CHECK(at(anchor, {"HostConfig", "NetworkMode"}) == json::Value("wall-id"));
    CHECK(at(anchor, {"NetworkingConfig", "EndpointsConfig"}) ==
          parsed(R"({"wall-id": {"IPAMConfig": {"IPv4Address": "10.231.0.10"}}})"));
  }
  for (const Plan& plan : {walled_plan(), taken_plan()}) {
    const json::Value body = container_body(plan, Part::kSandbox);
    CHECK(at(body, {"HostConfig", "NetworkMode"}) == json::Value("container:anchor-id"));
    CHECK(at(body, {"NetworkingConfig"}).is_null());
    CHECK(at(body, {"Hostname"}).is_null());
  }
}

TEST_CASE("a sandbox under a kernel of its own is on its internal network itself") {
  SandboxOrder order = docker::test::order(docker::test::walled({"ok.test"}));
  order.spec.runtime = "runsc";
  const json::Value body = container_body(walled_plan(order), Part::kSandbox);
  CHECK(at(body, {"HostConfig", "NetworkMode"}) == json::Value("wall-id"));
  CHECK(at(body, {"NetworkingConfig", "EndpointsConfig"}) ==
        parsed(R"({"wall-id": {"IPAMConfig": {"IPv4Address": "10.231.0.10"}}})"));
  CHECK(at(body, {"HostConfig", "Dns"}) == parsed(R"(["10.231.0.11"])"));
  CHECK(container_body(walled_plan(order), Part::kAnchor).is_null());
}

TEST_CASE("an anchor has no right, no mount and no policy") {
  const json::Value body = container_body(walled_plan(), Part::kAnchor);
  CHECK(at(body, {"Entrypoint"}) == parsed(R"(["/sandboxkit-egress", "--hold"])"));
  CHECK(at(body, {"User"}) == json::Value("65534:65534"));
  CHECK(at(body, {"HostConfig", "CapDrop"}) == parsed(R"(["ALL"])"));
  CHECK(at(body, {"HostConfig", "CapAdd"}).is_null());
  CHECK(at(body, {"HostConfig", "ReadonlyRootfs"}) == json::Value(true));
  CHECK(at(body, {"HostConfig", "Mounts"}).is_null());
  CHECK(at(body, {"HostConfig", "RestartPolicy"}).is_null());
  CHECK(at(body, {"HostConfig", "SecurityOpt"}) ==
        json::Array{docker::seccomp_option(), "no-new-privileges"});
}

TEST_CASE("no step adds a walled sandbox to another network") {
  for (const Plan& plan : {walled_plan(), waiting_plan(), taken_plan()}) {
    for (const Step& step : plan) {
      if (const auto* join = std::get_if<JoinWall>(&step)) {
        CHECK(join->part == Part::kSidecar);
      }
    }
  }
}

TEST_CASE("a walled sandbox starts only after its proxy said that it serves") {
  const Plan plan = walled_plan();
  CHECK(place_of<StartContainer>(plan, Part::kSidecar) <
        place_of<AwaitHelper>(plan, Part::kSidecar));
  CHECK(place_of<AwaitHelper>(plan, Part::kSidecar) <
        place_of<StartContainer>(plan, Part::kSandbox));
  CHECK(place_of<JoinWall>(plan, Part::kSidecar) < place_of<AwaitHelper>(plan, Part::kSidecar));
  CHECK(place_of<StartContainer>(plan, Part::kAnchor) <
        place_of<StartContainer>(plan, Part::kSandbox));
}

TEST_CASE("each helper can be heard before its container starts") {
  const Plan plan = walled_plan();
  for (const Part part : {Part::kSandbox, Part::kSidecar}) {
    CHECK(place_of<OpenLink>(plan, part) < place_of<StartContainer>(plan, part));
  }
}

TEST_CASE("a walled sandbox asks its proxy for names and for the way out") {
  const json::Value body = container_body(walled_plan(), Part::kSandbox);
  // The file of name servers is its anchor's.
  CHECK(at(body, {"HostConfig", "Dns"}).is_null());
  CHECK(at(container_body(walled_plan(), Part::kAnchor), {"HostConfig", "Dns"}) ==
        parsed(R"(["10.231.0.11"])"));
  CHECK(at(body, {"Env"}) == parsed(R"([
    "HTTPS_PROXY=http://10.231.0.11:3128", "HTTP_PROXY=http://10.231.0.11:3128",
    "NO_PROXY=localhost,127.0.0.1,::1", "http_proxy=http://10.231.0.11:3128",
    "https_proxy=http://10.231.0.11:3128", "no_proxy=localhost,127.0.0.1,::1"])"));
}

TEST_CASE("the caller's environment wins and opens nothing") {
  SandboxOrder order = docker::test::order(docker::test::walled({}));
  order.spec.env = {{"HTTP_PROXY", "http://elsewhere:1"}, {"PATH", "/opt/bin"}};
  const json::Value plain = container_body(walled_plan(), Part::kSandbox);
  const json::Value body = container_body(walled_plan(order), Part::kSandbox);
  const std::string env = json::dump(at(body, {"Env"}));
  CHECK(env.find("HTTP_PROXY=http://elsewhere:1") != std::string::npos);
  CHECK(env.find("PATH=/opt/bin") != std::string::npos);
  CHECK(at(body, {"HostConfig"}) == at(plain, {"HostConfig"}));
  CHECK(at(body, {"NetworkingConfig"}) == at(plain, {"NetworkingConfig"}));
}

TEST_CASE("the hardened profile has no way to root") {
  const json::Value body = container_body(walled_plan(), Part::kSandbox);
  CHECK(at(body, {"User"}) == json::Value("1000:1000"));
  CHECK(at(body, {"HostConfig", "CapDrop"}) == parsed(R"(["ALL"])"));
  CHECK(at(body, {"HostConfig", "CapAdd"}).is_null());
  CHECK(at(body, {"HostConfig", "SecurityOpt"}) ==
        json::Array{docker::seccomp_option(), "no-new-privileges"});
}

TEST_CASE("the sudo profile allows root in the container and nothing of the network or kernel") {
  SandboxOrder order = docker::test::order(docker::test::walled({}));
  order.spec.profile = HardeningProfile::kSudo;
  const json::Value body = container_body(walled_plan(order), Part::kSandbox);
  CHECK(at(body, {"User"}) == json::Value("0:0"));
  CHECK(at(body, {"HostConfig", "CapDrop"}) == parsed(R"(["ALL"])"));
  CHECK(at(body, {"HostConfig", "CapAdd"}) ==
        parsed(R"(["CHOWN","DAC_OVERRIDE","FOWNER","FSETID","KILL","SETGID","SETUID"])"));
  CHECK(at(body, {"HostConfig", "SecurityOpt"}) == json::Array{docker::seccomp_option()});
}

TEST_CASE("a sandbox has its limits, no ports, no privileges and read-only mounts only") {
  SandboxOrder order = docker::test::order(docker::test::walled({}));
  order.spec.memory_mb = 256;
  order.spec.cpu_cores = 0.5;
  const json::Value body = container_body(walled_plan(order), Part::kSandbox);
  CHECK(at(body, {"HostConfig", "Memory"}) == json::Value(std::int64_t{268'435'456}));
  CHECK(at(body, {"HostConfig", "MemorySwap"}) == json::Value(std::int64_t{268'435'456}));
  CHECK(at(body, {"HostConfig", "NanoCpus"}) == json::Value(std::int64_t{500'000'000}));
  CHECK(at(body, {"HostConfig", "PidsLimit"}) == json::Value(std::int64_t{1024}));
  for (const char* absent : {"PortBindings", "PublishAllPorts", "Privileged", "Binds", "Devices",
                             "PidMode", "ExtraHosts", "VolumesFrom"}) {
    CAPTURE(absent);
    CHECK(at(body, {"HostConfig", absent}).is_null());
  }
  CHECK(at(body, {"HostConfig", "Mounts"}) == parsed(R"([
    {"Type": "bind", "Source": "/bin/guest", "Target": "/sbin/sandboxkit-guest", "ReadOnly": true},
    {"Type": "bind", "Source": "/state/sandboxes/i0123456789abcdefghij/guest",
     "Target": "/run/sandboxkit", "ReadOnly": true}])"));
}

TEST_CASE("the guest is the entrypoint whatever the image says, and nothing else runs") {
  const json::Value body = container_body(open_plan(), Part::kSandbox);
  CHECK(at(body, {"Healthcheck"}) == parsed(R"({"Test": ["NONE"]})"));
  CHECK(at(body, {"Entrypoint"}) == parsed(R"(["/sbin/sandboxkit-guest"])"));
  CHECK(at(body, {"Cmd"}) == parsed("[]"));
}

TEST_CASE("the proxy goes out by the shared network and routes nothing") {
  const json::Value body = container_body(walled_plan(), Part::kSidecar);
  CHECK(at(body, {"HostConfig", "NetworkMode"}) == json::Value("shared-id"));
  CHECK(at(body, {"HostConfig", "Sysctls", "net.ipv4.ip_forward"}) == json::Value("0"));
  CHECK(at(body, {"HostConfig", "CapDrop"}) == parsed(R"(["ALL"])"));
  CHECK(at(body, {"HostConfig", "CapAdd"}).is_null());
  CHECK(at(body, {"HostConfig", "ReadonlyRootfs"}) == json::Value(true));
  CHECK(at(body, {"HostConfig", "SecurityOpt"}) ==
        json::Array{docker::seccomp_option(), "no-new-privileges"});
  CHECK(at(body, {"User"}) == json::Value("65534:65534"));
  CHECK(at(body, {"Env"}).is_null());
}

TEST_CASE("a proxy waits for its policy, which is there once its wall has it") {
  const Plan plan = walled_plan();
  const auto write = std::find_if(plan.begin(), plan.end(), [](const Step& step) {
    return std::holds_alternative<WriteFile>(step);
  });
  REQUIRE(write != plan.end());
  CHECK(at(container_body(plan, Part::kSidecar), {"Entrypoint"}) ==
        parsed(R"(["/sandboxkit-egress", "--await-policy"])"));
  CHECK(place_of<JoinWall>(plan, Part::kSidecar) < write - plan.begin());
  CHECK(write - plan.begin() < place_of<AwaitHelper>(plan, Part::kSidecar));
  const auto& file = std::get<WriteFile>(*write);
  CHECK(file.path == "/state/sandboxes/i0123456789abcdefghij/egress/policy.json");
  CHECK(parsed(file.text) == parsed(R"({
    "listen": "10.231.0.11:3128", "dns_listen": "10.231.0.11:53", "allowed_domains": ["ok.test"],
    "allowed_networks": [], "dns_servers": ["192.0.2.53"],
    "hosts": {"packages.test": "172.30.0.2"}, "policy_hash": "hash-1",
    "refused_networks": ["203.0.113.7/32"]})"));
}

TEST_CASE("strict TLS reaches the proxy's policy") {
  const EgressPolicy strict = docker::test::walled({"ok.test"}).policy()->with_strict_tls();
  const Plan plan = walled_plan(docker::test::order(Egress::walled(strict)));
  const auto write = std::find_if(plan.begin(), plan.end(), [](const Step& step) {
    return std::holds_alternative<WriteFile>(step);
  });
  REQUIRE(write != plan.end());
  CHECK(at(parsed(std::get<WriteFile>(*write).text), {"strict_tls"}) == json::Value(true));
}

TEST_CASE("an unwalled sandbox has the open network, no proxy and the engine's resolver") {
  const Plan plan = open_plan();
  CHECK(calls_of(plan) == std::vector<std::string>{
                              "POST /containers/create?name=sbx-i0123456789abcdefghij",
                              "POST /containers/sandbox-id/start",
                          });
  const json::Value body = container_body(plan, Part::kSandbox);
  CHECK(at(body, {"HostConfig", "NetworkMode"}) == json::Value("shared-id"));
  CHECK(at(body, {"HostConfig", "Dns"}).is_null());
  CHECK(at(body, {"Env"}) == parsed("[]"));
  CHECK(at(body, {"Labels", label::kPolicyHash}) == json::Value(""));
}

TEST_CASE("containers of a shared network cannot talk to each other") {
  for (const Role role : {Role::kEgressNetwork, Role::kOpenNetwork}) {
    const json::Value body =
        shared_network_body(docker::test::owner(), role, *Subnet::parse("10.231.4.0/22"));
    CHECK(at(body, {"Options", "com.docker.network.bridge.enable_icc"}) == json::Value("false"));
    CHECK(at(body, {"EnableIPv6"}) == json::Value(false));
  }
}

TEST_CASE("a runtime is named only when the order names one") {
  SandboxOrder order = docker::test::order(docker::test::walled({}));
  CHECK(
      at(container_body(walled_plan(order), Part::kSandbox), {"HostConfig", "Runtime"}).is_null());
  order.spec.runtime = "runsc";
  CHECK(at(container_body(walled_plan(order), Part::kSandbox), {"HostConfig", "Runtime"}) ==
        json::Value("runsc"));
}

TEST_CASE("an isolated sandbox is one container, and no call gives it a network") {
  CHECK(calls_of(isolated_plan()) == std::vector<std::string>{
                                         "POST /containers/create?name=sbx-i0123456789abcdefghij",
                                         "POST /containers/sandbox-id/start",
                                     });
  const json::Value body = container_body(isolated_plan(), Part::kSandbox);
  CHECK(at(body, {"HostConfig", "NetworkMode"}) == json::Value("none"));
  CHECK(at(body, {"NetworkingConfig"}).is_null());
  CHECK(at(body, {"Labels", label::kStructure}) == json::Value("isolated-ns"));
}

TEST_CASE("an isolated sandbox is handed over only when its proxy serves on the guest's socket") {
  const Plan plan = isolated_plan();
  const auto index_of = [&](const auto& is) {
    return std::find_if(plan.begin(), plan.end(), is) - plan.begin();
  };
  const auto keep = index_of([](const Step& s) { return std::holds_alternative<KeepProxy>(s); });
  const auto open = index_of([](const Step& s) {
    const auto* link = std::get_if<OpenLink>(&s);
    return link != nullptr && link->part == Part::kSandbox && link->takes_listener;
  });
  const auto write = index_of([](const Step& s) { return std::holds_alternative<WriteFile>(s); });
  CHECK(write < keep);
  CHECK(keep < open);
  CHECK(open < place_of<StartContainer>(plan, Part::kSandbox));
  CHECK(std::holds_alternative<AwaitProxy>(plan.back()));
  CHECK(at(container_body(plan, Part::kSandbox), {"Entrypoint"}) ==
        parsed(R"(["/sbin/sandboxkit-guest", "--proxy-listener", "127.0.0.1:3128"])"));
}

TEST_CASE("only an isolated sandbox's guest may pass a socket") {
  for (const Plan& plan : {walled_plan(), open_plan()}) {
    for (const Step& step : plan) {
      const auto* link = std::get_if<OpenLink>(&step);
      CHECK_FALSE((link != nullptr && link->takes_listener));
      CHECK_FALSE(std::holds_alternative<KeepProxy>(step));
    }
  }
}

TEST_CASE("an isolated sandbox learns nothing of the host's name servers, and its lookups fail") {
  const json::Value body = container_body(isolated_plan(), Part::kSandbox);
  CHECK(at(body, {"HostConfig", "Dns"}) == parsed(R"(["127.0.0.1"])"));
  CHECK(at(body, {"HostConfig", "DnsSearch"}) == parsed(R"(["."])"));
  CHECK(at(body, {"HostConfig", "DnsOptions"}) == parsed(R"(["timeout:1", "attempts:1"])"));
  CHECK(at(body, {"Hostname"}) == json::Value("sandbox"));
  CHECK(at(body, {"Env"}) == parsed(R"([
    "HTTPS_PROXY=http://127.0.0.1:3128", "HTTP_PROXY=http://127.0.0.1:3128",
    "NO_PROXY=localhost,127.0.0.1,::1", "http_proxy=http://127.0.0.1:3128",
    "https_proxy=http://127.0.0.1:3128", "no_proxy=localhost,127.0.0.1,::1"])"));
}

TEST_CASE("an isolated sandbox has the same limits, mounts and capabilities as one on a network") {
  for (const HardeningProfile profile : {HardeningProfile::kHardened, HardeningProfile::kSudo}) {
    SandboxOrder order = docker::test::order(docker::test::walled({}));
    order.spec.profile = profile;
    const json::Value on_net = container_body(walled_plan(order), Part::kSandbox);
    const json::Value alone = container_body(isolated_plan(order), Part::kSandbox);
    const json::Value expected = at(on_net, {"HostConfig"});
    for (const auto& [name, value] : *expected.as_object()) {
      if (name != "NetworkMode" && name != "Dns") {
        const auto& shown = name;  // A lambda of clang 14 takes no structured binding.
        CAPTURE(shown);
        CHECK(at(alone, {"HostConfig", name}) == value);
      }
    }
    CHECK(at(alone, {"User"}) == at(on_net, {"User"}));
  }
}

TEST_CASE("a proxy on the host refuses the networks of the worker's containers") {
  const Plan plan = isolated_plan();
  const auto write = std::find_if(plan.begin(), plan.end(), [](const Step& step) {
    return std::holds_alternative<WriteFile>(step);
  });
  REQUIRE(write != plan.end());
  const auto& file = std::get<WriteFile>(*write);
  CHECK(file.path == "/state/sandboxes/i0123456789abcdefghij/egress/policy.json");
  CHECK(parsed(file.text) == parsed(R"({
    "listen": "127.0.0.1:3128", "allowed_domains": ["ok.test"], "allowed_networks": [],
    "dns_servers": ["192.0.2.53"], "hosts": {"packages.test": "172.30.0.2"},
    "policy_hash": "hash-1", "refused_networks": ["10.231.0.0/16"]})"));
}

TEST_CASE("a sandbox trusts the authority of its lent secrets before it runs") {
  const Plan plan = lending_plan();
  const auto trust = std::find_if(plan.begin(), plan.end(), [](const Step& step) {
    return std::holds_alternative<TrustAuthority>(step);
  });
  REQUIRE(trust != plan.end());
  CHECK(std::get<TrustAuthority>(*trust).certificate == "the certificate");
  CHECK(trust - plan.begin() > place_of<CreateContainer>(plan, Part::kSandbox));
  CHECK(trust - plan.begin() < place_of<StartContainer>(plan, Part::kSandbox));
  const Plan without = walled_plan();
  CHECK(std::none_of(without.begin(), without.end(), [](const Step& step) {
    return std::holds_alternative<TrustAuthority>(step);
  }));
}

TEST_CASE("a plan names lent secrets, and no step of it holds a value") {
  const Plan plan = lending_plan({{"PIP_CERT", "/mine"}});
  std::string all;
  for (const Step& step : plan) {
    if (const auto* file = std::get_if<WriteFile>(&step)) {
      all += file->text;
    }
    if (const auto call = request_of(step, kIds)) {
      all += call->target + call->body;
    }
  }
  CHECK(all.find("s3cret") == std::string::npos);
  CHECK(all.find(R"("lent":["api.test:443","other.test:443"])") != std::string::npos);
  const std::string env = json::dump(at(container_body(plan, Part::kSandbox), {"Env"}));
  CHECK(env.find("API_KEY=sandboxkit-secret-API_KEY") != std::string::npos);
  CHECK(env.find("NODE_EXTRA_CA_CERTS=/usr/local/share/ca-certificates/sandboxkit-lent.crt") !=
        std::string::npos);
  CHECK(env.find("PIP_CERT=/mine") != std::string::npos);  // The caller's word wins.
}

TEST_CASE("an isolated sandbox joins a holder's namespace, and differs in nothing else") {
  static const DockerDriverConfig config = docker::test::config();
  const SandboxOrder order = docker::test::order(docker::test::walled({"ok.test"}));
  const Plan plan =
      plan_isolated(PlanInput{config, order}, IsolatedInput{.refused = {}, .has_holder = true});
  Ids ids = kIds;
  ids.holder = "holder-id";
  json::Value joined;
  for (const Step& step : plan) {
    if (std::holds_alternative<CreateContainer>(step)) {
      joined = parsed(request_of(step, ids)->body);
    }
  }
  const json::Value alone = container_body(isolated_plan(order), Part::kSandbox);
  CHECK(at(joined, {"HostConfig", "NetworkMode"}) == json::Value("container:holder-id"));
  CHECK(at(joined, {"Hostname"}).is_null());
  for (const char* same : {"Image", "User", "Entrypoint", "Env", "Labels"}) {
    CAPTURE(same);
    CHECK(at(joined, {same}) == at(alone, {same}));
  }
  const json::Value expected = at(alone, {"HostConfig"});
  for (const auto& [name, value] : *expected.as_object()) {
    if (name != "NetworkMode" && !name.starts_with("Dns")) {
      const auto& shown = name;  // A lambda of clang 14 takes no structured binding.
      CAPTURE(shown);
      CHECK(at(joined, {"HostConfig", name}) == value);
    }
  }
}

TEST_CASE("a holder has no network, no right, and the names that its sandbox will have") {
  const json::Value body = holder_body(docker::test::owner(), "sandboxkit/egress:abc");
  const json::Value alone = container_body(isolated_plan(), Part::kSandbox);
  CHECK(at(body, {"HostConfig", "NetworkMode"}) == json::Value("none"));
  CHECK(at(body, {"HostConfig", "CapDrop"}) == parsed(R"(["ALL"])"));
  CHECK(at(body, {"HostConfig", "ReadonlyRootfs"}) == json::Value(true));
  CHECK(at(body, {"User"}) == json::Value("65534:65534"));
  CHECK(at(body, {"Hostname"}) == at(alone, {"Hostname"}));
  for (const char* name : {"Dns", "DnsSearch", "DnsOptions"}) {
    CHECK(at(body, {"HostConfig", name}) == at(alone, {"HostConfig", name}));
  }
  CHECK(at(body, {"Labels", label::kRole}) == json::Value("holder"));
}
