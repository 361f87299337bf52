// The wall with the real guest and the real proxy, attacked from inside.
#include "docker/observed.h"
#include "tests/docker/house.h"
#include "tests/docker/upstream.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>

using namespace sandboxkit;        // NOLINT(google-build-using-namespace)
using namespace sandboxkit::test;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::chrono::seconds kSoon{40};

struct Walled {
  Upstream upstream;
  std::string host = host_address();
  House house;
  SandboxOrder order = house.walled({"packages.test:" + upstream.port()});

  explicit Walled(EgressStructure structure = EgressStructure::kInternalNet)
      : house{{.real_helpers = true,
               .hosts = {"packages.test=" + host, "other.test=" + host},
               .structure = structure}} {
    REQUIRE(problem(house.driver().create(order, {})) == "");
  }

  House::Output fetch(const std::string& url) {
    return house.shell(order.sandbox, "timeout 20 wget -q -O - " + url);
  }
  House::Output fetch_package() { return fetch("http://packages.test:" + upstream.port() + "/"); }
  std::string wall_address(const char* last) {
    const json::Value anchor = house.inspect(docker::anchor_name(order.sandbox));
    const auto* networks = anchor.find("NetworkSettings")->find("Networks")->as_object();
    REQUIRE(networks->size() == 1);
    const std::string gateway = networks->front().second.text("IPAddress");
    const std::size_t dot = gateway.rfind('.');
    const int base = std::stoi(gateway.substr(dot + 1)) - 2;
    return gateway.substr(0, dot + 1) + std::to_string(base + std::stoi(last));
  }
};

constexpr EgressStructure kStructures[] = {EgressStructure::kInternalNet,
                                           EgressStructure::kIsolatedNs};

/// The line of `/proc/<pid>/status` with that name, without it.
std::string status_line(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":\t")) {
      return line.substr(name.size() + 2);
    }
  }
  return "no such line";
}

/// The proxy processes of this house on this host.
std::vector<pid_t> proxies(const House& house) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string words(std::istreambuf_iterator<char>(file), {});
    if (words.find("--listener-fd") != std::string::npos &&
        words.find(house.config().state_dir + "/") != std::string::npos) {
      found.push_back(std::stoi(entry.path().filename().string()));
    }
  }
  return found;
}

/// Runs a shell command by the engine, without the guest, and returns its exit code.
std::int64_t engine_exec(House& house, const SandboxId& sandbox, const std::string& script) {
  const json::Value order = json::Object{{"Cmd", json::Array{"/bin/sh", "-c", script}}};
  const auto made =
      house.engine().call({.method = "POST",
                           .target = "/containers/" + docker::sandbox_name(sandbox) + "/exec",
                           .body = json::dump(order)});
  REQUIRE_MESSAGE(made.has_value(), problem(made));
  house.meddle("POST", "/exec/" + made->text("Id") + "/start", R"({"Detach":true})");
  std::int64_t code = -1;
  CHECK(becomes_true(
      [&] {
        const auto now = house.engine().get("/exec/" + made->text("Id") + "/json");
        const json::Value* running = now ? now->find("Running") : nullptr;
        code = now ? now->integer("ExitCode", -1) : -1;
        return running != nullptr && *running == json::Value(false) && code >= 0;
      },
      kSoon));
  return code;
}

bool have_helpers() {
  if (programs().guest.empty() || programs().egress.empty()) {
    MESSAGE("the helpers are not built: not run");
    return false;
  }
  return true;
}

}  // namespace

