#include "io/event_loop.h"

#include "io/acceptor.h"
#include "io/socket.h"
#include "tests/unit/io/support.h"

#include <functional>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

namespace sandboxkit::io {
namespace {

using namespace std::chrono_literals;
using testing::run_until;
using testing::settle;
using testing::socket_pair;

TEST_CASE("timers run in the order of their time, and a cancelled one does not run") {
  EventLoop loop;
  std::vector<int> ran;
  loop.run_after(3ms, [&] { ran.push_back(3); });
  loop.run_after(1ms, [&] { ran.push_back(1); });
  const auto cancelled = loop.run_after(2ms, [&] { ran.push_back(2); });
  loop.cancel(cancelled);
  CHECK(run_until(loop, [&] { return ran.size() == 2; }));
  CHECK(ran == std::vector<int>{1, 3});
  loop.cancel(cancelled);
}

TEST_CASE("a timer may cancel another one that is due in the same turn") {
  EventLoop loop;
  bool second_ran = false;
  EventLoop::TimerId second = 0;
  loop.run_after(0ms, [&] { loop.cancel(second); });
  second = loop.run_after(0ms, [&] { second_ran = true; });
  settle(loop);
  CHECK_FALSE(second_ran);
}

TEST_CASE(
    "work posted by another thread runs on the loop's thread, also when stop comes right after") {
  EventLoop loop;
  std::thread::id ran_on;
  std::jthread poster([&] {
    loop.post([&] { ran_on = std::this_thread::get_id(); });
    loop.stop();
  });
  loop.run();
  CHECK(ran_on == std::this_thread::get_id());
}

TEST_CASE("a stop before run is not lost") {
  EventLoop loop;
  loop.stop();
  loop.run();
  CHECK_FALSE(loop.on_loop_thread());
}

TEST_CASE("a callback may remove its own descriptor and destroy what it captured") {
  EventLoop loop;
  auto [a, b] = socket_pair();
  int calls = 0;
  auto owned = std::make_shared<int>(7);
  loop.add(a.get(), EPOLLIN, [&calls, &loop, owned, fd = a.get()](std::uint32_t) {
    loop.remove(fd);
    calls += *owned == 7 ? 1 : 100;
  });
  owned.reset();
  CHECK(::write(b.get(), "x", 1) == 1);
  settle(loop);
  CHECK(calls == 1);
}

TEST_CASE("an event that was fetched for a closed descriptor is not given to its successor") {
  EventLoop loop;
  // Whole pairs: clang 14 does not capture a structured binding.
  auto a = socket_pair();
  auto b = socket_pair();
  const auto silent = socket_pair();
  int strays = 0;
  // Both are readable in one turn; whichever comes first replaces the other by a silent one.
  const auto replace = [&](Fd& mine, Fd& other) {
    const int number = other.get();
    loop.remove(mine.get());
    loop.remove(number);
    REQUIRE(::dup2(silent.first.get(), number) == number);
    loop.add(number, EPOLLIN, [&](std::uint32_t) { ++strays; });
  };
  loop.add(a.first.get(), EPOLLIN, [&](std::uint32_t) { replace(a.first, b.first); });
  loop.add(b.first.get(), EPOLLIN, [&](std::uint32_t) { replace(b.first, a.first); });
  CHECK(::write(a.second.get(), "x", 1) == 1);
  CHECK(::write(b.second.get(), "x", 1) == 1);
  settle(loop);
  CHECK(strays == 0);
}

TEST_CASE("an acceptor without descriptors rests, and accepts once there are some again") {
  EventLoop loop;
  auto listener = listen_tcp("127.0.0.1", 0);
  REQUIRE(listener);
  const auto port = local_port(listener->get());
  REQUIRE(port);
  int accepted = 0;
  std::vector<Fd> kept;
  const auto acceptor = Acceptor::start(loop, std::move(*listener), [&](Fd fd) {
    ++accepted;
    kept.push_back(std::move(fd));
  });
  Fd client;
  connect_tcp(loop, "127.0.0.1", *port, 1000ms,
              [&](Result<Fd> fd) { client = fd ? std::move(*fd) : Fd(); });
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 0;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  settle(loop);
  int idle_turns = 0;
  // A spinning acceptor would end each wait at once.
  const auto started = std::chrono::steady_clock::now();
  loop.run_once(30ms);
  idle_turns += std::chrono::steady_clock::now() - started >= 25ms ? 1 : 0;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(accepted == 0);
  CHECK(idle_turns == 1);
  CHECK(run_until(loop, [&] { return accepted == 1; }));
}

}  // namespace
}  // namespace sandboxkit::io
