#include "io/guest_link.h"

#include "io/descriptor_message.h"
#include "io/http_client.h"
#include "io/http_server.h"
#include "io/socket.h"
#include "tests/unit/io/support.h"

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace sandboxkit::io {
namespace {

using namespace std::chrono_literals;
using testing::open_descriptors;
using testing::run_until;
using testing::settle;

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "sandboxkit-link-XXXXXX").string();
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string socket() const { return path + "/guest.sock"; }
};

std::shared_ptr<GuestLink> listening(
    EventLoop& loop, const std::string& path,
    std::function<pid_t()> expected = [] { return ::getpid(); }) {
  auto link = GuestLink::listen(loop, path, std::move(expected));
  REQUIRE(link);
  return *link;
}

/// A helper that answers every request with one word.
std::shared_ptr<GuestDialer> helper(EventLoop& loop, const std::string& path,
                                    const std::string& word) {
  return GuestDialer::start(loop, path, [&loop, word](Fd connection) {
    serve_http(loop, std::move(connection), {},
               [word](const std::shared_ptr<HttpExchange>& e) { e->respond(200, {}, word); });
  });
}

/// One request through the link; empty when it fails.
std::string ask(EventLoop& loop, GuestLink& link) {
  auto connection = link.connect();
  if (!connection) {
    return {};
  }
  wire::RequestHead head;
  head.method = "GET";
  head.target = "/";
  head.headers.add("Host", "sandbox");
  std::string body;
  bool over = false;
  HttpClientCall::Handlers h;
  h.on_data = [&](std::string_view bytes) { body += bytes; };
  h.on_end = [&](const Fd&) { over = true; };
  h.on_error = [&](const Error&) { over = true; };
  HttpClientCall::start(loop, std::move(*connection), head, std::move(h));
  return run_until(loop, [&] { return over; }) ? body : std::string();
}

TEST_CASE("a helper that dials is reached over socket pairs, and nothing leaks") {
  EventLoop loop;
  const Folder folder;
  const auto before = open_descriptors();
  {
    auto link = listening(loop, folder.socket());
    std::vector<bool> changes;
    link->on_change([&](bool up) { changes.push_back(up); });
    CHECK_FALSE(link->ready());
    const auto too_early = link->connect();
    REQUIRE_FALSE(too_early);
    CHECK(too_early.error().reason == "guest_unavailable");
    auto dialer = helper(loop, folder.socket(), "hello");
    REQUIRE(run_until(loop, [&] { return link->ready(); }));
    for (int i = 0; i < 20; ++i) {
      CHECK(ask(loop, *link) == "hello");
    }
    dialer->stop();
    REQUIRE(run_until(loop, [&] { return !link->ready(); }));
    CHECK(changes == std::vector<bool>{true, false});
    link->close();
    settle(loop);
  }
  settle(loop);
  CHECK(open_descriptors() == before);
  CHECK_FALSE(std::filesystem::exists(folder.socket()));
}

