#include "tests/unit/net/tunnel_fixture.h"

#include <algorithm>

#include <doctest/doctest.h>

namespace {

using namespace std::chrono_literals;
using namespace sandboxkit::net;
using sandboxkit::io::Socket;

using Exchange = std::shared_ptr<TunnelExchange>;

constexpr std::size_t kManyBytes = 64 << 20;
constexpr std::size_t kWindow = 256 * 1024;

/// Answers every request with `total` bytes, as they are taken.
void answer_with_bytes(const Exchange& exchange, std::size_t total, std::size_t* most_queued) {
  const std::weak_ptr<TunnelExchange> weak = exchange;
  const auto pump = std::make_shared<Pump>(
      total, [weak](std::string_view bytes) { weak.lock()->write(bytes); },
      [weak] { return weak.lock()->queued_bytes(); }, [weak] { weak.lock()->end(); });
  exchange->on_drain([pump, most_queued] {
    pump->run();
    *most_queued = std::max(*most_queued, pump->most_queued);
  });
  exchange->begin(200, {});
  pump->run();
}

}  // namespace

TEST_CASE("many bytes come down with little of them in memory") {
  std::size_t most_queued = 0;
  TunnelFixture tunnel(
      [&](const Exchange& exchange) { answer_with_bytes(exchange, kManyBytes, &most_queued); });
  std::size_t got = 0;
  bool ended = false;
  const auto stream = open_stream(*tunnel.client, {.path = "/"},
                                  {.on_data = [&](std::string_view bytes) { got += bytes.size(); },
                                   .on_end = [&] { ended = true; }});
  REQUIRE(tunnel.serve_until([&] { return ended; }));
  CHECK(got == kManyBytes);
  CHECK(most_queued <= Socket::kHighWater + Pump::kPieceBytes);
}

TEST_CASE("many bytes go up with little of them in memory") {
  std::size_t got = 0;
  TunnelFixture tunnel([&](const Exchange& exchange) {
    exchange->read_body([&](std::string_view bytes) { got += bytes.size(); },
                        [exchange] { exchange->respond(200, {}, "done"); });
  });
  Answer answer;
  std::shared_ptr<TunnelStream> stream;
  const auto pump = std::make_shared<Pump>(
      kManyBytes, [&](std::string_view bytes) { stream->write(bytes); },
      [&] { return stream->queued_bytes(); }, [&] { stream->end_body(); });
  auto handlers = answer.handlers();
  handlers.on_drain = [pump] { pump->run(); };
  stream = open_stream(*tunnel.client, {.method = "PUT", .path = "/", .has_body = true},
                       std::move(handlers));
  pump->run();
  REQUIRE(tunnel.serve_until([&] { return answer.over(); }));
  CHECK(answer.ended);
  CHECK(got == kManyBytes);
  CHECK(pump->most_queued <= Socket::kHighWater + Pump::kPieceBytes);
}

// Complaint 49: one slow reader stalls all others.
TEST_CASE("a reader that stalls pins one window and delays nobody") {
  std::size_t most_queued = 0;
  Exchange slow;
  TunnelFixture tunnel([&](const Exchange& exchange) {
    if (exchange->request().path == "/bulk") {
      slow = exchange;
      answer_with_bytes(exchange, kManyBytes, &most_queued);
    } else {
      exchange->respond(200, {}, "fast");
    }
  });
  std::size_t got = 0;
  bool ended = false;
  std::shared_ptr<TunnelStream> stalled;
  stalled = open_stream(*tunnel.client, {.path = "/bulk"},
                        {.on_data =
                             [&](std::string_view bytes) {
                               got += bytes.size();
                               stalled->pause();
                             },
                         .on_end = [&] { ended = true; }});
  REQUIRE(tunnel.serve_until([&] { return got > 0; }));
  tunnel.serve_until_quiet();
  const auto got_before = got;
  CHECK(got_before <= kWindow);
  CHECK(slow->queued_bytes() <= Socket::kHighWater + Pump::kPieceBytes);
  for (int i = 0; i < 100; ++i) {
    Answer answer;
    const auto stream = open_stream(*tunnel.client, {.path = "/fast"}, answer.handlers());
    REQUIRE(tunnel.serve_until([&] { return answer.over(); }));
    CHECK(answer.body == "fast");
  }
  CHECK(got == got_before);
  // It goes on where it stopped, piece by piece.
  REQUIRE(tunnel.serve_until([&] {
    stalled->resume();
    return ended;
  }));
  CHECK(got == kManyBytes);
}

