#include "tests/unit/net/tunnel_fixture.h"

#include <doctest/doctest.h>

namespace {

using namespace std::chrono_literals;
using namespace sandboxkit::net;
using sandboxkit::Error;
using sandboxkit::ErrorCode;
namespace wire = sandboxkit::wire;

using Exchange = std::shared_ptr<TunnelExchange>;

void answer_with_echo(const Exchange& exchange) {
  exchange->collect_body(1 << 20, [exchange](const std::string& body) {
    wire::Headers headers;
    headers.add("Content-Type", "text/plain");
    exchange->respond(200, headers,
                      exchange->request().method + " " + exchange->request().path + " " + body);
  });
}

}  // namespace

TEST_CASE("a request without a body gets its answer") {
  TunnelFixture tunnel(answer_with_echo);
  Answer answer;
  const auto stream = open_stream(*tunnel.client, {.path = "/v1/inventory"}, answer.handlers());
  REQUIRE(tunnel.serve_until([&] { return answer.over(); }));
  CHECK(answer.status == 200);
  CHECK(answer.body == "GET /v1/inventory ");
  REQUIRE(answer.headers.find("content-type") != nullptr);
  CHECK(*answer.headers.find("content-type") == "text/plain");
  CHECK(answer.ended);
  CHECK(tunnel.serve_until([&] { return tunnel.client->open_streams() == 0; }));
}

TEST_CASE("a request's body and fields reach the worker, connection-level fields do not") {
  std::optional<TunnelRequest> seen;
  TunnelFixture tunnel([&](const Exchange& exchange) {
    seen = exchange->request();
    answer_with_echo(exchange);
  });
  TunnelRequest request{.method = "POST", .path = "/v1/deliveries?x=1", .has_body = true};
  request.headers.add("X-Seq", " 7 ");
  request.headers.add("Connection", "keep-alive, X-Hop");
  request.headers.add("X-Hop", "1");
  request.headers.add("Transfer-Encoding", "chunked");
  request.headers.add("Host", "controller");
  Answer answer;
  const auto stream = open_stream(*tunnel.client, request, answer.handlers());
  stream->write("hello ");
  stream->write("worker");
  stream->end_body();
  REQUIRE(tunnel.serve_until([&] { return answer.over(); }));
  CHECK(answer.body == "POST /v1/deliveries?x=1 hello worker");
  REQUIRE(seen);
  CHECK(seen->has_body);
  CHECK(*seen->headers.find("x-seq") == "7");
  for (const char* name : {"connection", "x-hop", "transfer-encoding", "host"}) {
    CAPTURE(name);
    CHECK(seen->headers.find(name) == nullptr);
  }
}

TEST_CASE("a streamed answer comes as it is written") {
  Exchange kept;
  TunnelFixture tunnel([&](const Exchange& exchange) {
    kept = exchange;
    exchange->begin(200, {});
    exchange->write("one");
  });
  Answer answer;
  const auto stream = open_stream(*tunnel.client, {.path = "/"}, answer.handlers());
  REQUIRE(tunnel.serve_until([&] { return answer.body == "one"; }));
  CHECK_FALSE(answer.over());
  kept->write("two");
  REQUIRE(tunnel.serve_until([&] { return answer.body == "onetwo"; }));
  kept->end();
  REQUIRE(tunnel.serve_until([&] { return answer.ended; }));
}

TEST_CASE("bytes flow both ways at once over one stream") {
  TunnelFixture tunnel([](const Exchange& exchange) {
    exchange->begin(200, {});
    exchange->read_body([exchange](std::string_view bytes) { exchange->write(bytes); },
                        [exchange] { exchange->end(); });
  });
  Answer answer;
  const auto stream = open_stream(
      *tunnel.client, {.method = "POST", .path = "/tcp", .has_body = true}, answer.handlers());
  stream->write("ping");
  REQUIRE(tunnel.serve_until([&] { return answer.body == "ping"; }));
  stream->write("pong");
  stream->end_body();
  REQUIRE(tunnel.serve_until([&] { return answer.ended; }));
  CHECK(answer.body == "pingpong");
}

TEST_CASE("answers without a body keep their status and length") {
  TunnelFixture tunnel([](const Exchange& exchange) {
    exchange->respond(exchange->request().path == "/none" ? 204 : 200, {}, "12345");
  });
  Answer none;
  Answer head;
  const auto first = open_stream(*tunnel.client, {.path = "/none"}, none.handlers());
  const auto second = open_stream(*tunnel.client, {.method = "HEAD", .path = "/"}, head.handlers());
  REQUIRE(tunnel.serve_until([&] { return none.over() && head.over(); }));
  CHECK(none.ended);
  CHECK(none.status == 204);
  CHECK(head.ended);
  CHECK(head.body.empty());
  CHECK(*head.headers.find("content-length") == "5");
}

