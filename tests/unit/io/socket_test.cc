#include "io/socket.h"

#include "tests/unit/io/support.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::io {
namespace {

using namespace std::chrono_literals;
using testing::open_descriptors;
using testing::pattern;
using testing::run_until;
using testing::settle;
using testing::socket_pair;

constexpr std::size_t kManyBytes = 64 * 1024 * 1024;

std::pair<std::shared_ptr<Socket>, std::shared_ptr<Socket>> adopted_pair(EventLoop& loop) {
  auto [a, b] = socket_pair();
  return {Socket::adopt(loop, std::move(a)), Socket::adopt(loop, std::move(b))};
}

/// Writes `total` bytes as fast as the back-pressure allows, then EOF.
struct Feeder {
  Socket& socket;
  std::size_t total;
  std::size_t sent = 0;
  std::size_t most_queued = 0;

  void feed() {
    while (sent < total && socket.queued_bytes() < Socket::kHighWater) {
      const std::size_t piece = std::min<std::size_t>(100'000, total - sent);
      socket.write(pattern(piece, sent));
      sent += piece;
      most_queued = std::max(most_queued, socket.queued_bytes());
    }
    if (sent == total) {
      socket.shutdown_write();
    }
  }
};

/// Compares what comes with the pattern.
struct Checker {
  std::size_t got = 0;
  bool right = true;
  bool ended = false;
  void take(std::string_view bytes) {
    right = right && bytes == pattern(bytes.size(), got);
    got += bytes.size();
  }
};

TEST_CASE("64 MiB go both ways at once with flat buffers, and both ends close in order") {
  EventLoop loop;
  auto [a, b] = adopted_pair(loop);
  Feeder from_a{*a, kManyBytes};
  Feeder from_b{*b, kManyBytes};
  Checker at_a;
  Checker at_b;
  int closed = 0;
  const auto handlers = [&](Feeder& feeder, Checker& checker) {
    Socket::Handlers h;
    h.on_data = [&](std::string_view bytes) { checker.take(bytes); };
    h.on_end = [&] { checker.ended = true; };
    h.on_drain = [&] { feeder.feed(); };
    h.on_close = [&](const Error& error) {
      closed += error.reason == "connection_closed" ? 1 : 100;
    };
    return h;
  };
  a->start(handlers(from_a, at_a));
  b->start(handlers(from_b, at_b));
  from_a.feed();
  from_b.feed();
  CHECK(run_until(loop, [&] { return closed == 2; }));
  CHECK(at_a.got == kManyBytes);
  CHECK(at_b.got == kManyBytes);
  CHECK(at_a.right);
  CHECK(at_b.right);
  CHECK(from_a.most_queued < 2 * Socket::kHighWater);
}

TEST_CASE("a paused reader stops the writer, and on_drain comes after it reads again") {
  EventLoop loop;
  auto [a, b] = adopted_pair(loop);
  int drains = 0;
  std::size_t got = 0;
  Socket::Handlers writer;
  writer.on_drain = [&] { ++drains; };
  a->start(std::move(writer));
  Socket::Handlers reader;
  reader.on_data = [&](std::string_view bytes) { got += bytes.size(); };
  b->start(std::move(reader));
  b->pause_reading();
  const std::size_t size = 4 * 1024 * 1024;
  a->write(pattern(size));
  settle(loop);
  CHECK(a->queued_bytes() > Socket::kHighWater);
  CHECK(drains == 0);
  CHECK(got == 0);
  b->resume_reading();
  CHECK(run_until(loop, [&] { return got == size; }));
  CHECK(drains == 1);
  CHECK(a->queued_bytes() == 0);
}

TEST_CASE("a half-close still lets the other direction talk") {
  EventLoop loop;
  auto [a, b] = adopted_pair(loop);
  std::string answer;
  bool ended = false;
  Socket::Handlers asker;
  asker.on_data = [&](std::string_view bytes) { answer += bytes; };
  a->start(std::move(asker));
  Socket::Handlers answerer;
  answerer.on_end = [&, end = b] {
    ended = true;
    end->write("late words");
  };
  b->start(std::move(answerer));
  a->shutdown_write();
  CHECK(run_until(loop, [&] { return answer == "late words"; }));
  CHECK(ended);
  CHECK(b->is_open());
  b->close();
}

TEST_CASE("after our own close no callback comes") {
  EventLoop loop;
  auto [a, b] = adopted_pair(loop);
  int calls = 0;
  Socket::Handlers h;
  h.on_data = [&, end = b](std::string_view) {
    ++calls;
    end->close();
  };
  h.on_end = [&] { calls += 100; };
  h.on_close = [&](const Error&) { calls += 100; };
  b->start(std::move(h));
  a->write("one");
  a->close();
  settle(loop);
  CHECK(calls == 1);
  CHECK_FALSE(b->is_open());
}

TEST_CASE("writing to a peer that is gone tells on_close from the loop, and raises no SIGPIPE") {
  EventLoop loop;
  auto [a, b] = adopted_pair(loop);
  int closed = 0;
  Socket::Handlers h;
  h.on_close = [&](const Error&) { ++closed; };
  a->start(std::move(h));
  b->close();
  a->write("into the void");
  CHECK(closed == 0);
  CHECK(run_until(loop, [&] { return closed == 1; }));
}

TEST_CASE("a pipe whose reader is gone ends without SIGPIPE") {
  EventLoop loop;
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  Fd reader(ends[0]);
  auto writer = Socket::adopt(loop, Fd(ends[1]));
  int closed = 0;
  Socket::Handlers h;
  h.on_close = [&](const Error&) { ++closed; };
  writer->start(std::move(h));
  reader.reset();
  writer->write("into the void");
  CHECK(run_until(loop, [&] { return closed == 1; }));
  sigset_t pending;
  sigpending(&pending);
  CHECK(sigismember(&pending, SIGPIPE) == 0);
}

TEST_CASE("shutdown_write on a pipe closes it once all is written") {
  EventLoop loop;
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  auto reader = Socket::adopt(loop, Fd(ends[0]));
  auto writer = Socket::adopt(loop, Fd(ends[1]));
  Checker checker;
  Socket::Handlers h;
  h.on_data = [&](std::string_view bytes) { checker.take(bytes); };
  h.on_end = [&] { checker.ended = true; };
  reader->start(std::move(h));
  writer->write(pattern(1'000'000));
  writer->shutdown_write();
  CHECK(run_until(loop, [&] { return checker.ended; }));
  CHECK(checker.got == 1'000'000);
  CHECK(checker.right);
}

TEST_CASE("what the peer said before it closed is read although our write failed") {
  EventLoop loop;
  auto [a, b] = adopted_pair(loop);
  std::string got;
  int closed = 0;
  Socket::Handlers h;
  h.on_data = [&](std::string_view bytes) { got += bytes; };
  h.on_close = [&](const Error&) { ++closed; };
  b->write("refused");
  b->close();
  a->start(std::move(h));
  a->write("a long body");
  CHECK(run_until(loop, [&] { return closed == 1; }));
  CHECK(got == "refused");
}

TEST_CASE(
    "a paused reader is told of the hang-up once, without spinning, and can read what is left") {
  EventLoop loop;
  auto [a, b] = adopted_pair(loop);
  int hangups = 0;
  std::string got;
  bool ended = false;
  Socket::Handlers h;
  h.on_data = [&](std::string_view bytes) { got += bytes; };
  h.on_end = [&] { ended = true; };
  h.on_hangup = [&] { ++hangups; };
  b->start(std::move(h));
  b->pause_reading();
  a->write("last words");
  a->close();
  CHECK(run_until(loop, [&] { return hangups == 1; }));
  settle(loop);
  const auto before = std::chrono::steady_clock::now();
  loop.run_once(20ms);
  CHECK(std::chrono::steady_clock::now() - before >= 15ms);
  CHECK(hangups == 1);
  b->resume_reading();
  CHECK(run_until(loop, [&] { return ended; }));
  CHECK(got == "last words");
}

TEST_CASE("close_after_flush writes all that is buffered and needs no owner") {
  EventLoop loop;
  const auto before = open_descriptors();
  {
    auto [a, b] = adopted_pair(loop);
    Checker checker;
    Socket::Handlers h;
    h.on_data = [&](std::string_view bytes) { checker.take(bytes); };
    h.on_end = [&, end = b] {
      checker.ended = true;
      end->close();
    };
    b->start(std::move(h));
    a->write(pattern(8'000'000));
    a->close_after_flush();
    a.reset();
    CHECK(run_until(loop, [&] { return checker.ended; }));
    CHECK(checker.got == 8'000'000);
    CHECK(checker.right);
  }
  settle(loop);
  CHECK(open_descriptors() == before);
}

TEST_CASE("pipe_sockets carries 64 MiB each way, early bytes first, and is done once") {
  EventLoop loop;
  const auto before = open_descriptors();
  {
    auto [left, left_inner] = adopted_pair(loop);
    auto [right, right_inner] = adopted_pair(loop);
    Checker at_left;
    Checker at_right;
    int done = 0;
    const std::string early = pattern(1000);
    Feeder from_left{*left, kManyBytes, early.size()};
    Feeder from_right{*right, kManyBytes};
    const auto handlers = [](Feeder& feeder, Checker& checker) {
      Socket::Handlers h;
      h.on_data = [&](std::string_view bytes) { checker.take(bytes); };
      h.on_end = [&] { checker.ended = true; };
      h.on_drain = [&] { feeder.feed(); };
      return h;
    };
    left->start(handlers(from_left, at_left));
    right->start(handlers(from_right, at_right));
    pipe_sockets(left_inner, right_inner, early, [&] { ++done; });
    from_left.feed();
    from_right.feed();
    CHECK(run_until(loop, [&] { return done == 1 && at_left.ended && at_right.ended; }));
    CHECK(at_left.got == kManyBytes);
    CHECK(at_right.got == kManyBytes);
    CHECK(at_left.right);
    CHECK(at_right.right);
    settle(loop);
    CHECK(done == 1);
  }
  settle(loop);
  CHECK(open_descriptors() == before);
}

TEST_CASE("pipe_sockets half-closes: an end that only listens hears the rest") {
  EventLoop loop;
  auto [left, left_inner] = adopted_pair(loop);
  auto [right, right_inner] = adopted_pair(loop);
  std::string got;
  bool done = false;
  Socket::Handlers at_left;
  at_left.on_data = [&](std::string_view bytes) { got += bytes; };
  left->start(std::move(at_left));
  Socket::Handlers at_right;
  at_right.on_end = [&, end = right] {
    end->write("after your end");
    end->shutdown_write();
  };
  right->start(std::move(at_right));
  pipe_sockets(left_inner, right_inner, {}, [&] { done = true; });
  left->shutdown_write();
  CHECK(run_until(loop, [&] { return done && got == "after your end"; }));
}

TEST_CASE("a dial that is refused, or has a bad address, says so from the loop") {
  EventLoop loop;
  auto listener = listen_tcp("127.0.0.1", 0);
  REQUIRE(listener);
  const auto port = local_port(listener->get());
  REQUIRE(port);
  listener->reset();
  int calls = 0;
  connect_tcp(loop, "127.0.0.1", *port, 5000ms, [&](Result<Fd> fd) {
    ++calls;
    REQUIRE_FALSE(fd);
    CHECK(fd.error().code == ErrorCode::kUnavailable);
  });
  connect_tcp(loop, "example.org", 80, 5000ms, [&](Result<Fd> fd) {
    ++calls;
    REQUIRE_FALSE(fd);
    CHECK(fd.error().code == ErrorCode::kInvalidArgument);
  });
  CHECK(calls == 0);
  CHECK(run_until(loop, [&] { return calls == 2; }));
}

TEST_CASE("listen_unix binds in a folder whose path is longer than a socket's address") {
  std::string folder = std::filesystem::temp_directory_path() / "sandboxkit-io-XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const std::string deep = folder + "/" + std::string(120, 'd');
  REQUIRE(std::filesystem::create_directory(deep));
  CHECK(listen_unix(deep + "/s.sock", 0600, 1));
  CHECK(std::filesystem::is_socket(deep + "/s.sock"));
  CHECK_FALSE(listen_unix(deep + "/" + std::string(120, 's'), 0600, 1));
  std::filesystem::remove_all(folder);
}

TEST_CASE("listen_unix replaces an old socket, refuses another file, and sets the mode") {
  const std::string folder = std::filesystem::temp_directory_path() / "sandboxkit-io-XXXXXX";
  std::string name = folder;
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  const std::string path = name + "/s.sock";
  {
    const auto first = listen_unix(path, 0600, 1);
    REQUIRE(first);
    const auto second = listen_unix(path, 0660, 1);
    REQUIRE(second);
    struct stat status {};
    REQUIRE(::lstat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0660);
    CHECK(connect_unix(path));
  }
  const std::string file = name + "/file";
  Fd plain(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const auto refused = listen_unix(file, 0600, 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kConflict);
  CHECK_FALSE(connect_unix(std::string(200, 'x')));
  std::filesystem::remove_all(name);
}

}  // namespace
}  // namespace sandboxkit::io
