#include "egress/tunnel.h"

#include "io/event_loop.h"
#include "io/socket.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace sandboxkit::egress;  // NOLINT(google-build-using-namespace)
using sandboxkit::io::EventLoop;
using sandboxkit::io::Fd;

namespace {

/// A connection over loopback: the tunnel's end, and the peer's.
struct Pair {
  Fd tunnel;
  Fd peer;
};

Pair tcp_pair() {
  const Fd listener = sandboxkit::io::listen_tcp("127.0.0.1", 0).value();
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  where.sin_port = htons(sandboxkit::io::local_port(listener.get()).value());
  Pair out{Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), Fd()};
  REQUIRE(::connect(out.tunnel.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) ==
          0);
  // The listener does not block, and the connection stands already.
  out.peer.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  REQUIRE(out.peer);
  REQUIRE(sandboxkit::io::set_nonblocking(out.tunnel.get(), true));
  return out;
}

std::string numbers(std::size_t size) {
  std::string out;
  for (int i = 0; out.size() < size; ++i) {
    out += std::to_string(i) + " ";
  }
  out.resize(size);
  return out;
}

/// A tunnel between two peers that the test plays.
struct World {
  explicit World(TunnelStock& the_stock, Tunnel::Ends ends = {}) : stock(the_stock) {
    std::signal(SIGPIPE, SIG_IGN);
    Pair left = tcp_pair();
    Pair right = tcp_pair();
    client = std::move(left.peer);
    upstream = std::move(right.peer);
    ends.client = std::move(left.tunnel);
    ends.upstream = std::move(right.tunnel);
    tunnel = Tunnel::start(loop, stock, std::move(ends), [this] { done = true; });
  }

  /// Turns the loop until `is_so` holds, for at most ten seconds.
  bool turn_until(const std::function<bool()>& is_so) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!is_so() && std::chrono::steady_clock::now() < end) {
      loop.run_once(EventLoop::Duration{5});
    }
    return is_so();
  }

  /// Writes what the kernel takes.
  static void push(const Fd& to, std::string_view& bytes) {
    const ssize_t put = ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    bytes.remove_prefix(put > 0 ? static_cast<std::size_t>(put) : 0);
  }
  /// Reads what is there; true at the end.
  static bool pull(const Fd& from, std::string& out) {
    std::array<char, 65536> buffer{};
    const ssize_t got = ::recv(from.get(), buffer.data(), buffer.size(), 0);
    out.append(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    return got == 0 || (got < 0 && errno != EAGAIN);
  }

  TunnelStock& stock;
  EventLoop loop;
  Fd client;
  Fd upstream;
  bool done = false;
  std::shared_ptr<Tunnel> tunnel;
};

constexpr std::size_t kMuch = 6 << 20;

/// Much both ways at once, then both ends; what came out, and how many pipes were in use.
struct Carried {
  std::string up{};
  std::string down{};
  std::size_t most_pipes = 0;
};

Carried carry(World& world, const std::string& up, const std::string& down) {
  Carried out;
  std::string_view up_left = up;
  std::string_view down_left = down;
  CHECK(world.turn_until([&] {
    World::push(world.client, up_left);
    World::push(world.upstream, down_left);
    World::pull(world.upstream, out.up);
    World::pull(world.client, out.down);
    out.most_pipes = std::max(out.most_pipes, world.stock.pipes.used());
    return out.up.size() == up.size() && out.down.size() == down.size();
  }));
  return out;
}

}  // namespace

TEST_CASE("much passes both ways unchanged and counted, through pipes that come back") {
  TunnelStock stock;
  World world(stock);
  const std::string up = numbers(kMuch);
  const std::string down = numbers(kMuch + 12345);
  const Carried carried = carry(world, up, down);
  CHECK((carried.up == up));
  CHECK((carried.down == down));
  CHECK(carried.most_pipes == 2);
  CHECK(world.tunnel->bytes_up() == up.size());
  CHECK(world.tunnel->bytes_down() == down.size());
  // The end of one direction is passed on, and the other one goes on.
  ::shutdown(world.client.get(), SHUT_WR);
  std::string seen;
  CHECK(world.turn_until([&] { return World::pull(world.upstream, seen); }));
  CHECK_FALSE(world.done);
  std::string_view last = "the reply";
  World::push(world.upstream, last);
  ::shutdown(world.upstream.get(), SHUT_WR);
  std::string reply;
  CHECK(world.turn_until([&] { return World::pull(world.client, reply); }));
  CHECK(reply == "the reply");
  CHECK(world.turn_until([&] { return world.done; }));
  CHECK(stock.pipes.used() == 0);
}

TEST_CASE("without a pipe to be had the bytes are copied") {
  TunnelStock stock;
  std::vector<Pipe> taken;
  while (auto pipe = stock.pipes.take()) {
    taken.push_back(std::move(*pipe));
  }
  CHECK(taken.size() == PipePool::kMaxPipes);
  World world(stock);
  const std::string up = numbers(kMuch);
  const Carried carried = carry(world, up, up);
  CHECK((carried.up == up));
  CHECK((carried.down == up));
}