// Complaint 67: some destinations are allowed though no list names them.
TEST_CASE("a walled sandbox reaches what its list names through its proxy, and nothing else") {
  if (!have_helpers()) {
    return;
  }
  for (const EgressStructure structure : kStructures) {
    const bool isolated = structure == EgressStructure::kIsolatedNs;
    CAPTURE(isolated);
    Walled world(structure);
    const auto reports = world.house.driver().list();
    REQUIRE(reports);
    CHECK(reports->front().structure == (isolated ? "isolated-ns" : "internal-net"));
    CHECK(world.fetch_package().text == "packages\n");
    CHECK(world.upstream.visits() == 1);

    const std::string port = world.upstream.port();
    CHECK(world.fetch("http://other.test:" + port + "/").exit_code != 0);
    CHECK(world.fetch("http://" + world.host + ":" + port + "/").exit_code != 0);
    const auto denied = world.house.driver().denied(world.order.sandbox);
    REQUIRE_MESSAGE(denied.has_value(), problem(denied));
    REQUIRE(denied->size() == 2);
    CHECK(denied->front().host == "other.test");
    CHECK(std::to_string(denied->front().port) == port);
    CHECK(denied->front().count == 1);
    CHECK(denied->back().host == world.host);

    // Past the proxy: this machine's addresses, the wall's gateway, the engine's resolver.
    for (const std::string& address :
         {world.host, isolated ? std::string("169.254.169.254") : world.wall_address("1")}) {
      CAPTURE(address);
      CHECK(
          world.house.shell(world.order.sandbox, "nc -w 3 " + address + " " + port + " </dev/null")
              .exit_code != 0);
    }
    CHECK(world.house.shell(world.order.sandbox, "timeout 10 nslookup packages.test").exit_code !=
          0);
    CHECK(world.upstream.visits() == 1);
  }
}

TEST_CASE("an isolated sandbox has loopback alone, and a lookup fails at once") {
  if (!have_helpers()) {
    return;
  }
  Walled world(EgressStructure::kIsolatedNs);
  const SandboxId& sandbox = world.order.sandbox;
  CHECK(world.house.shell(sandbox, "ls /sys/class/net").text == "lo\n");
  CHECK(world.house.shell(sandbox, "cat /proc/net/route").text.find("\n") ==
        world.house.shell(sandbox, "cat /proc/net/route").text.size() - 1);
  const std::string resolver = world.house.shell(sandbox, "cat /etc/resolv.conf").text;
  CHECK(resolver == "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n");
  CHECK(world.house.shell(sandbox, "cat /proc/sys/kernel/hostname").text == "sandbox\n");
  const auto before = std::chrono::steady_clock::now();
  CHECK(world.house.shell(sandbox, "ping -c 1 packages.test").exit_code != 0);
  CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(5));
}

TEST_CASE("the proxy process of an isolated sandbox has no right and no descriptor to spare") {
  if (!have_helpers()) {
    return;
  }
  const io::Fd leaked(open("/dev/null", O_RDWR));  // Not close-on-exec, as a careless library's.
  Walled world(EgressStructure::kIsolatedNs);
  const auto found = proxies(world.house);
  REQUIRE(found.size() == 1);
  const pid_t pid = found.front();
  CHECK(status_line(pid, "Uid") == "65534\t65534\t65534\t65534");
  CHECK(status_line(pid, "Gid") == "65534\t65534\t65534\t65534");
  CHECK(status_line(pid, "Groups").find_first_not_of(' ') == std::string::npos);
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
    CAPTURE(set);
    CHECK(status_line(pid, set) == "0000000000000000");
  }
  CHECK(status_line(pid, "NoNewPrivs") == "1");
  CHECK(status_line(pid, "Threads") == "1");
  const std::string proc = "/proc/" + std::to_string(pid);
  CHECK(std::filesystem::read_symlink(proc + "/root") ==
        world.house.config().state_dir + "/sandboxes/" + world.order.sandbox.str() + "/egress");
  std::ifstream environment(proc + "/environ");
  CHECK(std::string(std::istreambuf_iterator<char>(environment), {}).empty());
  std::set<std::string> kinds;
  for (const auto& entry : std::filesystem::directory_iterator(proc + "/fd")) {
    const std::string target = std::filesystem::read_symlink(entry.path()).string();
    kinds.insert(target.substr(0, target.find_first_of(":[")));
    if (std::stoi(entry.path().filename()) > 2) {
      CHECK(target != "/dev/null");
    }
  }
  for (const std::string& kind : kinds) {
    CAPTURE(kind);
    CHECK((kind == "/dev/null" || kind == "pipe" || kind == "socket" || kind == "anon_inode" ||
           kind == "/decisions.0.log" || kind == "/decisions.1.log" ||
           kind.ends_with("/egress/decisions.0.log") || kind.ends_with("/egress/decisions.1.log")));
  }
  CHECK(problem(world.house.driver().remove(world.order.sandbox)) == "");
  CHECK(proxies(world.house).empty());
  CHECK(world.house.leftovers() == "");
}

