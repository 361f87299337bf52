#include "io/http_client.h"

#include "io/http_server.h"
#include "tests/unit/io/support.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include <doctest/doctest.h>

namespace sandboxkit::io {
namespace {

using testing::open_descriptors;
using testing::pattern;
using testing::run_until;
using testing::settle;
using testing::socket_pair;

using Exchange = std::shared_ptr<HttpExchange>;

struct Outcome {
  std::optional<wire::ResponseHead> head;
  std::string body;
  std::optional<Error> error;
  bool ended = false;
  Fd reusable;

  HttpClientCall::Handlers handlers() {
    HttpClientCall::Handlers h;
    h.on_head = [this](const wire::ResponseHead& got) { head = got; };
    h.on_data = [this](std::string_view bytes) { body += bytes; };
    h.on_end = [this](Fd connection) {
      ended = true;
      reusable = std::move(connection);
    };
    h.on_error = [this](const Error& got) { error = got; };
    return h;
  }
  bool over() const { return ended || error.has_value(); }
};

wire::RequestHead request_head(const std::string& method, const std::string& target) {
  wire::RequestHead head;
  head.method = method;
  head.target = target;
  head.headers.add("Host", "sandbox");
  return head;
}

/// A server that says what the test wrote down, whatever it is asked.
struct Scripted {
  EventLoop loop;
  std::shared_ptr<Socket> server;
  Outcome outcome;
  std::shared_ptr<HttpClientCall> call;

