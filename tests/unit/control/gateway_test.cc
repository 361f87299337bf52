#include "control/gateway.h"

#include "io/fd.h"
#include "tests/unit/control/house.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace sandboxkit;
using namespace sandboxkit::control;

namespace {

/// A plain blocking connection to the controller.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{10, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    REQUIRE(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  void send(const std::string& text) const {
    REQUIRE(::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(text.size()));
  }
  /// Reads until the text ends with `end`, or the connection does.
  std::string read_until(const std::string& end) {
    std::string text;
    char byte = 0;
    while (!text.ends_with(end) && ::recv(fd_.get(), &byte, 1, 0) == 1) {
      text += byte;
    }
    return text;
  }
  /// 0 at an orderly end, negative for a broken connection or when nothing came in time.
  ssize_t read_end() {
    char buffer[256];
    ssize_t got = 0;
    do {
      got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    } while (got > 0);
    return got;
  }
  void end_sending() const { ::shutdown(fd_.get(), SHUT_WR); }

 private:
  io::Fd fd_;
};

std::string head(const std::string& line, const std::string& key, const std::string& more = {}) {
  return line + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\n" + more + "\r\n";
}

}  // namespace

TEST_CASE("an exec travels to the guest without our credentials, and its answer comes back") {
  const House house;
  const auto worker = house.worker();
  const std::string id = house.create(R"("name": "box")").body.text("id");
  const auto done =
      house.call("POST", "/v1/sandboxes/box/exec", R"({"command": ["true"]})", "<owner>",
                 {{"X-API-Key", "also"}, {"Cookie", "c=1"}, {"X-Mine", "kept"}});
  CHECK(done.status == 200);
  CHECK(done.text == R"({"echo":{"command": ["true"]}})");
  CHECK(done.headers.at("x-content-type-options") == "nosniff");
  CHECK(done.headers.at("content-security-policy") == "sandbox");
  const auto calls = worker->guest_calls();
  REQUIRE(calls.size() == 1);
  CHECK(calls[0].starts_with("POST /v1/sandboxes/" + id + "/1/guest/exec "));
  CHECK(calls[0].find("kept") != std::string::npos);
  for (const std::string& secret : {house.owner(), std::string("also"), std::string("c=1")}) {
    CHECK(calls[0].find(secret) == std::string::npos);
  }
}

TEST_CASE("a body of many windows comes back whole and in order") {
  const House house;
  const auto worker = house.worker();
  const std::string id = house.create().body.text("id");
  std::string body;
  for (int i = 0; body.size() < (3U << 20); ++i) {
    body += std::to_string(i) + ",";
  }
  const auto answer = house.call("PUT", "/v1/sandboxes/" + id + "/files?path=/tmp/a%20b", body);
  CHECK(answer.status == 200);
  CHECK((answer.text == body));
  CHECK(worker->guest_calls()[0].find("/guest/files?path=/tmp/a%20b ") != std::string::npos);
}

TEST_CASE("only the guest's named paths are passed on") {
  const House house;
  const auto worker = house.worker();
  const std::string base = "/v1/sandboxes/" + house.create().body.text("id");
  for (const char* tail :
       {"/rpc/other.Service/Start", "/rpc/process.Process/../../init", "/init", "/tcp/0",
        "/tcp/65536", "/tcp/08", "/guest/init", "/rpc/process.Process/a%2Fb"}) {
    CAPTURE(tail);
    CHECK(house.call("POST", base + tail).status >= 400);
  }
  CHECK(house.call("POST", base + "/exec?debug=1").error() == "unknown_field");
  CHECK(house.call("GET", base + "/files?path=/&recursive=true").error() == "unknown_field");
  const auto wrong = house.call("PATCH", base + "/files?path=/");
  CHECK(wrong.status == 405);
  CHECK(wrong.headers.at("allow") == "GET, PUT, DELETE");
  CHECK(house.call("GET", base + "/tcp/80").error() == "upgrade_required");
  CHECK(worker->guest_calls().empty());
  CHECK(house.call("POST", base + "/rpc/process.Process/List", "{}").status == 200);
  CHECK(worker->guest_calls()[0].find("/guest/process.Process/List ") != std::string::npos);
}

TEST_CASE("a forward carries bytes both ways after its upgrade") {
  const House house;
  const auto worker = house.worker();
  const std::string id = house.create().body.text("id");
  RawClient client(house.port());
  client.send(head("GET /v1/sandboxes/" + id + "/tcp/8080", house.owner(),
                   "Connection: Upgrade\r\nUpgrade: tcp\r\n"));
  const std::string answer = client.read_until("\r\n\r\n");
  CHECK(answer.starts_with("HTTP/1.1 101 "));
  client.send("ping one");
  CHECK(client.read_until("one") == "ping one");
  client.send("ping two");
  CHECK(client.read_until("two") == "ping two");
  CHECK(worker->guest_calls()[0].starts_with("POST /v1/sandboxes/" + id + "/1/tcp/8080"));
  client.end_sending();
  CHECK(client.read_end() == 0);
}