TEST_CASE("a proxy process that dies or is stopped opens nothing, and comes back as it was") {
  if (!have_helpers()) {
    return;
  }
  Walled world(EgressStructure::kIsolatedNs);
  auto found = proxies(world.house);
  REQUIRE(found.size() == 1);
  REQUIRE(kill(found.front(), SIGSTOP) == 0);
  CHECK(world.house
            .shell(world.order.sandbox,
                   "timeout 3 wget -q -O - http://packages.test:" + world.upstream.port())
            .exit_code != 0);
  CHECK(world.upstream.visits() == 0);
  REQUIRE(kill(found.front(), SIGKILL) == 0);
  CHECK(becomes_true([&] { return world.fetch_package().text == "packages\n"; }, kSoon));
  CHECK(proxies(world.house) != found);
  CHECK(world.fetch("http://other.test:" + world.upstream.port() + "/").exit_code != 0);
  const auto denied = world.house.driver().denied(world.order.sandbox);
  REQUIRE_MESSAGE(denied.has_value(), problem(denied));
  CHECK(denied->size() == 1);
}

TEST_CASE(
    "a worker that restarts takes over an isolated sandbox; while it is away nothing goes out") {
  if (!have_helpers()) {
    return;
  }
  Walled world(EgressStructure::kIsolatedNs);
  world.house.stop_driver();
  CHECK(becomes_true([&] { return proxies(world.house).empty(); }, kSoon));
  CHECK(engine_exec(world.house, world.order.sandbox,
                    "timeout 5 wget -q -O - http://packages.test:" + world.upstream.port()) != 0);
  CHECK(world.upstream.visits() == 0);
  world.house.restart_driver();
  const auto reports = world.house.driver().adopt();
  REQUIRE(reports);
  REQUIRE(reports->size() == 1);
  CHECK(reports->front().state == SandboxState::kRunning);
  CHECK(reports->front().structure == "isolated-ns");
  CHECK(world.house.shell(world.order.sandbox, "cat /tmp/done").text != "0\n");
  CHECK(becomes_true([&] { return world.fetch_package().text == "packages\n"; }, kSoon));
  CHECK(world.fetch("http://other.test:" + world.upstream.port() + "/").exit_code != 0);
  CHECK(proxies(world.house).size() == 1);
}

TEST_CASE("a policy that names the worker's own networks does not lift them for an isolated one") {
  if (!have_helpers()) {
    return;
  }
  Upstream upstream;
  House house{{.real_helpers = true, .structure = EgressStructure::kIsolatedNs}};
  SandboxOrder order = house.walled();
  const auto policy = EgressPolicy::create(
      {}, std::vector<std::string>{"10.231.0.0/16:80", "172.16.0.0/12:" + upstream.port(),
                                   "127.0.0.0/8:" + upstream.port()});
  REQUIRE_MESSAGE(policy.has_value(), problem(policy));
  order.spec.egress = Egress::walled(*policy);
  REQUIRE(problem(house.driver().create(order, {})) == "");
  for (const std::string& host : {host_address(), std::string("127.0.0.1")}) {
    const House::Output said = house.shell(
        order.sandbox, "timeout 10 wget -S -O - http://" + host + ":" + upstream.port() + "/ 2>&1");
    CHECK(said.exit_code != 0);
    CHECK(said.text.find("403") != std::string::npos);
  }
  CHECK(house.shell(order.sandbox, "timeout 10 wget -S -O - http://10.231.7.7/ 2>&1")
            .text.find("403") != std::string::npos);
  CHECK(upstream.visits() == 0);
}