TEST_CASE("a body past its limit is refused with 413") {
  TunnelFixture tunnel([](const Exchange& exchange) {
    exchange->collect_body(10, [exchange](const std::string&) { exchange->respond(200, {}, ""); });
  });
  for (const std::size_t bytes : {10U, 11U}) {
    CAPTURE(bytes);
    Answer answer;
    const auto stream = open_stream(
        *tunnel.client, {.method = "POST", .path = "/", .has_body = true}, answer.handlers());
    stream->write(std::string(bytes, 'x'));
    stream->end_body();
    REQUIRE(tunnel.serve_until([&] { return answer.over(); }));
    CHECK(answer.status == (bytes == 10 ? 200 : 413));
  }
}

TEST_CASE("an answer before the body's end leaves no stream behind") {
  TunnelFixture tunnel([](const Exchange& exchange) { exchange->respond(403, {}, "no"); });
  Answer answer;
  const auto stream = open_stream(*tunnel.client, {.method = "POST", .path = "/", .has_body = true},
                                  answer.handlers());
  stream->write(std::string(4 << 20, 'x'));
  REQUIRE(tunnel.serve_until([&] { return answer.over(); }));
  CHECK(answer.ended);
  CHECK(answer.status == 403);
  CHECK(tunnel.serve_until([&] { return tunnel.client->open_streams() == 0; }));
  CHECK(stream->queued_bytes() == 0);
}

TEST_CASE("who still reads a body hears that the answer's end cut it") {
  int gone = 0;
  TunnelFixture tunnel([&](const Exchange& exchange) {
    exchange->on_gone([&] { ++gone; });
    exchange->read_body([](std::string_view) {}, [] {});
    exchange->respond(200, {}, "the server spoke last");
  });
  Answer answer;
  const auto stream = open_stream(
      *tunnel.client, {.method = "POST", .path = "/tcp", .has_body = true}, answer.handlers());
  REQUIRE(tunnel.serve_until([&] { return answer.over() && gone > 0; }));
  CHECK(answer.ended);
  tunnel.serve_until_quiet();
  CHECK(gone == 1);
}

TEST_CASE("who has answered and read everything hears of no loss") {
  int gone = 0;
  TunnelFixture tunnel([&](const Exchange& exchange) {
    exchange->on_gone([&] { ++gone; });
    answer_with_echo(exchange);
  });
  Answer answer;
  const auto stream = open_stream(*tunnel.client, {.method = "POST", .path = "/", .has_body = true},
                                  answer.handlers());
  stream->end_body();
  REQUIRE(tunnel.serve_until([&] { return answer.over(); }));
  tunnel.client = nullptr;
  REQUIRE(tunnel.serve_until([&] { return tunnel.server_closed.has_value(); }));
  CHECK(gone == 0);
}

TEST_CASE("a head that the tunnel does not take is refused by name") {
  TunnelFixture tunnel(answer_with_echo);
  TunnelRequest bad{.path = "/"};
  bad.headers.add("x y", "1");
  const auto refused = tunnel.client->open(bad, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == "bad_header");
  TunnelRequest large{.path = "/"};
  large.headers.add("x", std::string(33 * 1024, 'x'));
  const auto too_large = tunnel.client->open(large, {});
  REQUIRE_FALSE(too_large);
  CHECK(too_large.error().reason == "head_too_large");
  CHECK(tunnel.client->open_streams() == 0);
}

TEST_CASE("a head past the worker's limit ends that stream alone") {
  TunnelLimits small;
  small.max_header_bytes = 1024;
  TunnelFixture tunnel(answer_with_echo, {}, small);
  TunnelRequest large{.path = "/"};
  large.headers.add("x", std::string(2000, 'x'));
  Answer cut;
  Answer fine;
  const auto first = open_stream(*tunnel.client, large, cut.handlers());
  const auto second = open_stream(*tunnel.client, {.path = "/"}, fine.handlers());
  REQUIRE(tunnel.serve_until([&] { return cut.over() && fine.over(); }));
  CHECK(cut.error);
  CHECK(fine.ended);
}

