#include "egress/upstream_pool.h"
#include "tests/unit/egress/proxy_world.h"

#include <array>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <sys/socket.h>

using namespace sandboxkit;                // NOLINT(google-build-using-namespace)
using namespace sandboxkit::egress;        // NOLINT(google-build-using-namespace)
using namespace sandboxkit::egress::test;  // NOLINT(google-build-using-namespace)

namespace {

WorldOptions two_names(Upstream upstream = mirror_head) {
  return {.domains = {"ok.test:@", "other.test:@"},
          .hosts = {{"ok.test", "127.0.0.1"}, {"other.test", "127.0.0.1"}},
          .upstream = std::move(upstream)};
}

/// A request of a client that closes after it; what it gets.
std::string once(const World& world, const std::string& method, const std::string& host,
                 const std::string& rest = "\r\n") {
  Client client(world);
  client.send(method + " http://" + host + ":" + world.up() +
              "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + rest);
  return client.read_all();
}

bool is_served(std::string_view answer) { return answer.starts_with("HTTP/1.1 200 "); }

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// A connection with its other end.
struct Pair {
  explicit Pair(io::EventLoop& loop) {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    ours = io::Socket::adopt(loop, io::Fd(ends[0]));
    peer = io::Fd(ends[1]);
  }
  std::shared_ptr<io::Socket> ours;
  io::Fd peer;
};

}  // namespace

TEST_CASE("clients that connect for each request share the upstream's connection") {
  World world(two_names());
  for (int i = 0; i < 3; ++i) {
    CHECK(is_served(once(world, "GET", "ok.test")));
  }
  CHECK(world.upstream_connections() == 1);
  CHECK(has(world.stats(), R"("open_upstreams":0,"parked_upstreams":1)"));
}

TEST_CASE("a connection serves the name alone that it was dialled for") {
  World world(two_names());
  CHECK(is_served(once(world, "GET", "ok.test")));
  CHECK(is_served(once(world, "GET", "other.test")));
  CHECK(world.upstream_connections() == 2);
  CHECK(is_served(once(world, "HEAD", "ok.test")));
  CHECK(world.upstream_connections() == 2);
}

TEST_CASE("a client that goes from name to name leaves each connection to the next who asks") {
  World world(two_names());
  Client client(world);
  for (const std::string host : {"ok.test", "other.test", "ok.test", "other.test"}) {
    client.send("GET http://" + host + ":" + world.up() + "/ HTTP/1.1\r\nHost: x\r\n\r\n");
    CHECK(is_served(client.read_answer()));
  }
  CHECK(world.upstream_connections() == 2);
}

TEST_CASE("what may not be sent twice is sent on a new connection") {
  World world(two_names());
  CHECK(is_served(once(world, "GET", "ok.test")));
  CHECK(is_served(once(world, "POST", "ok.test", "Content-Length: 2\r\n\r\nhi")));
  CHECK(world.upstream_connections() == 2);
  CHECK(is_served(once(world, "DELETE", "ok.test")));
  CHECK(world.upstream_connections() == 3);
}

TEST_CASE("an upstream that said more than it was asked for does not answer the next one") {
  World world(two_names([](const std::string& received) {
    return Reply{mirror_head(received).bytes + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"};
  }));
  for (std::size_t i = 1; i <= 3; ++i) {
    CHECK_FALSE(has(once(world, "GET", "ok.test"), "evil"));
    CHECK(world.upstream_connections() == i);
  }
}

TEST_CASE("an upstream that closes after its answer is dialled anew for the next one") {
  World world(two_names([](const std::string& received) {
    return Reply{mirror_head(received).bytes, true};
  }));
  for (std::size_t i = 1; i <= 3; ++i) {
    CHECK(is_served(once(world, "GET", "ok.test")));
    CHECK(world.upstream_connections() == i);
  }
}

TEST_CASE("a connection that only waits makes room where the limit is reached") {
  WorldOptions options = two_names();
  options.limits = {.max_upstreams = 1, .sweep = Limits::Ms{20}};
  World world(std::move(options));
  CHECK(is_served(once(world, "GET", "ok.test")));
  Client tunnel(world);
  tunnel.send("CONNECT other.test:" + world.up() + " HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(is_served(tunnel.read_answer(false)));
  CHECK(once(world, "GET", "ok.test").starts_with("HTTP/1.1 429 "));
}

TEST_CASE("a narrowed policy keeps no connection that waits") {
  World world(two_names());
  CHECK(is_served(once(world, "GET", "other.test")));
  CHECK(world.narrow({"ok.test:@"}) == "ok");
  CHECK(has(world.stats(), R"("parked_upstreams":0)"));
  CHECK(once(world, "GET", "other.test").starts_with("HTTP/1.1 403 "));
}

TEST_CASE("a kept connection to an address that is not open any more serves nobody") {
  World world({.domains = {"inside.test:@"},
               .networks = {"127.0.0.1/32:@"},
               .dns = {.addresses = {{"inside.test", {"127.0.0.1"}}}}});
  Client client(world);
  const std::string request =
      "GET http://inside.test:" + world.up() + "/ HTTP/1.1\r\nHost: x\r\n\r\n";
  client.send(request);
  CHECK(is_served(client.read_answer()));
  CHECK(world.narrow({"inside.test:@"}) == "ok");
  client.send(request);
  CHECK(client.read_answer().starts_with("HTTP/1.1 403 "));
}

TEST_CASE("connections wait in a bounded number and for a bounded time") {
  io::EventLoop loop;
  UpstreamPool pool;
  const auto begin = UpstreamPool::Steady::now();
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i <= UpstreamPool::kMaxParked; ++i) {
    const Pair& pair = pairs.emplace_back(loop);
    pool.park({"host:80", std::to_string(i), pair.ours}, begin + std::chrono::milliseconds(i));
  }
  CHECK(pool.size() == UpstreamPool::kMaxParked);
  CHECK_FALSE(pairs.front().ours->is_open());
  // The one that was used last is the least likely to be stale.
  CHECK(pool.take("host:80").address == std::to_string(UpstreamPool::kMaxParked));
  CHECK(pool.take("host:81").socket == nullptr);
  pool.sweep(begin + UpstreamPool::kLongestWait);
  CHECK(pool.size() == UpstreamPool::kMaxParked - 1);
  pool.sweep(begin + UpstreamPool::kLongestWait + std::chrono::seconds(1));
  CHECK(pool.size() == 0);
}

TEST_CASE("who speaks or ends while it waits is not taken and not kept") {
  io::EventLoop loop;
  UpstreamPool pool;
  const auto now = UpstreamPool::Steady::now();
  Pair speaks(loop);
  Pair ends(loop);
  pool.park({"a:80", "", speaks.ours}, now);
  pool.park({"b:80", "", ends.ours}, now);
  REQUIRE(::send(speaks.peer.get(), "x", 1, 0) == 1);
  ends.peer.reset();
  SUBCASE("found when it is asked for") {
    CHECK(pool.take("a:80").socket == nullptr);
    CHECK(pool.take("b:80").socket == nullptr);
  }
  SUBCASE("found by the loop") {
    while (pool.size() > 0) {
      loop.run_once(std::chrono::milliseconds(1000));
    }
  }
  CHECK(pool.size() == 0);
  CHECK_FALSE(speaks.ours->is_open());
  CHECK_FALSE(ends.ours->is_open());
}
