#include "tests/unit/net/tunnel_fixture.h"

#include <doctest/doctest.h>

namespace {

using namespace std::chrono_literals;
using namespace sandboxkit::net;
using sandboxkit::Error;
using sandboxkit::ErrorCode;

using Exchange = std::shared_ptr<TunnelExchange>;

}  // namespace

TEST_CASE("a tunnel that is lost ends all streams on both sides with an error") {
  int gone = 0;
  std::vector<Exchange> held;
  TunnelFixture tunnel([&](const Exchange& exchange) {
    exchange->on_gone([&] { ++gone; });
    exchange->begin(200, {});
    exchange->write("x");
    held.push_back(exchange);
  });
  std::vector<Answer> answers(3);
  std::vector<std::shared_ptr<TunnelStream>> streams;
  for (auto& answer : answers) {
    streams.push_back(open_stream(*tunnel.client, {.path = "/"}, answer.handlers()));
  }
  REQUIRE(tunnel.serve_until([&] { return answers[2].body == "x"; }));
  ::shutdown(tunnel.controller_socket->fd(), SHUT_RDWR);
  REQUIRE(tunnel.serve_until([&] { return tunnel.client_closed && tunnel.server_closed; }));
  for (const auto& answer : answers) {
    REQUIRE(answer.error);
    CHECK(answer.error->code == ErrorCode::kUnavailable);
    CHECK(answer.error->reason == "tunnel_gone");
  }
  CHECK(gone == 3);
  CHECK_FALSE(tunnel.client->is_open());
  CHECK(tunnel.client->open_streams() == 0);
  const auto refused = tunnel.client->open({.path = "/"}, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == "tunnel_gone");
}

TEST_CASE("an end that the owner let go of ends its streams") {
  int gone = 0;
  Exchange kept;
  TunnelFixture tunnel([&](const Exchange& exchange) {
    kept = exchange;
    exchange->on_gone([&] { ++gone; });
    exchange->begin(200, {});
  });
  Answer answer;
  const auto stream = open_stream(*tunnel.client, {.path = "/"}, answer.handlers());
  REQUIRE(tunnel.serve_until([&] { return answer.status == 200; }));
  tunnel.client = nullptr;
  CHECK(answer.error);
  REQUIRE(tunnel.serve_until([&] { return gone == 1; }));
  CHECK(tunnel.server_closed);
  stream->write("late");
  stream->resume();
  stream->reset();
}

TEST_CASE("a close lets open streams finish and takes no new ones") {
  std::vector<Exchange> held;
  TunnelFixture tunnel([&](const Exchange& exchange) { held.push_back(exchange); });
  Answer answer;
  const auto stream = open_stream(*tunnel.client, {.path = "/"}, answer.handlers());
  REQUIRE(tunnel.serve_until([&] { return held.size() == 1; }));
  SUBCASE("by the controller") { tunnel.client->close(10s); }
  SUBCASE("by the worker") {
    tunnel.server->close(10s);
    REQUIRE(tunnel.serve_until([&] { return !tunnel.client->is_open(); }));
  }
  CHECK_FALSE(tunnel.client->is_open());
  CHECK_FALSE(tunnel.client->open({.path = "/"}, {}));
  tunnel.serve_until_quiet();
  CHECK_FALSE(answer.over());
  held[0]->respond(200, {}, "finished");
  REQUIRE(tunnel.serve_until([&] { return tunnel.client_closed && tunnel.server_closed; }));
  CHECK(answer.ended);
  CHECK(answer.body == "finished");
}

TEST_CASE("a request that crosses the worker's goodbye is refused as a lost tunnel") {
  std::size_t started = 0;
  TunnelFixture tunnel([&](const Exchange&) { ++started; });
  tunnel.serve_until_quiet();
  tunnel.server->close(10s);
  Answer answer;
  const auto stream = open_stream(*tunnel.client, {.path = "/"}, answer.handlers());
  REQUIRE(tunnel.serve_until([&] { return answer.over(); }));
  CHECK(started == 0);
  REQUIRE(answer.error);
  CHECK(answer.error->reason == "tunnel_gone");
}

TEST_CASE("a close ends streams that do not finish within its grace") {
  std::vector<Exchange> held;
  TunnelFixture tunnel([&](const Exchange& exchange) { held.push_back(exchange); });
  Answer answer;
  const auto stream = open_stream(*tunnel.client, {.path = "/"}, answer.handlers());
  REQUIRE(tunnel.serve_until([&] { return held.size() == 1; }));
  tunnel.client->close(20ms);
  REQUIRE(tunnel.serve_until([&] { return tunnel.client_closed.has_value(); }));
  CHECK(answer.error);
  CHECK(tunnel.client_closed->code == ErrorCode::kCancelled);
}

TEST_CASE("a silent other side is given up, one that answers pings is not") {
  TunnelLimits limits;
  limits.ping_interval = 10ms;
  limits.dead_after = 40ms;
  TunnelFixture tunnel([](const Exchange&) {}, limits);
  const auto limit = std::chrono::steady_clock::now() + 200ms;
  REQUIRE(tunnel.serve_until([&] { return std::chrono::steady_clock::now() > limit; }));
  CHECK(tunnel.client->is_open());
  tunnel.worker_socket->pause_reading();
  REQUIRE(tunnel.serve_until([&] { return tunnel.client_closed.has_value(); }));
  CHECK(tunnel.client_closed->message.find("silent") != std::string::npos);
}

TEST_CASE("bytes that are no HTTP/2 end the tunnel") {
  sandboxkit::io::EventLoop loop;
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const sandboxkit::io::Fd peer(ends[1]);
  std::optional<Error> closed;
  const auto server = TunnelServer::start(
      loop, sandboxkit::io::Socket::adopt(loop, sandboxkit::io::Fd(ends[0])),
      "GET / HTTP/1.1\r\nHost: early bytes of somebody else\r\n\r\n", {}, [](const Exchange&) {},
      [&](const Error& error) { closed = error; });
  for (int i = 0; i < 100 && !closed; ++i) {
    loop.run_once(10ms);
  }
  REQUIRE(closed);
  CHECK_FALSE(server->is_open());
}

TEST_CASE("bytes that came with the upgrade are not lost") {
  // The controller's first flight arrives as `early`, the rest through the socket.
  sandboxkit::io::EventLoop loop;
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  auto worker_end = sandboxkit::io::Fd(ends[1]);
  const auto client = TunnelClient::start(
      loop, sandboxkit::io::Socket::adopt(loop, sandboxkit::io::Fd(ends[0])), "", {}, {});
  Answer answer;
  const auto stream = open_stream(*client, {.path = "/"}, answer.handlers());
  for (int i = 0; i < 10; ++i) {
    loop.run_once(0ms);
  }
  char flight[30];
  REQUIRE(::recv(worker_end.get(), flight, sizeof flight, 0) == sizeof flight);
  const auto server =
      TunnelServer::start(loop, sandboxkit::io::Socket::adopt(loop, std::move(worker_end)),
                          std::string(flight, sizeof flight), {},
                          [](const Exchange& exchange) { exchange->respond(200, {}, "ok"); }, {});
  for (int i = 0; i < 100 && !answer.over(); ++i) {
    loop.run_once(10ms);
  }
  CHECK(answer.body == "ok");
}