// Complaint 50: pending connections pile up without end.
TEST_CASE("the cap of streams is refused by name, and a stream that ends makes room") {
  TunnelLimits limits;
  limits.max_streams = 3;
  std::vector<Exchange> held;
  TunnelFixture tunnel([&](const Exchange& exchange) { held.push_back(exchange); }, limits, limits);
  std::vector<Answer> answers(4);
  std::vector<std::shared_ptr<TunnelStream>> streams;
  for (int i = 0; i < 3; ++i) {
    streams.push_back(open_stream(*tunnel.client, {.path = "/"}, answers[i].handlers()));
  }
  const auto refused = tunnel.client->open({.path = "/"}, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kResourceExhausted);
  CHECK(refused.error().reason == "tunnel_streams");
  REQUIRE(tunnel.serve_until([&] { return held.size() == 3; }));
  held[0]->respond(200, {}, "");
  REQUIRE(tunnel.serve_until([&] { return answers[0].ended; }));
  const auto fourth = open_stream(*tunnel.client, {.path = "/"}, answers[3].handlers());
  CHECK(tunnel.serve_until([&] { return held.size() == 4; }));
}

TEST_CASE("the worker hears once that the controller reset a stream") {
  int gone = 0;
  Exchange kept;
  TunnelFixture tunnel([&](const Exchange& exchange) {
    kept = exchange;
    exchange->on_gone([&] { ++gone; });
    exchange->begin(200, {});
    exchange->write("x");
  });
  Answer answer;
  const auto stream = open_stream(*tunnel.client, {.path = "/"}, answer.handlers());
  REQUIRE(tunnel.serve_until([&] { return answer.body == "x"; }));
  stream->reset();
  CHECK(tunnel.client->open_streams() == 0);
  REQUIRE(tunnel.serve_until([&] { return gone == 1; }));
  kept->write("into the void");
  kept->end();
  tunnel.serve_until_quiet();
  CHECK(gone == 1);
  CHECK_FALSE(answer.over());
}

TEST_CASE("the controller sees an error when the worker cuts a stream") {
  TunnelFixture tunnel([](const Exchange& exchange) {
    exchange->begin(200, {});
    exchange->write("part");
    exchange->reset();
  });
  Answer answer;
  const auto stream = open_stream(*tunnel.client, {.path = "/"}, answer.handlers());
  REQUIRE(tunnel.serve_until([&] { return answer.over(); }));
  REQUIRE(answer.error);
  CHECK(answer.error->code == ErrorCode::kUnavailable);
  CHECK(answer.error->reason == "stream_reset");
}

TEST_CASE("three thousand cancelled streams do not end the tunnel") {
  std::size_t started = 0;
  TunnelFixture tunnel([&](const Exchange& exchange) {
    ++started;
    exchange->begin(200, {});
  });
  for (std::size_t i = 0; i < 3000; ++i) {
    Answer answer;
    const auto stream = open_stream(*tunnel.client, {.path = "/"}, answer.handlers());
    REQUIRE(tunnel.serve_until([&] { return answer.status == 200; }));
    stream->reset();
  }
  CHECK(started == 3000);
  CHECK(tunnel.client->is_open());
  Answer last;
  const auto stream = open_stream(*tunnel.client, {.path = "/"}, last.handlers());
  CHECK(tunnel.serve_until([&] { return last.status == 200; }));
}

TEST_CASE("a stream that is reset before it was sent never reaches the worker") {
  std::size_t started = 0;
  TunnelFixture tunnel([&](const Exchange&) { ++started; });
  Answer answer;
  open_stream(*tunnel.client, {.path = "/"}, answer.handlers())->reset();
  tunnel.serve_until_quiet();
  CHECK(started == 0);
  CHECK(tunnel.client->open_streams() == 0);
  CHECK(tunnel.client->is_open());
}

TEST_CASE("a handler may reset its stream from inside of its own data") {
  TunnelFixture tunnel([](const Exchange& exchange) {
    exchange->begin(200, {});
    exchange->write("x");
  });
  std::shared_ptr<TunnelStream> stream;
  bool called = false;
  stream = open_stream(*tunnel.client, {.path = "/"},
                       {.on_data = [&, alive = std::make_shared<int>(7)](std::string_view) {
                         stream->reset();
                         stream = nullptr;
                         called = *alive == 7;
                       }});
  REQUIRE(tunnel.serve_until([&] { return called; }));
  CHECK(tunnel.client->is_open());
}

TEST_CASE("a worker that does not answer in time loses the stream, not the tunnel") {
  TunnelLimits limits;
  limits.open_timeout = 20ms;
  std::vector<Exchange> held;
  TunnelFixture tunnel([&](const Exchange& exchange) { held.push_back(exchange); }, limits);
  Answer answer;
  const auto stream = open_stream(*tunnel.client, {.path = "/"}, answer.handlers());
  REQUIRE(tunnel.serve_until([&] { return answer.over(); }));
  CHECK(answer.error->code == ErrorCode::kDeadlineExceeded);
  CHECK(tunnel.client->is_open());
}