TEST_CASE("a stream that breaks after its head cuts the client off without an end") {
  const House house;
  const auto worker = house.worker();
  const std::string id = house.create().body.text("id");
  RawClient client(house.port());
  client.send(head("PUT /v1/sandboxes/" + id + "/files?path=/a", house.owner(),
                   "Transfer-Encoding: chunked\r\n"));
  client.send("4\r\nabcd\r\n");
  const std::string begun = client.read_until("abcd");
  CHECK(begun.find(" 200 ") != std::string::npos);
  worker->cut_streams();
  const std::string rest = client.read_until("0\r\n\r\n");
  CHECK(rest.find("0\r\n\r\n") == std::string::npos);
}

TEST_CASE("a client that goes away resets its stream") {
  const House house;
  const auto worker = house.worker();
  const std::string id = house.create().body.text("id");
  {
    RawClient client(house.port());
    client.send(head("PUT /v1/sandboxes/" + id + "/files?path=/a", house.owner(),
                     "Content-Length: 1000\r\n"));
    client.send("abcd");
    CHECK(client.read_until("abcd").ends_with("abcd"));
  }
  CHECK(House::eventually([&] { return worker->gone_streams() == 1; }));
}

TEST_CASE("without a tunnel the gateway says that the worker is unreachable") {
  const House house;
  const auto worker = house.worker();
  const std::string base = "/v1/sandboxes/" + house.create().body.text("id");
  worker->disconnect();
  REQUIRE(house.sees(*worker, false));
  for (const char* tail : {"/exec", "/rpc/process.Process/List"}) {
    const auto refused = house.call("POST", base + tail, "{}");
    CHECK(refused.status == 503);
    CHECK(refused.error() == "worker_unreachable");
  }
  CHECK(house.call("GET", base + "/stats").error() == "worker_unreachable");
  worker->connect();
  REQUIRE(house.sees(*worker, true));
  CHECK(house.call("POST", base + "/exec", "{}").status == 200);
}

TEST_CASE("statistics and the denied log are asked from the worker") {
  const House house;
  const auto worker = house.worker();
  const std::string base = "/v1/sandboxes/" + house.create().body.text("id");
  const auto stats = house.call("GET", base + "/stats");
  CHECK(stats.status == 200);
  CHECK(stats.body.integer("memory_bytes") == 7);
  const auto denied = house.call("GET", base + "/egress/denied");
  CHECK(denied.status == 200);
  CHECK(denied.body.find("denied")->as_array()->empty());
}

// Complaint 45: the claim of a dead connection keeps the new one out.
TEST_CASE("a newer tunnel of a worker replaces the older one") {
  const House house;
  const auto worker = house.worker();
  const std::string base = "/v1/sandboxes/" + house.create().body.text("id");
  worker->connect();  // The first one still stands.
  CHECK(House::eventually([&] { return worker->inventories() == 2; }));
  CHECK(House::eventually([&] { return house.call("POST", base + "/exec", "{}").status == 200; }));
}

TEST_CASE("neither a stream nor a create holds a stop beyond its grace") {
  House house([](ControllerConfig& config) { config.shutdown_grace = std::chrono::seconds(1); });
  const auto worker = house.worker();
  const std::string id = house.create().body.text("id");
  RawClient client(house.port());
  client.send(head("GET /v1/sandboxes/" + id + "/tcp/80", house.owner(),
                   "Connection: Upgrade\r\nUpgrade: tcp\r\n"));
  REQUIRE(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 101 "));
  worker->hold(wire::DeliveryKind::kCreate);
  Answer waiting;
  std::thread caller([&] { waiting = house.create(); });
  REQUIRE(worker->wait_until([&] { return worker->held() == 1; }));
  const auto begun = std::chrono::steady_clock::now();
  house.stop();
  const auto taken = std::chrono::steady_clock::now() - begun;
  caller.join();
  // It waited for them, and no longer than it may; the rest is for a machine that is busy.
  CHECK(taken >= std::chrono::milliseconds(700));
  CHECK(taken < std::chrono::seconds(5));
  CHECK(waiting.error() == "overloaded");
  CHECK(client.read_end() <= 0);
}

// Complaint 50: pending connections pile up without end.
TEST_CASE("past its number of open streams a sandbox answers 503, and one that ends makes room") {
  const House house;
  const auto worker = house.worker();
  const std::string base = "/v1/sandboxes/" + house.create().body.text("id");
  const std::string other = "/v1/sandboxes/" + house.create().body.text("id");
  const std::string forward =
      head("GET " + base + "/tcp/8080", house.owner(), "Connection: Upgrade\r\nUpgrade: tcp\r\n");
  std::vector<std::unique_ptr<RawClient>> open;
  for (std::size_t i = 0; i < Gateway::kMaxStreamsPerSandbox; ++i) {
    open.push_back(std::make_unique<RawClient>(house.port()));
    open.back()->send(forward);
    REQUIRE(open.back()->read_until("\r\n\r\n").starts_with("HTTP/1.1 101 "));
  }
  const auto refused = house.call("POST", base + "/exec", "{}");
  CHECK(refused.status == 503);
  CHECK(refused.error() == "overloaded");
  CHECK(house.call("POST", other + "/exec", "{}").status == 200);
  open.pop_back();
  CHECK(House::eventually([&] { return house.call("POST", base + "/exec", "{}").status == 200; }));
}
