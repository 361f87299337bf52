#include "io/http_server.h"

#include "tests/unit/io/support.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace sandboxkit::io {
namespace {

using namespace std::chrono_literals;
using testing::open_descriptors;
using testing::pattern;
using testing::run_until;
using testing::settle;
using testing::socket_pair;

using Exchange = std::shared_ptr<HttpExchange>;

/// A client that speaks bytes: what it sends is up to the test.
struct RawClient {
  std::shared_ptr<Socket> socket;
  std::string got;
  bool ended = false;
  bool closed = false;

  explicit RawClient(EventLoop& loop, Fd fd) : socket(Socket::adopt(loop, std::move(fd))) {
    Socket::Handlers h;
    h.on_data = [this](std::string_view bytes) { got += bytes; };
    h.on_end = [this] { ended = true; };
    h.on_close = [this](const Error&) { closed = true; };
    socket->start(std::move(h));
  }
  ~RawClient() { socket->close(); }
  bool gone() const { return ended || closed; }
  std::size_t count(std::string_view text) const {
    std::size_t times = 0;
    for (auto at = got.find(text); at != std::string::npos; at = got.find(text, at + 1)) {
      ++times;
    }
    return times;
  }
};

struct Served {
  EventLoop loop;
  HttpServerOptions options;
  bool closed = false;
  std::unique_ptr<RawClient> client;