  explicit Scripted(const std::string& method = "GET") {
    auto [ours, theirs] = socket_pair();
    server = Socket::adopt(loop, std::move(theirs));
    server->start({});
    call =
        HttpClientCall::start(loop, std::move(ours), request_head(method, "/"), outcome.handlers());
  }
  bool until_over() {
    return run_until(loop, [this] { return outcome.over(); });
  }
};

TEST_CASE("a whole answer comes, and its connection serves the next request") {
  EventLoop loop;
  auto [ours, theirs] = socket_pair();
  serve_http(loop, std::move(theirs), {}, [](const Exchange& exchange) {
    exchange->respond(200, {}, "you asked " + exchange->request().target);
  });
  Fd connection = std::move(ours);
  for (const char* target : {"/one", "/two"}) {
    Outcome outcome;
    HttpClientCall::start(loop, std::move(connection), request_head("GET", target),
                          outcome.handlers());
    REQUIRE(run_until(loop, [&] { return outcome.over(); }));
    CHECK(outcome.ended);
    CHECK(outcome.body == std::string("you asked ") + target);
    REQUIRE(outcome.reusable);
    connection = std::move(outcome.reusable);
  }
}

TEST_CASE("64 MiB go up chunked and come down chunked with flat buffers") {
  constexpr std::size_t kBody = 64 * 1024 * 1024;
  EventLoop loop;
  auto [ours, theirs] = socket_pair();
  std::size_t most_queued_at_server = 0;
  serve_http(loop, std::move(theirs), {}, [&](const Exchange& exchange) {
    exchange->begin(200, {});
    exchange->read_body(
        [&, exchange](std::string_view bytes) {
          exchange->write(bytes);
          most_queued_at_server = std::max(most_queued_at_server, exchange->queued_bytes());
          if (exchange->queued_bytes() >= Socket::kHighWater) {
            exchange->pause_body();
          }
        },
        [exchange] { exchange->end(); });
    exchange->on_drain([exchange] { exchange->resume_body(); });
  });
  auto head = request_head("POST", "/");
  head.headers.add("Transfer-Encoding", "chunked");
  std::size_t sent = 0;
  std::size_t got = 0;
  std::size_t most_queued = 0;
  bool right = true;
  bool ended = false;
  std::shared_ptr<HttpClientCall> call;
  const auto feed = [&] {
    while (sent < kBody && call->queued_bytes() < Socket::kHighWater) {
      const std::size_t piece = std::min<std::size_t>(100'000, kBody - sent);
      call->write_body(pattern(piece, sent));
      sent += piece;
      most_queued = std::max(most_queued, call->queued_bytes());
    }
    if (sent == kBody) {
      call->end_body();
    }
  };
  HttpClientCall::Handlers h;
  h.on_data = [&](std::string_view bytes) {
    right = right && bytes == pattern(bytes.size(), got);
    got += bytes.size();
  };
  h.on_drain = feed;
  h.on_end = [&](const Fd& connection) { ended = static_cast<bool>(connection); };
  call = HttpClientCall::start(loop, std::move(ours), head, std::move(h));
  feed();
  CHECK(run_until(loop, [&] { return ended; }));
  CHECK(got == kBody);
  CHECK(right);
  CHECK(most_queued < 2 * Socket::kHighWater);
  CHECK(most_queued_at_server < 2 * Socket::kHighWater);
}

TEST_CASE(
    "a connection that dies before any byte says connection_lost, a cut answer says answer_cut") {
  struct Row {
    const char* said;
    const char* reason;
  };
  const Row rows[] = {
      {"", "connection_lost"},
      {"HTTP/1.1 20", "answer_cut"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "answer_cut"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "answer_cut"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "bad_response"},
      {"SSH-2.0-x\r\n\r\n", "bad_response"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.said);
    Scripted s;
    s.server->write(row.said);
    s.server->close_after_flush();
    REQUIRE(s.until_over());
    REQUIRE(s.outcome.error);
    CHECK(s.outcome.error->reason == row.reason);
  }
}

TEST_CASE("interim answers are stepped over") {
  Scripted s;
  s.server->write("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n");
  s.server->write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  REQUIRE(s.until_over());
  CHECK(s.outcome.head->status == 200);
  CHECK(s.outcome.body == "ok");
}

TEST_CASE("an answer until the end of the connection is whole, and the connection is not reused") {
  Scripted s;
  s.server->write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it");
  s.server->close_after_flush();
  REQUIRE(s.until_over());
  CHECK(s.outcome.ended);
  CHECK(s.outcome.body == "all of it");
  CHECK_FALSE(s.outcome.reusable);
}

TEST_CASE("a HEAD answer has no body whatever its Content-Length says") {
  Scripted s("HEAD");
  s.server->write("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n");
  REQUIRE(s.until_over());
  CHECK(s.outcome.ended);
  CHECK(s.outcome.reusable);
}

TEST_CASE("bytes behind the answer make the connection unfit for another request") {
  Scripted s;
  s.server->write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n");
  REQUIRE(s.until_over());
  CHECK(s.outcome.body == "ok");
  CHECK_FALSE(s.outcome.reusable);
}

TEST_CASE("a paused call delivers nothing until it is resumed") {
  Scripted s;
  s.call->pause();
  s.server->write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  settle(s.loop);
  CHECK_FALSE(s.outcome.head);
  s.call->resume();
  REQUIRE(s.until_over());
  CHECK(s.outcome.body == "ok");
}

TEST_CASE("a call that is paused inside of on_head gives the body after resume") {
  EventLoop loop;
  auto [ours, theirs] = socket_pair();
  auto server = Socket::adopt(loop, std::move(theirs));
  server->start({});
  Outcome outcome;
  auto handlers = outcome.handlers();
  std::shared_ptr<HttpClientCall> call;
  handlers.on_head = [&](const wire::ResponseHead&) { call->pause(); };
  call = HttpClientCall::start(loop, std::move(ours), request_head("GET", "/"), handlers);
  server->write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  settle(loop);
  CHECK(outcome.body.empty());
  CHECK_FALSE(outcome.over());
  call->resume();
  CHECK(run_until(loop, [&] { return outcome.ended; }));
  CHECK(outcome.body == "ok");
}

TEST_CASE("after cancel no callback comes and the connection is closed") {
  const auto before = open_descriptors();
  {
    Scripted s;
    s.call->cancel();
    s.server->write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    settle(s.loop);
    CHECK_FALSE(s.outcome.over());
    CHECK_FALSE(s.outcome.head);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a body that is shorter or longer than its Content-Length fails the call") {
  for (const char* body : {"abc", "abcdefg"}) {
    CAPTURE(body);
    EventLoop loop;
    auto [ours, theirs] = socket_pair();
    auto head = request_head("POST", "/");
    head.headers.add("Content-Length", "5");
    Outcome outcome;
    auto call = HttpClientCall::start(loop, std::move(ours), head, outcome.handlers());
    call->write_body(body);
    call->end_body();
    REQUIRE(run_until(loop, [&] { return outcome.over(); }));
    REQUIRE(outcome.error);
    CHECK(outcome.error->reason == "body_mismatch");
  }
}

TEST_CASE("a CONNECT's 200 hands the connection over, early bytes included") {
  Scripted s("CONNECT");
  s.server->write("HTTP/1.1 200 OK\r\n\r\nearly");
  REQUIRE(run_until(s.loop, [&] { return s.outcome.head.has_value(); }));
  std::string early;
  const auto raw = s.call->take_socket(early);
  REQUIRE(raw != nullptr);
  CHECK(early == "early");
  std::string got;
  Socket::Handlers h;
  h.on_data = [&](std::string_view bytes) { got += bytes; };
  raw->start(std::move(h));
  s.server->write("and later");
  CHECK(run_until(s.loop, [&] { return got == "and later"; }));
  CHECK_FALSE(s.outcome.over());
}

TEST_CASE("a refusal that comes while the body is still sent is read") {
  EventLoop loop;
  auto [ours, theirs] = socket_pair();
  serve_http(loop, std::move(theirs), {},
             [](const Exchange& exchange) { exchange->respond(507, {}, "no space"); });
  auto head = request_head("PUT", "/");
  head.headers.add("Content-Length", "50000000");
  Outcome outcome;
  auto call = HttpClientCall::start(loop, std::move(ours), head, outcome.handlers());
  call->write_body(pattern(20'000'000));
  REQUIRE(run_until(loop, [&] { return outcome.over(); }));
  CHECK(outcome.ended);
  CHECK(outcome.head->status == 507);
  CHECK(outcome.body == "no space");
  CHECK_FALSE(outcome.reusable);
}

}  // namespace
}  // namespace sandboxkit::io