TEST_CASE("while the proxy is dead nothing goes out, and it comes back with the same policy") {
  if (!have_helpers()) {
    return;
  }
  Walled world;
  const std::string sidecar = docker::sidecar_name(world.order.sandbox);
  world.house.meddle("POST", "/containers/" + sidecar + "/pause");
  CHECK(world.house
            .shell(world.order.sandbox,
                   "timeout 3 wget -q -O - http://packages.test:" + world.upstream.port())
            .exit_code != 0);
  world.house.meddle("POST", "/containers/" + sidecar + "/unpause");
  const auto pid = static_cast<pid_t>(world.house.inspect(sidecar).find("State")->integer("Pid"));
  REQUIRE(pid > 1);
  REQUIRE(kill(pid, SIGKILL) == 0);  // As a crash or the kernel's out-of-memory killer.
  CHECK(becomes_true([&] { return world.fetch_package().text == "packages\n"; }, kSoon));
  CHECK(world.fetch("http://other.test:" + world.upstream.port() + "/").exit_code != 0);
  CHECK(becomes_true(
      [&] {
        const auto denied = world.house.driver().denied(world.order.sandbox);
        return denied && denied->size() == 1;
      },
      kSoon));
}

TEST_CASE(
    "a proxy that was killed by an order stays away: nothing goes out, the sandbox is stopped") {
  if (!have_helpers()) {
    return;
  }
  Walled world;
  world.house.meddle("POST", "/containers/" + docker::sidecar_name(world.order.sandbox) + "/kill");
  CHECK(world.fetch_package().exit_code != 0);
  CHECK(world.upstream.visits() == 0);
  CHECK_FALSE(world.house.driver().denied(world.order.sandbox).has_value());
  CHECK(world.house.driver().list()->front().reason == "no wall: its egress proxy is exited");
  CHECK(world.house.leftovers() == "");
}

TEST_CASE("one walled sandbox reaches neither another one nor its proxy") {
  if (!have_helpers()) {
    return;
  }
  Walled world;
  const SandboxOrder other = world.house.walled({"packages.test:" + world.upstream.port()});
  REQUIRE(problem(world.house.driver().create(other, {})) == "");
  const std::string sidecar = world.wall_address("3");
  CHECK(world.house.shell(other.sandbox, "nc -w 3 " + sidecar + " 3128 </dev/null").exit_code != 0);
  CHECK(
      world.house.shell(world.order.sandbox, "nc -w 3 " + sidecar + " 3128 </dev/null").exit_code ==
      0);
}

TEST_CASE("an unwalled sandbox goes out directly and reaches no other sandbox") {
  if (!have_helpers()) {
    return;
  }
  Upstream upstream;
  House house{{.real_helpers = true}};
  const SandboxOrder one = house.unwalled();
  const SandboxOrder two = house.unwalled();
  REQUIRE(problem(house.driver().create(one, {})) == "");
  REQUIRE(problem(house.driver().create(two, {})) == "");
  const std::string url = "http://" + host_address() + ":" + upstream.port() + "/";
  CHECK(house.shell(one.sandbox, "timeout 20 wget -q -O - " + url).text == "packages\n");
  const json::Value seen = house.inspect(docker::sandbox_name(two.sandbox));
  const auto* networks = seen.find("NetworkSettings")->find("Networks")->as_object();
  REQUIRE(networks->size() == 1);
  CHECK(house
            .shell(one.sandbox, "ping -c 1 -W 2 " + networks->front().second.text("IPAddress") +
                                    " || true; " + "nc -w 3 " +
                                    networks->front().second.text("IPAddress") + " 80 </dev/null")
            .text.find("refused") == std::string::npos);
}

TEST_CASE("with the real guest as well, nobody in a sandbox takes the guest's place") {
  if (!have_helpers()) {
    return;
  }
  House house{{.real_helpers = true}};
  SandboxOrder order = house.walled();
  order.spec.profile = HardeningProfile::kSudo;
  REQUIRE(problem(house.driver().create(order, {})) == "");
  const SandboxId& sandbox = order.sandbox;
  CHECK(house.shell(sandbox, "rm /run/sandboxkit/guest.sock").exit_code != 0);
  CHECK(house.shell(sandbox, "kill -9 1; ls -l /proc/1/exe /proc/1/fd").exit_code != 0);
  house.shell(sandbox, "/sbin/sandboxkit-guest >/dev/null 2>&1 & echo started");
  CHECK(house.shell(sandbox, "echo $PPID").text == "1\n");
  house.restart_driver();
  REQUIRE(house.driver().adopt());
  CHECK(house.shell(sandbox, "echo $PPID").text == "1\n");
}