  void serve(HttpHandler handler) {
    auto [ours, theirs] = socket_pair();
    serve_http(loop, std::move(theirs), options, std::move(handler), [this] { closed = true; });
    client = std::make_unique<RawClient>(loop, std::move(ours));
  }
  bool until(const std::function<bool()>& done) { return run_until(loop, done); }
};

std::string get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"; }

/// Notes what it sees, and marks what passes.
struct Notes final : HttpObserver {
  std::vector<std::string> seen;
  wire::Headers on_request(wire::RequestHead& head) override {
    seen.push_back("request " + head.target);
    head.headers.set("X-Seen", "yes");
    wire::Headers fields;
    fields.add("X-Mark", std::to_string(seen.size()));
    return fields;
  }
  void on_answer(const wire::RequestHead& head, int status, std::chrono::microseconds) override {
    seen.push_back("answer " + head.target + " " + std::to_string(status));
  }
};

TEST_CASE("an observer sees each request and its answer, and its fields win over the handler's") {
  Served s;
  const auto notes = std::make_shared<Notes>();
  s.options.observer = notes;
  std::string seen;
  s.serve([&](const Exchange& exchange) {
    seen = *exchange->request().headers.find("X-Seen");
    wire::Headers headers;
    headers.add("x-mark", "forged");
    exchange->respond(204, headers, "");
  });
  s.client->socket->write(get("/1"));
  REQUIRE(s.until([&] { return s.client->count("\r\n\r\n") == 1; }));
  CHECK(seen == "yes");
  CHECK(s.client->count("X-Mark: 1\r\n") == 1);
  CHECK(s.client->count("forged") == 0);
  s.client->socket->write("no head\r\n\r\n");
  REQUIRE(s.until([&] { return s.client->gone(); }));
  CHECK(s.client->count("X-Mark: 3\r\n") == 1);
  CHECK(notes->seen ==
        std::vector<std::string>{"request /1", "answer /1 204", "request ", "answer  400"});
}

TEST_CASE("the fields of an observer go into upgrades and into refusals of a broken body") {
  Served s;
  s.options.observer = std::make_shared<Notes>();
  SUBCASE("upgrade") {
    std::shared_ptr<Socket> raw;
    s.serve([&](const Exchange& exchange) {
      wire::ResponseHead head;
      head.status = 101;
      std::string early;
      raw = exchange->upgrade(head, early);
    });
    s.client->socket->write(get("/up"));
    REQUIRE(s.until([&] { return s.client->count("\r\n\r\n") == 1; }));
    CHECK(s.client->got.starts_with("HTTP/1.1 101 "));
    raw->close();
  }
  SUBCASE("broken body") {
    s.serve([](const Exchange& exchange) { exchange->collect_body(100, [](const auto&) {}); });
    s.client->socket->write(
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    REQUIRE(s.until([&] { return s.client->gone(); }));
    CHECK(s.client->got.starts_with("HTTP/1.1 400 "));
  }
  CHECK(s.client->count("X-Mark: 1\r\n") == 1);
}

TEST_CASE("pipelined requests are answered one after the other, in order") {
  Served s;
  std::vector<Exchange> waiting;
  s.serve([&](Exchange exchange) { waiting.push_back(std::move(exchange)); });
  s.client->socket->write(get("/1") + get("/2") + get("/3"));
  for (std::size_t i = 1; i <= 3; ++i) {
    REQUIRE(s.until([&] { return waiting.size() == i; }));
    settle(s.loop);
    CHECK(waiting.size() == i);
    CHECK(waiting.back()->request().target == "/" + std::to_string(i));
    waiting.back()->respond(200, {}, "answer " + std::to_string(i));
  }
  REQUIRE(s.until([&] { return s.client->count("HTTP/1.1 200 OK") == 3; }));
  CHECK(s.client->got.find("answer 1") < s.client->got.find("answer 2"));
  CHECK(s.client->got.ends_with("answer 3"));
  CHECK_FALSE(s.closed);
}

TEST_CASE("thousands of pipelined requests that are answered at once do not nest") {
  Served s;
  s.serve([](const Exchange& exchange) { exchange->respond(200, {}, "ok"); });
  std::string many;
  for (int i = 0; i < 5000; ++i) {
    many += get("/");
  }
  s.client->socket->write(std::move(many));
  CHECK(s.until([&] { return s.client->count("\r\n\r\nok") == 5000; }));
}

TEST_CASE("a head that drips in ends with 408 when its time is over") {
  Served s;
  s.options.head_timeout = 30ms;
  s.serve([](const Exchange& exchange) { exchange->respond(200, {}, ""); });
  s.client->socket->write("GET / HTTP/1.1\r\nHo");
  CHECK(s.until([&] { return s.client->gone(); }));
  CHECK(s.client->got.starts_with("HTTP/1.1 408 "));
  CHECK(s.client->got.find(R"("error":"head_timeout")") != std::string::npos);
  CHECK(s.until([&] { return s.closed; }));
}

TEST_CASE("an idle keep-alive connection is closed after its time, without an answer") {
  Served s;
  s.options.idle_timeout = 20ms;
  s.serve([](const Exchange& exchange) { exchange->respond(204, {}, ""); });
  s.client->socket->write(get("/"));
  CHECK(s.until([&] { return s.client->gone(); }));
  CHECK(s.client->got == "HTTP/1.1 204 No Content\r\n\r\n");
}

TEST_CASE("bad heads get a JSON error, and the connection ends") {
  struct Row {
    const char* head;
    const char* status;
  };
  const std::string large =
      "GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(20'000, 'a') + "\r\n\r\n";
  const Row rows[] = {
      {"nonsense\r\n\r\n", "HTTP/1.1 400 "},
      {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
       "HTTP/1.1 400 "},
      {large.c_str(), "HTTP/1.1 431 "},
      {"GET / HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\n\r\n", "HTTP/1.1 417 "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.status);
    Served s;
    int served = 0;
    s.serve([&](const Exchange&) { ++served; });
    s.client->socket->write(row.head);
    CHECK(s.until([&] { return s.client->gone(); }));
    CHECK(s.client->got.starts_with(row.status));
    CHECK(s.client->got.find(R"({"code":4)") != std::string::npos);
    CHECK(served == 0);
  }
}

TEST_CASE("a chunked body is decoded, and a chunked answer ends with its last chunk") {
  Served s;
  s.serve([](const Exchange& exchange) {
    exchange->collect_body(100, [exchange](std::string body) {
      exchange->begin(200, {});
      exchange->write("<" + body + ">");
      exchange->end();
    });
  });
  s.client->socket->write(
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  settle(s.loop);
  s.client->socket->write("2;x=y\r\nde\r\n0\r\n\r\n" + get("/no"));
  CHECK(s.until([&] { return s.client->count("HTTP/1.1 200") == 2; }));
  CHECK(s.client->got.find("7\r\n<abcde>\r\n0\r\n\r\n") != std::string::npos);
}

TEST_CASE("Expect: 100-continue is answered when the body is asked for, not before") {
  Served s;
  Exchange waiting;
  std::string body;
  s.serve([&](Exchange exchange) { waiting = std::move(exchange); });
  s.client->socket->write(
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  REQUIRE(s.until([&] { return waiting != nullptr; }));
  settle(s.loop);
  CHECK(s.client->got.empty());
  waiting->collect_body(10, [&](std::string bytes) { body = std::move(bytes); });
  REQUIRE(s.until([&] { return !s.client->got.empty(); }));
  CHECK(s.client->got == "HTTP/1.1 100 Continue\r\n\r\n");
  s.client->socket->write("ok");
  CHECK(s.until([&] { return body == "ok"; }));
  waiting->respond(200, {}, "");
}

TEST_CASE("a HEAD answer tells the length and carries no body") {
  Served s;
  s.serve([](const Exchange& exchange) { exchange->respond(200, {}, "four"); });
  s.client->socket->write("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
  REQUIRE(s.until([&] { return !s.client->got.empty(); }));
  settle(s.loop);
  CHECK(s.client->got == "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
}

TEST_CASE("HTTP/1.0 and Connection: close end the connection after the answer") {
  const std::string requests[] = {"GET / HTTP/1.0\r\n\r\n",
                                  "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"};
  for (const std::string& request : requests) {
    CAPTURE(request);
    Served s;
    s.serve([](const Exchange& exchange) {
      exchange->begin(200, {});
      exchange->write("body");
      exchange->end();
    });
    s.client->socket->write(std::string_view(request));
    CHECK(s.until([&] { return s.client->gone(); }));
    CHECK(s.client->got.find("Connection: close\r\n") != std::string::npos);
    CHECK(s.client->got.find("body") != std::string::npos);
  }
}

TEST_CASE("a body at its limit is collected, one byte more is answered 413") {
  for (const std::size_t size : {std::size_t{1000}, std::size_t{1001}}) {
    for (const bool chunked : {false, true}) {
      CAPTURE(size);
      CAPTURE(chunked);
      Served s;
      s.serve([](const Exchange& exchange) {
        exchange->collect_body(1000, [exchange](const std::string& body) {
          exchange->respond(200, {}, std::to_string(body.size()));
        });
      });
      const std::string head = "POST / HTTP/1.1\r\nHost: x\r\n";
      const std::string body(size, 'b');
      s.client->socket->write(chunked ? head + "Transfer-Encoding: chunked\r\n\r\n" +
                                            wire::chunk(body) + std::string(wire::kLastChunk)
                                      : head + "Content-Length: " + std::to_string(size) +
                                            "\r\n\r\n" + body);
      REQUIRE(s.until([&] { return !s.client->got.empty(); }));
      CHECK(s.client->got.starts_with(size == 1000 ? "HTTP/1.1 200 " : "HTTP/1.1 413 "));
    }
  }
}

TEST_CASE("a body that is not whole in time is answered 408") {
  Served s;
  s.options.body_timeout = 20ms;
  bool collected = false;
  s.serve([&](const Exchange& exchange) {
    exchange->collect_body(1000, [&](const std::string&) { collected = true; });
  });
  s.client->socket->write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
  CHECK(s.until([&] { return s.client->gone(); }));
  CHECK(s.client->got.starts_with("HTTP/1.1 408 "));
  CHECK_FALSE(collected);
}

TEST_CASE("a broken chunk is answered 400, ends the connection, and tells on_gone") {
  Served s;
  int gone = 0;
  s.serve([&](const Exchange& exchange) {
    exchange->on_gone([&] { ++gone; });
    exchange->read_body([](std::string_view) {}, [exchange] { exchange->respond(200, {}, ""); });
  });
  s.client->socket->write("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
  CHECK(s.until([&] { return s.client->gone(); }));
  CHECK(s.client->got.starts_with("HTTP/1.1 400 "));
  CHECK(gone == 1);
}

TEST_CASE("on_gone comes once when the client leaves while the handler works") {
  const std::string requests[] = {
      get("/"), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n" + pattern(300'000)};
  for (const std::string& request : requests) {
    CAPTURE(request.size());
    Served s;
    Exchange waiting;
    int gone = 0;
    s.serve([&](Exchange exchange) {
      exchange->on_gone([&] { ++gone; });
      waiting = std::move(exchange);
    });
    s.client->socket->write(std::string_view(request));
    REQUIRE(s.until([&] { return waiting != nullptr; }));
    settle(s.loop);
    s.client->socket->close();
    CHECK(s.until([&] { return gone == 1 && s.closed; }));
    waiting->respond(200, {}, "too late");
    settle(s.loop);
    CHECK(gone == 1);
  }
}

TEST_CASE("a client that only half-closed still reads its answer when nobody asked for on_gone") {
  Served s;
  Exchange waiting;
  s.serve([&](Exchange exchange) { waiting = std::move(exchange); });
  s.client->socket->write(get("/"));
  s.client->socket->shutdown_write();
  REQUIRE(s.until([&] { return waiting != nullptr; }));
  settle(s.loop);
  waiting->respond(200, {}, "still here");
  CHECK(s.until([&] { return s.client->gone(); }));
  CHECK(s.client->got.ends_with("still here"));
}

TEST_CASE("abort cuts a chunked answer before its last chunk") {
  Served s;
  s.serve([](const Exchange& exchange) {
    exchange->begin(200, {});
    exchange->write("half");
    exchange->abort();
  });
  s.client->socket->write(get("/"));
  CHECK(s.until([&] { return s.client->gone() && s.closed; }));
  CHECK(s.client->got.ends_with("4\r\nhalf\r\n"));
}

TEST_CASE("an answer that is shorter or longer than its Content-Length is cut, not padded") {
  for (const char* body : {"abc", "abcdefgh"}) {
    CAPTURE(body);
    Served s;
    s.serve([&](const Exchange& exchange) {
      wire::Headers headers;
      headers.add("Content-Length", "5");
      exchange->begin(200, headers);
      exchange->write(body);
      exchange->end();
    });
    s.client->socket->write(get("/") + get("/"));
    CHECK(s.until([&] { return s.client->gone(); }));
    CHECK(s.client->count("HTTP/1.1") == 1);
  }
}

TEST_CASE("header fields that would break the answer apart are left out") {
  Served s;
  s.serve([](const Exchange& exchange) {
    wire::Headers headers;
    headers.add("X-Good", "yes");
    headers.add("X-Bad", "a\r\nSet-Cookie: forged=1");
    exchange->respond(200, headers, "");
  });
  s.client->socket->write(get("/"));
  REQUIRE(s.until([&] { return !s.client->got.empty(); }));
  CHECK(s.client->got.find("X-Good: yes") != std::string::npos);
  CHECK(s.client->got.find("forged") == std::string::npos);
}

TEST_CASE("an upgrade hands the connection over with the bytes that came early") {
  Served s;
  std::shared_ptr<Socket> raw;
  std::string early;
  std::string later;
  s.serve([&](const Exchange& exchange) {
    wire::ResponseHead head;
    head.status = 101;
    head.headers.add("Connection", "Upgrade");
    head.headers.add("Upgrade", "tcp");
    raw = exchange->upgrade(head, early);
  });
  s.client->socket->write(
      "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nearly");
  REQUIRE(s.until([&] { return raw != nullptr && s.closed; }));
  CHECK(early == "early");
  s.client->socket->write(" later");
  settle(s.loop);
  Socket::Handlers h;
  h.on_data = [&](std::string_view bytes) { later += bytes; };
  raw->start(std::move(h));
  CHECK(s.until([&] { return later == " later"; }));
  raw->write("raw");
  CHECK(s.until([&] { return s.client->got.ends_with("\r\n\r\nraw"); }));
}

TEST_CASE("a paused upload stops the client, and goes on when it is resumed") {
  constexpr std::size_t kBody = 64 * 1024 * 1024;
  Served s;
  Exchange waiting;
  std::size_t got = 0;
  bool right = true;
  bool ended = false;
  s.serve([&](Exchange exchange) {
    waiting = exchange;
    exchange->read_body(
        [&](std::string_view bytes) {
          right = right && bytes == pattern(bytes.size(), got);
          got += bytes.size();
        },
        [&] { ended = true; });
    exchange->pause_body();
  });
  Socket& socket = *s.client->socket;
  std::size_t sent = 0;
  std::size_t most_queued = 0;
  const auto feed = [&] {
    while (sent < kBody && socket.queued_bytes() < Socket::kHighWater) {
      const std::size_t piece = std::min<std::size_t>(100'000, kBody - sent);
      socket.write(pattern(piece, sent));
      sent += piece;
      most_queued = std::max(most_queued, socket.queued_bytes());
    }
  };
  Socket::Handlers h;
  h.on_drain = feed;
  socket.set_handlers(std::move(h));
  socket.write("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(kBody) +
               "\r\n\r\n");
  feed();
  REQUIRE(s.until([&] { return waiting != nullptr; }));
  settle(s.loop);
  CHECK(got == 0);
  CHECK(sent < 2'000'000);
  waiting->resume_body();
  CHECK(s.until([&] { return ended; }));
  CHECK(got == kBody);
  CHECK(right);
  CHECK(most_queued < 2 * Socket::kHighWater);
  waiting->respond(200, {}, "");
}

TEST_CASE("a download waits for a slow client with a flat buffer") {
  constexpr std::size_t kBody = 64 * 1024 * 1024;
  Served s;
  std::size_t sent = 0;
  std::size_t most_queued = 0;
  std::function<void()> feed;
  s.serve([&](const Exchange& exchange) {
    wire::Headers headers;
    headers.add("Content-Length", std::to_string(kBody));
    exchange->begin(200, headers);
    feed = [&, exchange] {
      while (sent < kBody && exchange->queued_bytes() < Socket::kHighWater) {
        const std::size_t piece = std::min<std::size_t>(100'000, kBody - sent);
        exchange->write(pattern(piece, sent));
        sent += piece;
        most_queued = std::max(most_queued, exchange->queued_bytes());
      }
      if (sent == kBody) {
        exchange->end();
      }
    };
    exchange->on_drain(feed);
    feed();
  });
  s.client->socket->pause_reading();
  s.client->socket->write(get("/"));
  REQUIRE(s.until([&] { return sent > 0; }));
  settle(s.loop);
  CHECK(sent < 2'000'000);
  s.client->socket->resume_reading();
  CHECK(s.until([&] { return s.client->got.size() > kBody; }));
  CHECK(s.client->got.ends_with(pattern(1000, kBody - 1000)));
  CHECK(most_queued < 2 * Socket::kHighWater);
  feed = nullptr;
}

TEST_CASE("no descriptor is left behind when clients come, ask and go") {
  EventLoop loop;
  const auto before = open_descriptors();
  int closed = 0;
  for (int i = 0; i < 50; ++i) {
    auto [ours, theirs] = socket_pair();
    serve_http(
        loop, std::move(theirs), {},
        [](const Exchange& exchange) { exchange->respond(200, {}, "ok"); }, [&] { ++closed; });
    RawClient client(loop, std::move(ours));
    client.socket->write(i % 2 == 0 ? get("/") : "bad\r\n\r\n");
    REQUIRE(run_until(loop, [&] { return !client.got.empty(); }));
  }
  CHECK(run_until(loop, [&] { return closed == 50; }));
  settle(loop);
  CHECK(open_descriptors() == before);
}

}  // namespace
}  // namespace sandboxkit::io
