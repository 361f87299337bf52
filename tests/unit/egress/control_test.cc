#include "egress/control.h"

#include "egress/proxy.h"
#include "egress/secret_book.h"
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
std::string ask_over(io::GuestLink& link, const std::string& line, const std::string& body = {}) {
  const auto connection = link.connect();
  REQUIRE(connection.has_value());
  const timeval limit{5, 0};
  ::setsockopt(connection->get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const std::string request = line +
                              " HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: " +
                              std::to_string(body.size()) + "\r\n\r\n" + body;
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

TEST_CASE("the host reads health, denials and figures over its own socket, lends and narrows") {
  const std::string folder = "/tmp/sbx-egress-test-" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  io::EventLoop loop;
  const Config config{.listen = {"127.0.0.1", 0},
                      .dns_listen = std::nullopt,
                      .policy = EgressPolicy::deny_all(),
                      .dns_servers = {"127.0.0.1:9"},
                      .hosts = {},
                      .lent = {"api.test:443"},
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
    const WallTime now = system_clock().now();
    SecretOrder order;
    order.secrets = {{.name = "K", .domain = "api.test", .key = "X-Key", .value = "s3cret"}};
    order.authority = make_authority({{"api.test"}, now, now + std::chrono::hours(1)}).value();
    order.roots = order.authority.certificate;
    const std::string lent = ask_over(*link, "PUT /secrets", write_secret_order(order));
    order.secrets.front().domain = "other.test";
    const std::string elsewhere = ask_over(*link, "PUT /secrets", write_secret_order(order));
    const std::string broken = ask_over(*link, "PUT /secrets", R"({"secrets":"s3cret"})");
    const std::string after = ask_over(*link, "GET /stats");
    const std::string wider =
        ask_over(*link, "POST /narrow", R"({"allowed_domains":["a.test"],"policy_hash":"x"})");
    const std::string unnamed = ask_over(*link, "POST /narrow", R"({"allowed_domains":[]})");
    const std::string narrow =
        ask_over(*link, "POST /narrow", R"({"allowed_domains":[],"policy_hash":"hash-8"})");
    const std::string narrowed = ask_over(*link, "GET /health");
    loop.stop();
    thread.join();
    CHECK(lent.starts_with("HTTP/1.1 204 "));
    CHECK(elsewhere.starts_with("HTTP/1.1 409 "));
    CHECK(has(elsewhere, "not_lent"));
    CHECK(broken.starts_with("HTTP/1.1 400 "));
    CHECK(has(after, R"("secrets":[{"name":"K","uses":0,"last":null}])"));
    for (const std::string& text : {elsewhere, broken, after}) {
      CHECK_FALSE(has(text, "s3cret"));
    }
    CHECK(health.starts_with("HTTP/1.1 204 "));
    CHECK(has(health, "X-Sandboxkit-Policy-Hash: hash-7\r\n"));
    CHECK(denied.ends_with("\r\n\r\n{\"denied\":[]}"));
    CHECK(has(stats, "\"open_connections\":0"));
    CHECK(other.starts_with("HTTP/1.1 404 "));
    CHECK(change.starts_with("HTTP/1.1 405 "));
    CHECK(wider.starts_with("HTTP/1.1 409 "));
    CHECK(has(wider, "policy_widens"));
    CHECK(unnamed.starts_with("HTTP/1.1 400 "));
    CHECK(narrow.starts_with("HTTP/1.1 204 "));
    CHECK(has(narrowed, "X-Sandboxkit-Policy-Hash: hash-8\r\n"));
  }
  link->close();
  proxy->reset();
  std::filesystem::remove_all(folder);
}
