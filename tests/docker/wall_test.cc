// The wall with the real guest and the real proxy, attacked from inside.
#include "io/socket.h"
#include "tests/docker/house.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <ifaddrs.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

using namespace sandboxkit;        // NOLINT(google-build-using-namespace)
using namespace sandboxkit::test;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::chrono::seconds kSoon{40};

/// A web server of this machine, as a package mirror in the worker's network. Counts who came.
class Upstream {
 public:
  Upstream() {
    auto listener = io::listen_tcp("0.0.0.0", 0);
    REQUIRE(listener);
    listener_ = std::move(*listener);
    port_ = std::to_string(*io::local_port(listener_.get()));
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }

  const std::string& port() const { return port_; }
  int visits() const { return visits_; }

 private:
  void serve(const std::stop_token& stop) {
    constexpr int kLookMs = 50;
    constexpr std::string_view kAnswer =
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\npackages\n";
    while (!stop.stop_requested()) {
      pollfd wait{listener_.get(), POLLIN, 0};
      if (poll(&wait, 1, kLookMs) <= 0) {
        continue;
      }
      const io::Fd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client) {
        continue;
      }
      ++visits_;
      char buffer[4096];
      recv(client.get(), buffer, sizeof buffer, 0);
      send(client.get(), kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL);
    }
  }

  io::Fd listener_;
  std::string port_;
  std::atomic<int> visits_ = 0;
  std::jthread thread_;
};

/// An address of this machine that containers with a way out reach: the default bridge's.
std::string host_address() {
  ifaddrs* list = nullptr;
  REQUIRE(getifaddrs(&list) == 0);
  std::string found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
        std::string_view(entry->ifa_name) == "docker0") {
      sockaddr_in address{};
      std::memcpy(&address, entry->ifa_addr, sizeof address);
      char text[INET_ADDRSTRLEN] = "";
      found = inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
    }
  }
  freeifaddrs(list);
  REQUIRE(found != "");
  return found;
}

struct Walled {
  Upstream upstream;
  std::string host = host_address();
  House house{{.real_helpers = true, .hosts = {"packages.test=" + host, "other.test=" + host}}};
  SandboxOrder order = house.walled({"packages.test:" + upstream.port()});

  Walled() { REQUIRE(problem(house.driver().create(order, {})) == ""); }

  House::Output fetch(const std::string& url) {
    return house.shell(order.sandbox, "timeout 20 wget -q -O - " + url);
  }
  House::Output fetch_package() { return fetch("http://packages.test:" + upstream.port() + "/"); }
  std::string wall_address(const char* last) {
    const json::Value sidecar = house.inspect(docker::sandbox_name(order.sandbox));
    const auto* networks = sidecar.find("NetworkSettings")->find("Networks")->as_object();
    REQUIRE(networks->size() == 1);
    const std::string gateway = networks->front().second.text("IPAddress");
    const std::size_t dot = gateway.rfind('.');
    const int base = std::stoi(gateway.substr(dot + 1)) - 2;
    return gateway.substr(0, dot + 1) + std::to_string(base + std::stoi(last));
  }
};

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
  Walled world;
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
  for (const std::string& address : {world.host, world.wall_address("1")}) {
    CAPTURE(address);
    CHECK(world.house.shell(world.order.sandbox, "nc -w 3 " + address + " " + port + " </dev/null")
              .exit_code != 0);
  }
  CHECK(world.house.shell(world.order.sandbox, "timeout 10 nslookup packages.test").exit_code != 0);
  CHECK(world.upstream.visits() == 1);
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

TEST_CASE("a proxy that was killed by an order stays away, and nothing goes out") {
  if (!have_helpers()) {
    return;
  }
  Walled world;
  world.house.meddle("POST", "/containers/" + docker::sidecar_name(world.order.sandbox) + "/kill");
  CHECK(world.fetch_package().exit_code != 0);
  CHECK(world.upstream.visits() == 0);
  CHECK(world.house.driver().list()->front().reason ==
        "its egress proxy is down: everything is denied");
  CHECK_FALSE(world.house.driver().denied(world.order.sandbox).has_value());
  CHECK(problem(world.house.driver().remove(world.order.sandbox)) == "");
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

TEST_CASE("the real probe proves the wall from inside") {
  if (!have_helpers()) {
    return;
  }
  House house{{.real_helpers = true}};
  const auto found = house.driver().probe();
  REQUIRE_MESSAGE(found.has_value(), problem(found));
  CHECK(found->capabilities == std::vector<std::string>{"egress"});
  CHECK(house.leftovers() == "");
}
