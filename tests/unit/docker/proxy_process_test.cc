#include "docker/proxy_process.h"

#include "io/child_process.h"
#include "io/socket.h"

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::docker;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::chrono::seconds kSoon{20};

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "sandboxkit-proxy-XXXXXX").string();
  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string program(const std::string& script) const {
    const std::string file = path + "/program";
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    REQUIRE(chmod(file.c_str(), 0755) == 0);
    return file;
  }
};

std::string all_of(int fd, pid_t child) {
  // Its end first: the pipe does not block.
  waitpid(child, nullptr, 0);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

io::Fd bound(const char* address, bool listens) {
  io::Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  inet_pton(AF_INET, address, &where.sin_addr);
  REQUIRE(bind(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0);
  REQUIRE((!listens || listen(fd.get(), 1) == 0));
  return fd;
}

}  // namespace

TEST_CASE("a guest's socket is taken only when it listens on the one address for TCP") {
  const auto good = io::listen_tcp("127.0.0.1", 0);
  REQUIRE(good);
  const std::uint16_t port = *io::local_port(good->get());
  CHECK(check_proxy_listener(good->get(), "127.0.0.1", port));
  CHECK_FALSE(check_proxy_listener(good->get(), "127.0.0.1", static_cast<std::uint16_t>(port + 1)));
  CHECK_FALSE(check_proxy_listener(good->get(), "127.0.0.2", port));

  const auto refused = [](const io::Fd& fd) {
    const auto own = io::local_port(fd.get());
    return !check_proxy_listener(fd.get(), "127.0.0.1", own.value_or(3128));
  };
  CHECK(refused(bound("0.0.0.0", true)));
  CHECK(refused(bound("127.0.0.1", false)));
  CHECK(refused(io::Fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0))));
  CHECK(refused(io::Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0))));
  CHECK(refused(io::Fd(open("/dev/null", O_RDWR | O_CLOEXEC))));
  const io::Fd v6(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (v6 && listen(v6.get(), 1) == 0) {
    CHECK(refused(v6));
  }
  io::Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CHECK(refused(client));
}

TEST_CASE("a child has the descriptors that it was given and none of ours, and no environment") {
  const Folder folder;
  const io::Fd leaked(open("/dev/null", O_RDWR));  // Not close-on-exec, as a careless library's.
  std::array<int, 2> ends{-1, -1};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  const io::Fd one(ends[0]);
  const io::Fd two(ends[1]);
  auto child =
      io::spawn({folder.program("ls /proc/self/fd | tr '\\n' ' ' >&2; env >&2; echo $# $1 >&2"),
                 {"word"},
                 {two.get(), one.get()}});
  REQUIRE(child);
  const std::string said = all_of(child->errors.get(), child->pid);
  // 5 is the folder that `ls` itself reads.
  CHECK(said.starts_with("0 1 2 3 4 5 "));
  CHECK(said.find("6 ") == std::string::npos);
  CHECK(said.find("HOME=") == std::string::npos);
  CHECK(said.ends_with("1 word\n"));
}

TEST_CASE("a program that cannot be started is an error, not a child") {
  CHECK_FALSE(io::spawn({"/nowhere/program", {}, {}}).has_value());
}

TEST_CASE("a proxy starts when it is given its socket, and a dead one says why and starts again") {
  const Folder folder;
  LinkHub hub;
  const std::string count = folder.path + "/count";
  auto proxy = ProxyProcess::make(
      hub, folder.program("echo x >> " + count + "; echo these are my last words >&2; exit 3"),
      folder.path);
  const auto lines = [&] {
    std::ifstream file(count);
    return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  };
  CHECK(lines() == 0);
  CHECK_FALSE(proxy->connect().has_value());

  // The wrong one starts nothing.
  auto wrong = io::listen_tcp("127.0.0.1", 0);
  REQUIRE(wrong);
  bool taken = true;
  hub.run([&] { taken = proxy->take_listener(std::move(*wrong)); });
  CHECK_FALSE(taken);
  CHECK(proxy->given_up());
  CHECK(lines() == 0);

  auto right = io::listen_tcp("127.0.0.1", 3128);
  if (!right) {
    MESSAGE("port 3128 is taken: the rest is not run");
    return;
  }
  hub.run([&] { taken = proxy->take_listener(std::move(*right)); });
  CHECK(taken);
  const auto deadline = std::chrono::steady_clock::now() + kSoon;
  while (lines() < 2 && std::chrono::steady_clock::now() < deadline) {
    poll(nullptr, 0, 10);
  }
  CHECK(lines() >= 2);
  CHECK(proxy->problem() == "exit 3: these are my last words");
  CHECK_FALSE(proxy->ready());
  proxy->close();
  CHECK(proxy->pid() == 0);
}