TEST_CASE("the real probe proves both walls from inside, and the stronger one is used") {
  if (!have_helpers()) {
    return;
  }
  House house{{.real_helpers = true, .structure = EgressStructure::kAuto}};
  const auto found = house.driver().probe();
  REQUIRE_MESSAGE(found.has_value(), problem(found));
  CHECK(found->problems == std::vector<std::string>{});
  CHECK(found->capabilities ==
        std::vector<std::string>{"egress", "egress.internal-net", "egress.isolated-ns", "secrets"});
  CHECK(house.leftovers() == "");
  CHECK(proxies(house).empty());
  SandboxOrder order = house.walled();
  REQUIRE(problem(house.driver().create(order, {})) == "");
  CHECK(house.driver().list()->front().structure == "isolated-ns");
}

TEST_CASE("a worker whose structure does not stand offers no wall, and says why") {
  if (!have_helpers()) {
    return;
  }
  // A stub in the guest's place passes no socket out.
  House house{
      {.create_timeout = std::chrono::seconds(8), .structure = EgressStructure::kIsolatedNs}};
  const auto found = house.driver().probe();
  REQUIRE_MESSAGE(found.has_value(), problem(found));
  CHECK(found->capabilities == std::vector<std::string>{});
  REQUIRE_FALSE(found->problems.empty());
  CHECK(found->problems.front().starts_with("egress.isolated-ns: "));
  CHECK(house.leftovers() == "");
}

TEST_CASE("a walled sandbox that somebody puts on another network is stopped and reported") {
  if (!have_helpers()) {
    return;
  }
  for (const EgressStructure structure : kStructures) {
    const bool isolated = structure == EgressStructure::kIsolatedNs;
    CAPTURE(isolated);
    Walled world(structure);
    std::mutex mutex;
    std::vector<DriverEvent> events;
    world.house.driver().on_event([&](const DriverEvent& event) {
      const std::lock_guard lock(mutex);
      events.push_back(event);
    });
    const auto body_for = [](const std::string& name) {
      return json::dump(json::Object{{"Container", name}, {"Force", true}});
    };
    const std::string body = body_for(docker::sandbox_name(world.order.sandbox));
    // The engine itself refuses a second network beside none, and any in another's namespace.
    CHECK_FALSE(world.house.engine()
                    .call({.method = "POST", .target = "/networks/bridge/connect", .body = body})
                    .has_value());
    if (isolated) {
      world.house.meddle("POST", "/networks/none/disconnect", body);
    }
    static_cast<void>(world.house.engine().call(
        {.method = "POST",
         .target = "/networks/bridge/connect",
         .body = isolated ? body : body_for(docker::anchor_name(world.order.sandbox))}));
    CHECK(becomes_true([&] { return world.house.leftovers().empty(); }, kSoon));
    CHECK(becomes_true(
        [&] {
          const std::lock_guard lock(mutex);
          return events.size() == 1 && events[0].sandbox == world.order.sandbox &&
                 events[0].reason.starts_with("no wall: ");
        },
        kSoon));
    CHECK(proxies(world.house).empty());
    CHECK(world.house.driver().list()->empty());
  }
}

TEST_CASE("a list stops walled sandboxes whose wall is gone or another one, and says why") {
  if (!have_helpers()) {
    return;
  }
  for (const EgressStructure structure : kStructures) {
    Walled world(structure);
    const std::string folder =
        world.house.config().state_dir + "/sandboxes/" + world.order.sandbox.str();
    std::ofstream(folder + "/egress/policy.json") << R"({"policy_hash": "another"})";
    const auto reports = world.house.driver().list();
    REQUIRE(reports);
    REQUIRE(reports->size() == 1);
    CHECK(reports->front().state == SandboxState::kError);
    CHECK(reports->front().reason ==
          "no wall: its policy file is not the one that it was made with");
    CHECK(world.house.leftovers() == "");
    CHECK(world.house.driver().list()->empty());
  }
}

