#include "work/routes.h"

#include "io/http_server.h"
#include "io/socket.h"
#include "tests/unit/work/fake_exchange.h"
#include "tests/unit/work/support.h"

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace sandboxkit::work {
namespace {

using testing::Bench;
using testing::FakeClock;
using testing::FakeDriver;
using testing::FakeExchange;
using testing::id;
using testing::MemoryJournal;
using testing::order;
using GuestExchange = std::shared_ptr<io::HttpExchange>;

/// A worker with the sandbox i1 (generation 1) whose guest is `guest`.
struct World {
  MemoryJournal journal;
  FakeDriver driver;
  FakeClock clock;
  io::HttpHandler guest = [](const GuestExchange& e) { e->respond(200, {}, "guest"); };
  int connections = 0;
  Bench bench{journal, driver, clock};
  std::vector<std::shared_ptr<FakeExchange>> exchanges;

  World() {
    REQUIRE(bench.start());
    driver.serve_guest = [this](const SandboxId&, int fd) {
      ++connections;
      io::serve_http(bench.loop, io::Fd(fd), {}, [this](const GuestExchange& e) { guest(e); });
    };
    REQUIRE(bench.outcome(order(wire::DeliveryKind::kCreate, "i1", 1, clock)) == "running");
  }
  ~World() {
    for (const auto& exchange : exchanges) {
      exchange->leave();
    }
  }
  std::shared_ptr<FakeExchange> open(const std::string& method, const std::string& path,
                                     bool has_body = false) {
    exchanges.push_back(std::make_shared<FakeExchange>(method, path, has_body));
    bench.routes.serve(exchanges.back());
    return exchanges.back();
  }
  /// Waits for the whole answer.
  std::shared_ptr<FakeExchange> ask(const std::string& method, const std::string& path) {
    auto exchange = open(method, path);
    CHECK(bench.until([&] { return exchange->over(); }));
    return exchange;
  }
};

TEST_CASE("the inventory lists what runs") {
  World w;
  const auto answer = w.ask("GET", "/v1/inventory");
  CHECK(answer->status == 200);
  const auto value = json::parse(answer->body);
  REQUIRE(value);
  const auto reports = wire::inventory_from_json(*value);
  REQUIRE(reports);
  REQUIRE(reports->size() == 1);
  CHECK(reports->front().sandbox.str() == "i1");
  CHECK(reports->front().state == SandboxState::kRunning);
}

TEST_CASE("a delivery is read strictly and answered with the state") {
  World w;
  const auto body = json::dump(wire::to_json(order(wire::DeliveryKind::kCreate, "i2", 1, w.clock)));
  const auto good = w.open("POST", "/v1/deliveries", true);
  good->send(body);
  good->send_end();
  CHECK(w.bench.until([&] { return good->over(); }));
  CHECK(good->body == R"({"state":"running"})");
  const auto bad = w.open("POST", "/v1/deliveries", true);
  bad->send(R"({"seq": 1, "kind": "destroy"})");
  bad->send_end();
  CHECK(w.bench.until([&] { return bad->over(); }));
  CHECK(bad->status == 400);
}

// Complaint 39: jobs hang, and nothing tells whose they are.
TEST_CASE("what a worker tells about an order names the call that ordered it") {
  World w;
  const std::string parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  for (const auto kind : {wire::DeliveryKind::kCreate, wire::DeliveryKind::kRemove}) {
    const auto exchange = std::make_shared<FakeExchange>("POST", "/v1/deliveries", true);
    exchange->edit().headers.add("x-request-id", "job-7");
    exchange->edit().headers.add("traceparent", parent);
    w.exchanges.push_back(exchange);
    w.bench.routes.serve(exchange);
    exchange->send(json::dump(wire::to_json(order(kind, "i2", 1, w.clock))));
    exchange->send_end();
    REQUIRE(w.bench.until([&] { return exchange->over(); }));
    CHECK(exchange->status == 200);
  }
  const auto told = w.bench.events.told();
  REQUIRE(told.size() == 3);  // The first is of the world's own sandbox.
  using Fields = std::vector<std::pair<std::string, std::string>>;
  CHECK(told[0].fields == Fields{{"sandbox", "i1"}});
  const Fields expected{{"sandbox", "i2"}, {"request", "job-7"}, {"trace", parent}};
  CHECK(told[1].name == "sandbox_started");
  CHECK(told[1].fields == expected);
  CHECK(told[2].name == "sandbox_ended");
  CHECK(told[2].fields == expected);
}

TEST_CASE("routes that are not there, and sandboxes that are not, are refused by name") {
  struct Row {
    const char* method;
    const char* path;
    int status;
    const char* error;
  };
  const Row rows[] = {
      {"GET", "/", 404, "route_not_found"},
      {"POST", "/v1/inventory", 404, "route_not_found"},
      {"GET", "/v1/sandboxes/i1/1/nothing", 404, "route_not_found"},
      {"GET", "/v1/sandboxes/i1/one/stats", 404, "route_not_found"},
      {"GET", "/v1/sandboxes/../1/stats", 404, "route_not_found"},
      {"POST", "/v1/sandboxes/i1/1/tcp/0", 404, "route_not_found"},
      {"POST", "/v1/sandboxes/i1/1/tcp/65536", 404, "route_not_found"},
      {"GET", "/v1/sandboxes/i9/1/stats", 404, "sandbox_not_found"},
      {"GET", "/v1/sandboxes/i1/2/guest/health", 409, "generation_conflict"},
  };
  World w;
  for (const Row& row : rows) {
    CAPTURE(row.path);
    const auto answer = w.ask(row.method, row.path);
    CHECK(answer->status == row.status);
    CHECK(answer->body.find(std::string("\"error\":\"") + row.error + "\"") != std::string::npos);
  }
}

TEST_CASE("stats and denied are the driver's") {
  World w;
  CHECK(w.ask("GET", "/v1/sandboxes/i1/1/stats")->body.find("1024") != std::string::npos);
  CHECK(w.ask("GET", "/v1/sandboxes/i1/1/denied")->body.find("example.org") != std::string::npos);
}

TEST_CASE(
    "a request reaches the guest with its path, its query and its fields, but no hop-by-hop ones") {
  World w;
  wire::RequestHead seen;
  w.guest = [&](const GuestExchange& e) {
    seen = e->request();
    wire::Headers headers;
    headers.add("X-Guest", "yes");
    e->respond(201, headers, "made");
  };
  auto exchange =
      std::make_shared<FakeExchange>("DELETE", "/v1/sandboxes/i1/1/guest/files?path=/a%20b");
  exchange->edit().headers.add("X-Caller", "me");
  exchange->edit().headers.add("Connection", "X-Secret");
  exchange->edit().headers.add("TE", "trailers");
  w.bench.routes.serve(exchange);
  CHECK(w.bench.until([&] { return exchange->over(); }));
  CHECK(exchange->status == 201);
  CHECK(exchange->body == "made");
  CHECK(*exchange->headers.find("X-Guest") == "yes");
  CHECK(exchange->headers.find("Connection") == nullptr);
  CHECK(seen.method == "DELETE");
  CHECK(seen.target == "/files?path=/a%20b");
  CHECK(*seen.headers.find("X-Caller") == "me");
  CHECK(seen.headers.find("TE") == nullptr);
  CHECK(seen.headers.count("Host") == 1);
}

TEST_CASE("connections to the guest are used again") {
  World w;
  for (int i = 0; i < 5; ++i) {
    CHECK(w.ask("GET", "/v1/sandboxes/i1/1/guest/health")->status == 200);
  }
  CHECK(w.connections == 1);
  CHECK(w.bench.guests.streams("i1") == 0);
}

TEST_CASE("an idle connection that the guest closed is replaced without the caller seeing it") {
  World w;
  std::vector<GuestExchange> cut;
  CHECK(w.ask("GET", "/v1/sandboxes/i1/1/guest/a")->status == 200);
  // The next request on the kept connection is cut before any byte of an answer.
  int seen = 0;
  w.guest = [&](const GuestExchange& e) {
    ++seen == 1 ? e->abort() : e->respond(200, {}, "again");
  };
  const auto answer = w.ask("GET", "/v1/sandboxes/i1/1/guest/b");
  CHECK(answer->status == 200);
  CHECK(answer->body == "again");
  CHECK(w.connections == 2);
}

TEST_CASE("a request whose body was begun is not sent twice") {
  World w;
  CHECK(w.ask("GET", "/v1/sandboxes/i1/1/guest/a")->status == 200);
  int seen = 0;
  w.guest = [&](const GuestExchange& e) {
    ++seen;
    e->abort();
  };
  const auto exchange = w.open("POST", "/v1/sandboxes/i1/1/guest/exec", true);
  exchange->send("once");
  CHECK(w.bench.until([&] { return exchange->over(); }));
  CHECK(exchange->status == 503);
  CHECK(exchange->body.find("guest_unavailable") != std::string::npos);
  CHECK(seen == 1);
}

TEST_CASE("a guest that dies in the middle of its answer resets the stream") {
  World w;
  w.guest = [](const GuestExchange& e) {
    e->begin(200, {});
    e->write("half");
    e->abort();
  };
  const auto answer = w.ask("GET", "/v1/sandboxes/i1/1/guest/files");
  CHECK(answer->status == 200);
  CHECK(answer->was_reset);
  CHECK_FALSE(answer->ended);
}

TEST_CASE("a guest that switches protocols unasked is no answer") {
  World w;
  w.guest = [](const GuestExchange& e) {
    wire::ResponseHead head;
    head.status = 101;
    std::string early;
    e->upgrade(head, early);
  };
  const auto answer = w.ask("GET", "/v1/sandboxes/i1/1/guest/files");
  CHECK(answer->status == 503);
  CHECK(w.bench.guests.streams("i1") == 0);
}

TEST_CASE("a caller that leaves takes its request to the guest with it") {
  World w;
  bool gone = false;
  GuestExchange working;
  w.guest = [&](GuestExchange e) {
    e->on_gone([&] { gone = true; });
    working = std::move(e);
  };
  const auto exchange = w.open("GET", "/v1/sandboxes/i1/1/guest/watch");
  REQUIRE(w.bench.until([&] { return working != nullptr; }));
  CHECK(w.bench.guests.streams("i1") == 1);
  exchange->leave();
  CHECK(w.bench.until([&] { return gone; }));
  CHECK(w.bench.guests.streams("i1") == 0);
}

TEST_CASE("an upload waits for a slow guest, a download for a slow controller") {
  World w;
  GuestExchange slow;
  std::size_t got = 0;
  w.guest = [&](GuestExchange e) {
    slow = e;
    e->read_body([&](std::string_view bytes) { got += bytes.size(); },
                 [&, e] { e->respond(200, {}, std::string(2'000'000, 'd')); });
    e->pause_body();
  };
  const auto exchange = w.open("PUT", "/v1/sandboxes/i1/1/guest/files", true);
  const std::string piece(100'000, 'u');
  std::size_t sent = 0;
  while (!exchange->body_paused && sent < 50'000'000) {
    exchange->send(piece);
    sent += piece.size();
    w.bench.settle();
  }
  CHECK(sent < 5'000'000);
  slow->resume_body();
  CHECK(w.bench.until([&] { return !exchange->body_paused && got == sent; }));
  exchange->queued = 10'000'000;  // From now on the controller takes nothing.
  exchange->send_end();
  CHECK(w.bench.until([&] { return !exchange->body.empty(); }));
  w.bench.settle();
  CHECK(exchange->body.size() < 1'000'000);
  exchange->drain();
  CHECK(w.bench.until([&] { return exchange->ended; }));
  CHECK(exchange->body.size() == 2'000'000);
}

// Complaint 50: pending connections pile up without end.
TEST_CASE("one sandbox has a bounded number of streams") {
  World w;
  std::vector<GuestExchange> waiting;
  w.guest = [&](GuestExchange e) { waiting.push_back(std::move(e)); };
  for (std::size_t i = 0; i < GuestProxy::kMaxStreams; ++i) {
    w.open("GET", "/v1/sandboxes/i1/1/guest/watch");
  }
  const auto refused = w.ask("GET", "/v1/sandboxes/i1/1/guest/watch");
  CHECK(refused->status == 503);
  CHECK(refused->body.find("sandbox_busy") != std::string::npos);
  REQUIRE(w.bench.until([&] { return waiting.size() == GuestProxy::kMaxStreams; }));
  waiting.front()->respond(204, {}, "");
  CHECK(w.bench.until([&] { return w.bench.guests.streams("i1") == GuestProxy::kMaxStreams - 1; }));
}

TEST_CASE("a TCP pipe goes through the guest's CONNECT, both ways, with half-close") {
  World w;
  std::string target;
  std::shared_ptr<io::Socket> inside;
  w.guest = [&](const GuestExchange& e) {
    target = e->request().target;
    wire::ResponseHead head;
    std::string early;
    inside = e->upgrade(head, early);
    io::Socket::Handlers h;
    h.on_data = [&](std::string_view bytes) { inside->write("echo " + std::string(bytes)); };
    h.on_end = [&] { inside->shutdown_write(); };
    inside->start(std::move(h));
  };
  const auto exchange = w.open("POST", "/v1/sandboxes/i1/1/tcp/8080", true);
  REQUIRE(w.bench.until([&] { return exchange->status.has_value(); }));
  CHECK(exchange->status == 200);
  CHECK(target == "127.0.0.1:8080");
  exchange->send("hello");
  CHECK(w.bench.until([&] { return exchange->body == "echo hello"; }));
  exchange->send_end();
  CHECK(w.bench.until([&] { return exchange->ended; }));
  CHECK(w.bench.until([&] { return w.bench.guests.streams("i1") == 0; }));
  inside = nullptr;
}

TEST_CASE("a port where nothing answers is refused") {
  World w;
  w.guest = [](const GuestExchange& e) { e->respond(502, {}, "refused"); };
  const auto answer = w.ask("POST", "/v1/sandboxes/i1/1/tcp/1");
  CHECK(answer->status == 503);
  CHECK(answer->body.find("port_closed") != std::string::npos);
  CHECK(w.bench.guests.streams("i1") == 0);
}

TEST_CASE("a sandbox without a guest answers guest_unavailable") {
  World w;
  w.driver.serve_guest = nullptr;
  const auto answer = w.ask("GET", "/v1/sandboxes/i1/1/guest/health");
  CHECK(answer->status == 503);
  CHECK(answer->body.find("guest_unavailable") != std::string::npos);
}

}  // namespace
}  // namespace sandboxkit::work
