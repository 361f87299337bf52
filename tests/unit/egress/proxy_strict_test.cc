// Strict TLS: a tunnel carries TLS that names the host of its CONNECT, and nothing else.

#include "tests/unit/egress/proxy_world.h"
#include "tests/unit/egress/tls_bytes.h"

#include <mutex>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

using namespace sandboxkit::egress::test;  // NOLINT(google-build-using-namespace)
using namespace std::literals;
using sandboxkit::egress::Limits;

namespace {

constexpr std::string_view kAlert("\x15\x03\x03\x00\x02\x02\x31", 7);

/// What an upstream got, from all of its connections.
struct Seen {
  std::mutex mutex{};
  std::string bytes{};
  std::string text() {
    const std::lock_guard lock(mutex);
    return bytes;
  }
};

/// Answers a handshake record with `answer`, and everything else with itself.
Upstream tls_upstream(Seen& seen, std::string answer) {
  return [&seen, answer = std::move(answer)](const std::string& received) {
    const std::lock_guard lock(seen.mutex);
    seen.bytes += received;
    return Reply{received.starts_with('\x16') ? answer : received};
  };
}

WorldOptions strict_world(Upstream upstream) {
  return {.domains = {"ok.test:@", "*.w.test:@"},
          .networks = {"127.0.0.1/32:@"},
          .hosts = {{"ok.test", "127.0.0.1"}, {"a.w.test", "127.0.0.1"}},
          .upstream = std::move(upstream),
          .strict_tls = true};
}

std::string connect_to(const World& world, std::string_view host) {
  return "CONNECT " + std::string(host) + ":" + world.up() + " HTTP/1.1\r\nHost: x\r\n\r\n";
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

TEST_CASE("strict TLS opens a tunnel whose hello names the CONNECT host") {  // 42
  Seen seen;
  World world(strict_world(tls_upstream(seen, server_hello(false))));
  for (const char* name : {"ok.test", "OK.Test", "ok.test."}) {
    CAPTURE(name);
    Client client(world);
    client.send(connect_to(world, "Ok.test."));
    CHECK(client.read_answer().starts_with("HTTP/1.1 200 "));
    client.send(hello(name));
    client.read_until("RRRR");
    client.send("more");
    CHECK(has(client.read_until("more"), "more"));
  }
  CHECK(world.denied() == R"({"denied":[]})");
}

TEST_CASE("a hello that comes early, and in pieces, is passed on whole and in order") {  // 33
  Seen seen;
  World world(strict_world(tls_upstream(seen, server_hello(false))));
  const std::string bytes = records(hello_message({.name = "ok.test", .padding = 2'000}), 700);
  Client client(world);
  client.send(connect_to(world, "ok.test") + bytes.substr(0, 900));
  client.read_answer();
  client.send(bytes.substr(900) + "early data");
  client.read_until("early data");
  CHECK(seen.text() == bytes + "early data");
}

TEST_CASE("what is no TLS that names the host is closed before a byte of it is passed on") {
  struct Row {
    const char* what;
    std::string host;
    std::string bytes;
    const char* reason;
    bool alert;
  };
  const std::string two = extension(0, name_list({"ok.test", "evil.test"}));
  const Row rows[] = {
      {"fronting (42)", "ok.test", hello("evil.test"), "sni_mismatch", true},
      {"a sibling", "a.w.test", hello("b.w.test"), "sni_mismatch", true},
      {"the name with two dots", "ok.test", hello("ok.test.."), "sni_mismatch", true},
      {"a name with a NUL", "ok.test", hello("ok.test\0.evil"s), "sni_mismatch", true},
      {"an address as name", "127.0.0.1", hello("127.0.0.1"), "sni_mismatch", true},
      {"no name", "ok.test", record(hello_message({})), "sni_absent", true},
      {"no name, by address", "127.0.0.1", record(hello_message({})), "sni_absent", true},
      {"SMTP (41)", "ok.test", "EHLO evil\r\n", "not_tls", false},
      {"SSH (41)", "ok.test", "SSH-2.0-x\r\n", "not_tls", false},
      {"HTTP (44)", "ok.test", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "not_tls", false},
      {"HTTP/2 in the clear (57)", "ok.test", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "not_tls", false},
      {"two names", "ok.test", record(hello_message({.more_extensions = {two}})), "not_tls", false},
      {"one byte", "ok.test", "\0"s, "not_tls", false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    Seen seen;
    World world(strict_world(tls_upstream(seen, "never")));
    Client client(world);
    client.send(connect_to(world, row.host));
    CHECK(client.read_answer().starts_with("HTTP/1.1 200 "));
    client.send(row.bytes);
    CHECK(client.read_all() == (row.alert ? kAlert : ""));
    CHECK_FALSE(client.timed_out());
    CHECK(has(world.denied(), R"("reason":")"s + row.reason + R"(","count":1)"));
    CHECK(has(world.stats(), R"("denied":1)"));
    CHECK(has(world.log_until(row.reason), R"("decision":"deny")"));
    CHECK(seen.text().empty());
  }
}

TEST_CASE("a second hello, after a HelloRetryRequest, is judged like the first") {
  const std::string change = record("\x01"s, 20);
  {
    Seen seen;
    World world(strict_world(tls_upstream(seen, server_hello(true))));
    Client client(world);
    client.send(connect_to(world, "ok.test") + hello("ok.test"));
    client.read_until("\xa8\x33\x9c\x00\x13\x01"s);
    client.send(change + hello("ok.test") + "more");
    CHECK(has(client.read_until("more"), "more"));
    CHECK(seen.text() == hello("ok.test") + change + hello("ok.test") + "more");
  }
  // Sent after the request, and at once: before anybody could know that it will be asked for.
  for (const bool at_once : {false, true}) {
    CAPTURE(at_once);
    Seen seen;
    World world(strict_world(tls_upstream(seen, server_hello(true))));
    Client client(world);
    const std::string second = change + hello("evil.test");
    client.send(connect_to(world, "ok.test") + hello("ok.test") + (at_once ? second : ""));
    client.read_until("\xa8\x33\x9c\x00\x13\x01"s);
    client.send(at_once ? "" : second);
    CHECK(has(client.read_all(), kAlert));
    CHECK(has(world.denied(), "sni_mismatch"));
    CHECK(seen.text() == hello("ok.test"));
  }
}

TEST_CASE("a server that closes instead of a hello has its alert passed on") {
  const std::string alert = record("\x02\x28"s, 21);
  WorldOptions options = strict_world([&](const std::string&) { return Reply{alert, true}; });
  World world(std::move(options));
  Client client(world);
  client.send(connect_to(world, "ok.test") + hello("ok.test"));
  CHECK(has(client.read_all(), alert));
  CHECK(world.denied() == R"({"denied":[]})");
}

TEST_CASE("half a hello is given up in time and counts as no TLS, silence does not count") {
  Seen seen;
  WorldOptions options = strict_world(tls_upstream(seen, "never"));
  options.limits = {.hello = Limits::Ms{50}, .sweep = Limits::Ms{10}};
  World world(std::move(options));
  Client silent(world);
  silent.send(connect_to(world, "ok.test"));
  CHECK(silent.read_all().starts_with("HTTP/1.1 200 "));
  CHECK(world.denied() == R"({"denied":[]})");
  Client slow(world);
  slow.send(connect_to(world, "ok.test") + hello("ok.test").substr(0, 50));
  slow.read_all();
  CHECK_FALSE(slow.timed_out());
  CHECK(has(world.denied(), "not_tls"));
  CHECK(seen.text().empty());
}

TEST_CASE("without strict TLS another name passes, and stands in the log beside the host") {  // 42
  Seen seen;
  WorldOptions options = strict_world(tls_upstream(seen, server_hello(false)));
  options.strict_tls = false;
  World world(std::move(options));
  Client same(world);
  same.send(connect_to(world, "ok.test") + hello("ok.test"));
  same.read_until("RRRR");
  Client other(world);
  other.send(connect_to(world, "ok.test"));
  other.read_answer();
  other.send(hello("evil.test\n"));
  const std::string log = world.log_until("evil.test");
  CHECK(has(log, R"("event":"sni_other","host":"ok.test")"));
  CHECK(has(log, R"("sni":"evil.test?")"));
  CHECK(has(world.stats(), R"("sni_other":1)"));
  CHECK(world.denied() == R"({"denied":[]})");
}
