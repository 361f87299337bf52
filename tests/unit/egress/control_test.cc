#include "egress/control.h"

#include "egress/proxy.h"
#include "io/guest_link.h"

#include <array>
#include <filesystem>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::egress;  // NOLINT(google-build-using-namespace)

namespace {

/// Sends a request over the link and reads the answer to its end (the host asks with close).
std::string ask_over(io::GuestLink& link, const std::string& line) {
  const auto connection = link.connect();
  REQUIRE(connection.has_value());
  const timeval limit{5, 0};
  ::setsockopt(connection->get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const std::string request = line + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
  REQUIRE(::write(connection->get(), request.data(), request.size()) ==
          static_cast<ssize_t>(request.size()));
  std::string out;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = ::read(connection->get(), buffer.data(), buffer.size())) > 0;) {
    out.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return out;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the host reads health, denials and figures over its own socket, and changes nothing") {
  const std::string folder = "/tmp/sbx-egress-test-" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  io::EventLoop loop;
  const Config config{.listen = {"127.0.0.1", 0},
                      .dns_listen = std::nullopt,
                      .policy = EgressPolicy::deny_all(),
                      .dns_servers = {"127.0.0.1:9"},
                      .hosts = {},
                      .policy_hash = "hash-7"};
  auto proxy = Proxy::start(config, {.loop = loop,
                                     .log_fd = -1,
                                     .clock = system_clock(),
                                     .is_local = [](const IpAddress&) { return true; }});
  REQUIRE(proxy.has_value());
  const auto link =
      io::GuestLink::listen(loop, folder + "/egress.sock", [] { return ::getpid(); }).value();
  {
    const Control control(loop, **proxy, config.policy_hash, folder + "/egress.sock");
    while (!link->ready()) {
      loop.run_once(io::EventLoop::Duration{1000});
    }
    std::thread thread([&] { loop.run(); });
    const std::string health = ask_over(*link, "GET /health");
    const std::string denied = ask_over(*link, "GET /denied");
    const std::string stats = ask_over(*link, "GET /stats");
    const std::string other = ask_over(*link, "GET /policy");
    const std::string change = ask_over(*link, "PUT /denied");
    loop.stop();
    thread.join();
    CHECK(health.starts_with("HTTP/1.1 204 "));
    CHECK(has(health, "X-Sandboxkit-Policy-Hash: hash-7\r\n"));
    CHECK(denied.ends_with("\r\n\r\n{\"denied\":[]}"));
    CHECK(has(stats, "\"open_connections\":0"));
    CHECK(other.starts_with("HTTP/1.1 404 "));
    CHECK(change.starts_with("HTTP/1.1 405 "));
  }
  link->close();
  proxy->reset();
  std::filesystem::remove_all(folder);
}