TEST_CASE("a worker that does not read a body gets one window of it") {
  Exchange held;
  TunnelFixture tunnel([&](const Exchange& exchange) { held = exchange; });
  Answer answer;
  const auto stream = open_stream(*tunnel.client, {.method = "PUT", .path = "/", .has_body = true},
                                  answer.handlers());
  constexpr std::size_t kBytes = 4 << 20;
  stream->write(std::string(kBytes, 'x'));
  stream->end_body();
  REQUIRE(tunnel.serve_until([&] { return held != nullptr; }));
  tunnel.serve_until_quiet();
  CHECK(stream->queued_bytes() >= kBytes - kWindow);
  held->collect_body(kBytes, [&](const std::string& body) {
    held->respond(200, {}, std::to_string(body.size()));
  });
  REQUIRE(tunnel.serve_until([&] { return answer.over(); }));
  CHECK(answer.body == std::to_string(kBytes));
}

TEST_CASE("a paused worker is fed no more until it resumes") {
  std::size_t got = 0;
  Exchange held;
  TunnelFixture tunnel([&](const Exchange& exchange) {
    held = exchange;
    exchange->read_body(
        [&, exchange](std::string_view bytes) {
          got += bytes.size();
          exchange->pause_body();
        },
        [exchange] { exchange->respond(200, {}, ""); });
  });
  Answer answer;
  const auto stream = open_stream(*tunnel.client, {.method = "PUT", .path = "/", .has_body = true},
                                  answer.handlers());
  stream->write(std::string(1 << 20, 'x'));
  stream->end_body();
  REQUIRE(tunnel.serve_until([&] { return got > 0; }));
  tunnel.serve_until_quiet();
  const auto got_before = got;
  CHECK(got_before <= kWindow);
  REQUIRE(tunnel.serve_until([&] {
    held->resume_body();
    return answer.over();
  }));
  CHECK(got == 1 << 20);
}

TEST_CASE("an answer that ends while its reader is paused is given in full later") {
  TunnelFixture tunnel([](const Exchange& exchange) {
    exchange->begin(200, {});
    exchange->write("first");
    exchange->write(std::string(1000, 'y'));
    exchange->end();
  });
  std::size_t got = 0;
  bool ended = false;
  std::shared_ptr<TunnelStream> stream;
  stream = open_stream(*tunnel.client, {.path = "/"},
                       {.on_head = [&](int, const auto&) { stream->pause(); },
                        .on_data = [&](std::string_view bytes) { got += bytes.size(); },
                        .on_end = [&] { ended = true; }});
  tunnel.serve_until_quiet();
  CHECK(got == 0);
  CHECK_FALSE(ended);
  stream->resume();
  REQUIRE(tunnel.serve_until([&] { return ended; }));
  CHECK(got == 1005);
  CHECK(tunnel.serve_until([&] { return tunnel.client->open_streams() == 0; }));
}

TEST_CASE("sixteen bulk streams share the tunnel fairly") {
  std::size_t most_queued = 0;
  TunnelFixture tunnel(
      [&](const Exchange& exchange) { answer_with_bytes(exchange, 4 << 20, &most_queued); });
  std::vector<std::size_t> got(16);
  std::size_t ended = 0;
  std::size_t least_at_first_end = SIZE_MAX;
  std::vector<std::shared_ptr<TunnelStream>> streams;
  for (auto& count : got) {
    streams.push_back(
        open_stream(*tunnel.client, {.path = "/"},
                    {.on_data = [&](std::string_view bytes) { count += bytes.size(); },
                     .on_end =
                         [&] {
                           if (ended++ == 0) {
                             least_at_first_end = *std::ranges::min_element(got);
                           }
                         }}));
  }
  REQUIRE(tunnel.serve_until([&] { return ended == got.size(); }));
  CHECK(least_at_first_end > 1 << 20);
}

// Complaint 52: the second bulk pull locks up.
TEST_CASE("bulk pulls of a slow reader all complete, also after many that were given up half-way") {
  constexpr std::size_t kPullBytes = 1 << 20;
  constexpr std::size_t kPulls = 160;  // What is given up is more than the tunnel's own window.
  std::size_t most_queued = 0;
  TunnelFixture tunnel(
      [&](const Exchange& exchange) { answer_with_bytes(exchange, kPullBytes, &most_queued); });
  for (std::size_t i = 0; i < kPulls; ++i) {
    CAPTURE(i);
    std::size_t got = 0;
    bool ended = false;
    std::shared_ptr<TunnelStream> stream;
    stream = open_stream(*tunnel.client, {.path = "/"},
                         {.on_data =
                              [&](std::string_view bytes) {
                                got += bytes.size();
                                stream->pause();
                              },
                          .on_end = [&] { ended = true; }});
    if (i % 2 == 0) {
      REQUIRE(tunnel.serve_until([&] { return got > 0; }));
      tunnel.serve_until_quiet();
      stream->reset();
      continue;
    }
    REQUIRE(tunnel.serve_until([&] {
      stream->resume();
      return ended;
    }));
    CHECK(got == kPullBytes);
  }
  CHECK(tunnel.client->is_open());
}