TEST_CASE("a tunnel that rests gives its pipe back, and takes one again") {
  TunnelStock stock;
  World world(stock);
  const std::string much = numbers(kMuch);
  CHECK(carry(world, much, "").most_pipes == 1);
  CHECK(stock.pipes.used() == 1);
  world.tunnel->rest(std::chrono::steady_clock::now());
  CHECK(stock.pipes.used() == 1);
  world.tunnel->rest(std::chrono::steady_clock::now() + std::chrono::seconds(2));
  CHECK(stock.pipes.used() == 0);
  const Carried again = carry(world, much, "");
  CHECK((again.up == much));
  CHECK(again.most_pipes == 1);
}

TEST_CASE("who does not read pins one pipe or one buffer, and gets everything when it reads") {
  for (const bool with_pipes : {true, false}) {
    CAPTURE(with_pipes);
    TunnelStock stock;
    std::vector<Pipe> taken;
    while (!with_pipes) {
      auto pipe = stock.pipes.take();
      if (!pipe) {
        break;
      }
      taken.push_back(std::move(*pipe));
    }
    World world(stock);
    // The peers' own buffers are small, so that the kernel between them takes little.
    const int small = 64 * 1024;
    ::setsockopt(world.client.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    const std::string much = numbers(24 << 20);
    std::string_view left = much;
    std::size_t before = 1;
    CHECK(world.turn_until([&] {
      const bool stuck = before == left.size();
      before = left.size();
      World::push(world.upstream, left);
      for (int i = 0; i < 20; ++i) {
        world.loop.run_once(EventLoop::Duration{0});
      }
      return stuck && before == left.size();
    }));
    CHECK(left.size() > (4U << 20));  // Back-pressure reached the sender.
    std::string got;
    CHECK(world.turn_until([&] {
      World::push(world.upstream, left);
      for (int i = 0; i < 16; ++i) {
        World::pull(world.client, got);
      }
      return got.size() == much.size();
    }));
    CHECK((got == much));
  }
}

TEST_CASE("an end that breaks closes the other one, which still gets what was read for it") {
  TunnelStock stock;
  World world(stock);
  std::string_view answer = "the last words";
  World::push(world.upstream, answer);
  std::string got;
  CHECK(world.turn_until([&] {
    World::pull(world.client, got);
    return got == "the last words";
  }));
  const linger hard{1, 0};
  ::setsockopt(world.upstream.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  world.upstream.reset();
  CHECK(world.turn_until([&] { return World::pull(world.client, got) && world.done; }));
  CHECK(stock.pipes.used() == 0);
}

TEST_CASE("a broken end behind a reader that sleeps does not spin the loop") {
  TunnelStock stock;
  World world(stock);
  const std::string much = numbers(32 << 20);
  std::string_view left = much;
  for (int i = 0; i < 200; ++i) {
    World::push(world.upstream, left);
    world.loop.run_once(EventLoop::Duration{0});
  }
  const linger hard{1, 0};
  ::setsockopt(world.upstream.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  world.upstream.reset();
  int turns = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (std::chrono::steady_clock::now() < end) {
    world.loop.run_once(EventLoop::Duration{50});
    ++turns;
  }
  CHECK(turns < 100);
}

TEST_CASE("the bytes of a sandbox end at its limit, to the byte") {
  TunnelStock stock;
  stock.bytes_left = 1'000'000;
  World world(stock);
  const std::string much = numbers(kMuch);
  std::string_view left = much;
  std::string got;
  CHECK(world.turn_until([&] {
    World::push(world.upstream, left);
    return World::pull(world.client, got) && world.done;
  }));
  CHECK(got.size() <= 1'000'000);
  CHECK(world.tunnel->bytes_down() == 1'000'000);
  CHECK(stock.bytes_left == 0);
}

TEST_CASE("what was read before the tunnel stood comes first, and is shown once") {
  TunnelStock stock;
  std::string shown;
  World world(stock, {.client = {},
                      .upstream = {},
                      .owed_up = "head ",
                      .owed_down = "200 ",
                      .early_up = "hello ",
                      .early_down = "early ",
                      .bytes_up = 10,
                      .on_first_up = [&](std::string_view bytes) { shown += bytes; }});
  std::string_view more = "more";
  World::push(world.client, more);
  std::string up;
  std::string down;
  CHECK(world.turn_until([&] {
    World::pull(world.upstream, up);
    World::pull(world.client, down);
    return up == "head hello more" && down == "200 early ";
  }));
  CHECK(shown == "hello ");
  CHECK(world.tunnel->bytes_up() == 10 + 6 + 4);
  CHECK(world.tunnel->bytes_down() == 6);
}