TEST_CASE("the descriptor of a connection is blocking and close-on-exec") {
  EventLoop loop;
  const Folder folder;
  auto link = listening(loop, folder.socket());
  auto dialer = GuestDialer::start(loop, folder.socket(), [](const Fd&) {});
  REQUIRE(run_until(loop, [&] { return link->ready(); }));
  const auto connection = link->connect();
  REQUIRE(connection);
  CHECK((::fcntl(connection->get(), F_GETFL) & O_NONBLOCK) == 0);
  CHECK((::fcntl(connection->get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a dialler with the wrong pid is refused, and the right one is taken after it") {
  EventLoop loop;
  const Folder folder;
  pid_t expected = 0;
  auto link = listening(loop, folder.socket(), [&] { return expected; });
  auto dialer = helper(loop, folder.socket(), "late");
  REQUIRE(run_until(loop, [&] { return link->refused_dials() >= 1; }));
  expected = ::getpid() + 1;
  const auto refused = link->refused_dials();
  REQUIRE(run_until(loop, [&] { return link->refused_dials() > refused; }));
  CHECK_FALSE(link->ready());
  expected = ::getpid();
  REQUIRE(run_until(loop, [&] { return link->ready(); }));
  CHECK(ask(loop, *link) == "late");
}

TEST_CASE("while a link stands, other dials wait unaccepted; when it falls they are judged") {
  EventLoop loop;
  const Folder folder;
  auto link = listening(loop, folder.socket());
  auto first = helper(loop, folder.socket(), "first");
  REQUIRE(run_until(loop, [&] { return link->ready(); }));
  auto second = helper(loop, folder.socket(), "second");
  settle(loop);
  CHECK(ask(loop, *link) == "first");
  first->stop();
  REQUIRE(run_until(loop, [&] { return !link->ready(); }));
  REQUIRE(run_until(loop, [&] { return link->ready(); }));
  CHECK(ask(loop, *link) == "second");
  CHECK(link->refused_dials() == 0);
}

TEST_CASE("the link stands again after the host's side was made anew") {
  EventLoop loop;
  const Folder folder;
  auto link = listening(loop, folder.socket());
  auto dialer = helper(loop, folder.socket(), "same helper");
  REQUIRE(run_until(loop, [&] { return link->ready(); }));
  link->close();
  link = listening(loop, folder.socket());
  REQUIRE(run_until(loop, [&] { return link->ready(); }));
  CHECK(ask(loop, *link) == "same helper");
}

TEST_CASE("a socket that was put in the place of ours changes nothing for the host") {
  EventLoop loop;
  const Folder folder;
  auto link = listening(loop, folder.socket());
  auto good = helper(loop, folder.socket(), "good");
  REQUIRE(run_until(loop, [&] { return link->ready(); }));
  auto fake = listen_unix(folder.socket(), 0666, 4);  // Unlinks ours, as a sandbox would.
  REQUIRE(fake);
  auto fooled = helper(loop, folder.socket(), "fooled");
  settle(loop);
  CHECK(fooled->connected());
  CHECK(link->ready());
  CHECK(ask(loop, *link) == "good");
}

TEST_CASE("anything but one R ends the link, and it can be made again") {
  EventLoop loop;
  const Folder folder;
  auto link = listening(loop, folder.socket());
  for (const std::string said : {"X", "RR", "RX"}) {
    CAPTURE(said);
    auto rogue = connect_unix(folder.socket());
    REQUIRE(rogue);
    REQUIRE(::send(rogue->get(), said.data(), said.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(said.size()));
    const auto cut = [&] {
      char byte = 0;
      return ::recv(rogue->get(), &byte, 1, MSG_DONTWAIT) == 0;
    };
    CHECK(run_until(loop, cut));
    CHECK_FALSE(link->ready());
  }
  auto dialer = helper(loop, folder.socket(), "fine");
  REQUIRE(run_until(loop, [&] { return link->ready(); }));
}

TEST_CASE("a helper that takes nothing makes connect fail instead of waiting, and nothing leaks") {
  EventLoop loop;
  const Folder folder;
  auto link = listening(loop, folder.socket());
  auto stuck = connect_unix(folder.socket());
  REQUIRE(stuck);
  REQUIRE(::send(stuck->get(), "R", 1, MSG_NOSIGNAL) == 1);
  REQUIRE(run_until(loop, [&] { return link->ready(); }));
  const auto before = open_descriptors();
  bool refused = false;
  for (int i = 0; i < 20'000 && !refused; ++i) {
    const auto connection = link->connect();
    refused = !connection && connection.error().reason == "guest_unavailable";
  }
  CHECK(refused);
  CHECK(open_descriptors() == before);
  stuck->reset();
  CHECK(run_until(loop, [&] { return !link->ready(); }));
}

TEST_CASE("a dialer drops a host that sends no descriptor, and dials again") {
  EventLoop loop;
  const Folder folder;
  auto host = listen_unix(folder.socket(), 0600, 4);
  REQUIRE(host);
  int connections = 0;
  auto dialer = GuestDialer::start(loop, folder.socket(), [&](const Fd&) { ++connections; });
  Fd first(::accept4(host->get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(first);
  REQUIRE(::send(first.get(), "C", 1, MSG_NOSIGNAL) == 1);
  Fd second;
  CHECK(run_until(loop, [&] {
    second = Fd(::accept4(host->get(), nullptr, nullptr, SOCK_CLOEXEC));
    return static_cast<bool>(second);
  }));
  CHECK(connections == 0);
}

/// Says these bytes to the host, a descriptor with each 'L'; whether the host cut it off.
bool is_cut_off(EventLoop& loop, const std::string& path, const std::string& said,
                int descriptors = 1) {
  auto rogue = connect_unix(path);
  REQUIRE(rogue);
  const auto listener = listen_tcp("127.0.0.1", 0);
  REQUIRE(listener);
  for (const char byte : said) {
    REQUIRE(send_message(rogue->get(), byte,
                         byte == 'L' && descriptors > 0 ? listener->get() : -1) == 0);
  }
  return run_until(loop, [&] {
    char byte = 0;
    return ::recv(rogue->get(), &byte, 1, MSG_DONTWAIT) == 0;
  });
}

TEST_CASE("a helper passes its listening socket before it is ready, on every dial") {
  EventLoop loop;
  const Folder folder;
  std::vector<std::uint16_t> passed;
  const auto start = [&] {
    auto link = GuestLink::listen(
        loop, folder.socket(), [] { return ::getpid(); },
        [&](const Fd& fd) {
          passed.push_back(local_port(fd.get()).value_or(0));
          CHECK((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
          return true;
        });
    REQUIRE(link);
    return *link;
  };
  auto link = start();
  const auto listener = listen_tcp("127.0.0.1", 0);
  REQUIRE(listener);
  const std::uint16_t port = *local_port(listener->get());
  auto dialer = GuestDialer::start(
      loop, folder.socket(), [](const Fd&) {}, listener->get());
  REQUIRE(run_until(loop, [&] { return link->ready(); }));
  CHECK(passed == std::vector<std::uint16_t>{port});
  link->close();
  link = start();
  REQUIRE(run_until(loop, [&] { return link->ready(); }));
  CHECK(passed == std::vector<std::uint16_t>{port, port});
}

TEST_CASE("a socket that nobody expects, a second one, a late one and none at all end the link") {
  EventLoop loop;
  const Folder folder;
  {
    auto plain = listening(loop, folder.socket());
    CHECK(is_cut_off(loop, folder.socket(), "L"));
    CHECK(is_cut_off(loop, folder.socket(), "LR"));
    plain->close();
  }
  int taken = 0;
  auto link = GuestLink::listen(
      loop, folder.socket(), [] { return ::getpid(); },
      [&](const Fd&) {
        ++taken;
        return true;
      });
  REQUIRE(link);
  const auto before = open_descriptors();
  for (const char* said : {"R", "LL", "LRL", "LLR", "LRR", "X"}) {
    CAPTURE(said);
    CHECK(is_cut_off(loop, folder.socket(), said));
    CHECK_FALSE((*link)->ready());
  }
  CHECK(is_cut_off(loop, folder.socket(), "L", 0));
  CHECK(taken == 4);
  settle(loop);
  CHECK(open_descriptors() == before);
}

TEST_CASE("a socket that its taker refuses ends the link") {
  EventLoop loop;
  const Folder folder;
  auto link = GuestLink::listen(
      loop, folder.socket(), [] { return ::getpid(); }, [](const Fd&) { return false; });
  REQUIRE(link);
  CHECK(is_cut_off(loop, folder.socket(), "LR"));
  CHECK_FALSE((*link)->ready());
}

TEST_CASE("a process that was born with its end serves over it, and hears of the host's end") {
  EventLoop loop;
  std::array<int, 2> ends{-1, -1};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  bool lost = false;
  auto link = GuestLink::adopt(loop, Fd(ends[0]));
  auto dialer = GuestDialer::adopt(
      loop, Fd(ends[1]),
      [&](Fd connection) {
        serve_http(loop, std::move(connection), {},
                   [](const std::shared_ptr<HttpExchange>& e) { e->respond(200, {}, "born"); });
      },
      [&] { lost = true; });
  REQUIRE(run_until(loop, [&] { return link->ready(); }));
  CHECK(ask(loop, *link) == "born");
  CHECK_FALSE(lost);
  link->close();
  CHECK(run_until(loop, [&] { return lost; }));
  CHECK_FALSE(link->ready());
}

}  // namespace
}  // namespace sandboxkit::io
