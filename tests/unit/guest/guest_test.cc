#include "guest/guest.h"

#include "tests/unit/guest/support.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>

using namespace sandboxkit;
using namespace sandboxkit::guest::testing;

namespace {

/// A listening port on the loopback that greets whoever connects, then echoes one line.
class Greeter {
 public:
  Greeter() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener_.get(), 1);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
    thread_ = std::jthread([this] {
      Client peer(io::Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
      peer.send_bytes("hello\r\n");
      peer.send_bytes(peer.read_line() + "!\r\n");
    });
  }
  ~Greeter() { ::shutdown(listener_.get(), SHUT_RDWR); }
  std::uint16_t port = 0;

 private:
  io::Fd listener_;
  std::jthread thread_;
};

}  // namespace

TEST_CASE("health is answered, always") {
  TestGuest guest;
  CHECK(guest.call("GET", "/health").status == 204);
  guest.call("POST", "/init", R"({"accessToken":"secret"})");
  CHECK(guest.call("GET", "/health").status == 204);
}

TEST_CASE("a token of /init is needed from then on") {
  TestGuest guest;
  CHECK(guest.call("GET", "/envs").status == 200);
  CHECK(guest.call("POST", "/init", R"({"accessToken":"secret"})").headers.at("x-envd-version") ==
        "0.6.13");
  const Answer refused = guest.call("GET", "/envs");
  CHECK(refused.status == 401);
  CHECK(refused.json().text("message") ==
        "unauthorized access, please provide a valid access token or method signing if supported");
  CHECK(guest.exec(shell("true")).status == 401);
  CHECK(guest.call("GET", "/envs", "", {{"X-Access-Token", "secre"}}).status == 401);
  CHECK(guest.call("GET", "/envs", "", {{"X-Access-Token", "secret"}}).status == 200);
}

TEST_CASE("/init comes once, and again only from who knows the token") {
  TestGuest guest;
  CHECK(guest.call("POST", "/init", R"({"envVars":{"A":"1"},"accessToken":"secret"})").status ==
        204);
  CHECK(guest.call("POST", "/init", R"({"envVars":{"A":"2"}})").status == 403);
  CHECK(guest.call("POST", "/init", R"({"envVars":{"A":"2"},"accessToken":"other"})").status ==
        403);
  CHECK(guest.call("POST", "/init", R"({"envVars":{"A":"3"},"accessToken":"secret"})").status ==
        204);
  CHECK(guest.call("GET", "/envs", "", {{"X-Access-Token", "secret"}}).json().text("A") == "3");
}

TEST_CASE("/init without a token closes the door behind it as well") {
  TestGuest guest;
  CHECK(guest.call("POST", "/init", R"({"envVars":{"A":"1"}})").status == 204);
  CHECK(guest.call("POST", "/init", R"({"envVars":{"A":"2"}})").status == 403);
}

TEST_CASE("the environment of /init is in later processes, and in /envs with the container's") {
  TestGuest guest({"PATH=/usr/bin:/bin", "A=container", "B=container"});
  CHECK(guest.call("POST", "/init", R"({"envVars":{"A":"init"}})").status == 204);
  CHECK(guest.exec(shell("echo $A $B")).json().text("stdout") == "init container\n");
  CHECK(guest.call("GET", "/envs").body ==
        R"({"A":"init","B":"container","PATH":"/usr/bin:/bin"})");
}

TEST_CASE("what /init cannot do is refused by name") {
  TestGuest guest;
  const Answer answer = guest.call("POST", "/init", R"({"volumeMounts":[]})");
  CHECK(answer.status == 400);
  CHECK(answer.json().text("field") == "volumeMounts");
}

TEST_CASE("metrics hold the numbers that the SDKs read") {
  TestGuest guest;
  const json::Value metrics = guest.call("GET", "/metrics").json();
  for (const char* name : {"ts", "cpu_count", "mem_total", "mem_total_mib", "disk_total"}) {
    CAPTURE(name);
    CHECK(metrics.integer(name) > 0);
  }
  for (const char* name : {"cpu_used_pct", "mem_used", "mem_cache", "mem_used_mib", "disk_used"}) {
    CAPTURE(name);
    CHECK(metrics.find(name) != nullptr);
  }
}

TEST_CASE("a port inside is reached by CONNECT") {
  Greeter greeter;
  TestGuest guest;
  Client client = guest.connect();
  client.send_head("CONNECT", "127.0.0.1:" + std::to_string(greeter.port), {});
  CHECK(client.read_head().status == 200);
  CHECK(client.read_line() == "hello");
  client.send_bytes("echo\r\n");
  CHECK(client.read_line() == "echo!");
}

TEST_CASE("a port where nobody listens is a bad gateway that names it") {
  TestGuest guest;
  const Answer answer = guest.call("CONNECT", "127.0.0.1:1");
  CHECK(answer.status == 502);
  CHECK(answer.json().text("error") == "port_closed");
  CHECK(answer.json().integer("port") == 1);
}

TEST_CASE("nothing but the loopback is reached by CONNECT") {
  TestGuest guest;
  for (const char* target : {"192.0.2.1:80", "localhost:80", "0.0.0.0:80", "127.0.0.2:80"}) {
    CAPTURE(target);
    CHECK(guest.call("CONNECT", target).status == 403);
  }
  CHECK(guest.call("CONNECT", "127.0.0.1:0").status == 400);
}

TEST_CASE("an unknown route and a wrong method are refused") {
  TestGuest guest;
  CHECK(guest.call("GET", "/nothing").json().text("error") == "route_not_found");
  CHECK(guest.call("GET", "/exec").headers.at("allow") == "POST");
  CHECK(guest.call("POST", "/health").status == 405);
}