TEST_CASE(
    "a holder lends its namespace once and goes; without one a sandbox is made all the same") {
  if (!have_helpers()) {
    return;
  }
  House house{{.real_helpers = true, .structure = EgressStructure::kIsolatedNs, .wall_pool = 1}};
  REQUIRE(house.driver().probe());
  std::set<std::string> used;
  const auto holders = [&] {
    std::set<std::string> found;
    const auto all = house.engine().get("/containers/json?" + docker::filters_for(house.owner()));
    REQUIRE(all);
    for (const json::Value& entry : *all->as_array()) {
      if (docker::has_role(entry.find("Labels"), house.owner(), docker::Role::kHolder)) {
        found.insert(entry.text("Id"));
      }
    }
    return found;
  };
  for (int i = 0; i < 2; ++i) {
    CHECK(becomes_true([&] { return holders().size() == 1; }, kSoon));
    const std::string holder = *holders().begin();
    CHECK(used.insert(holder).second);
    const SandboxOrder order = house.walled();
    REQUIRE(problem(house.driver().create(order, {})) == "");
    const json::Value made = house.inspect(docker::sandbox_name(order.sandbox));
    CHECK(made.find("HostConfig")->text("NetworkMode") == "container:" + holder);
    CHECK(becomes_true([&] { return !holders().contains(holder); }, kSoon));
    CHECK(house.shell(order.sandbox, "ls /sys/class/net").text == "lo\n");
    CHECK(house.shell(order.sandbox, "cat /proc/sys/kernel/hostname").text == "sandbox\n");
    CHECK(house.shell(order.sandbox, "cat /etc/resolv.conf").text ==
          "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n");
    // The engine lets nobody put that namespace on a network.
    const std::string body =
        json::dump(json::Object{{"Container", docker::sandbox_name(order.sandbox)}});
    CHECK_FALSE(house.engine()
                    .call({.method = "POST", .target = "/networks/bridge/connect", .body = body})
                    .has_value());
  }
  // One that somebody killed makes the create slower, not worse.
  CHECK(becomes_true([&] { return holders().size() == 1; }, kSoon));
  house.meddle("POST", "/containers/" + *holders().begin() + "/kill");
  const SandboxOrder order = house.walled();
  CHECK(problem(house.driver().create(order, {})) == "");
  CHECK(house.shell(order.sandbox, "ls /sys/class/net").text == "lo\n");

  house.restart_driver();
  const auto kept = house.driver().adopt();
  REQUIRE(kept);
  CHECK(kept->size() == 3);
  for (const SandboxReport& report : *kept) {
    CHECK(report.state == SandboxState::kRunning);
    CHECK(problem(house.driver().remove(report.sandbox)) == "");
  }
  CHECK(holders().empty());
  CHECK(house.leftovers() == "");
}

TEST_CASE("a guest that finds an interface besides loopback where none may be does not start") {
  if (!have_helpers()) {
    return;
  }
  House house{{.real_helpers = true, .structure = EgressStructure::kIsolatedNs}};
  const json::Value mount =
      json::Object{{"Type", "bind"},
                   {"Source", std::filesystem::absolute(house.config().guest_binary).string()},
                   {"Target", "/guest"},
                   {"ReadOnly", true}};
  const auto made = house.engine().call(
      {.method = "POST",
       .target = "/containers/create",
       .body = json::dump(json::Object{
           {"Image", test_image()},
           {"Entrypoint",
            json::Array{"/guest", "--socket", "/nowhere", "--proxy-listener", "127.0.0.1:3128"}},
           {"Labels", docker::labels_for_shared(house.owner(), docker::Role::kHolder)},
           {"HostConfig", json::Object{{"Mounts", json::Array{mount}}}}})});
  REQUIRE_MESSAGE(made.has_value(), problem(made));
  house.meddle("POST", "/containers/" + made->text("Id") + "/start");
  CHECK(becomes_true([&] { return !docker::read_state(house.inspect(made->text("Id"))).running; },
                     kSoon));
  CHECK(docker::read_state(house.inspect(made->text("Id"))).exit_code == 1);
}
