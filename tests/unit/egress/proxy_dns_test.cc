#include "tests/unit/egress/proxy_world.h"

#include <chrono>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

using namespace sandboxkit::egress::test;  // NOLINT(google-build-using-namespace)
using sandboxkit::egress::Limits;

namespace {

std::string connect_to(const World& world, std::string_view host) {
  return "CONNECT " + std::string(host) + ":" + world.up() + " HTTP/1.1\r\nHost: x\r\n\r\n";
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

WorldOptions dns_world(DnsRecords records) {
  return {.domains = {"ok.test:@", "*.w.test:@"},
          .networks = {"127.0.0.0/24:@"},
          .dns = std::move(records),
          .upstream = echo};
}

}  // namespace

TEST_CASE("an allowed name is resolved with one query and dialled at its address") {  // 23
  World world(dns_world({.addresses = {{"ok.test", {"127.0.0.1"}}}}));
  CHECK(ask(world, connect_to(world, "ok.test")).starts_with("HTTP/1.1 200 "));
  CHECK(world.dns_queries() == 1);
  CHECK(ask(world, connect_to(world, "ok.test.")).starts_with("HTTP/1.1 200 "));
  CHECK(world.dns_queries() == 2);
}

TEST_CASE("a denied name causes no DNS packet") {  // 21
  World world(dns_world({.addresses = {{"secret.evil.test", {"127.0.0.1"}}}}));
  CHECK(ask(world, connect_to(world, "secret.evil.test")).starts_with("HTTP/1.1 403 "));
  CHECK(world.dns_queries() == 0);
}

TEST_CASE("an allowed name with an internal address is refused after its look-up") {  // 22
  const char* addresses[] = {"10.0.0.5", "169.254.169.254", "192.168.1.1",
                             "0.0.0.0",  "127.0.1.1",       "100.100.100.200"};
  for (const char* address : addresses) {
    CAPTURE(address);
    World world(dns_world({.addresses = {{"ok.test", {address}}}}));
    const std::string answer = ask(world, connect_to(world, "ok.test"));
    CHECK(answer.starts_with("HTTP/1.1 403 "));
    CHECK(has(answer, "reason=resolved_address_denied"));
    CHECK(has(world.denied(), "resolved_address_denied"));
    CHECK(world.upstream_connections() == 0);
  }
}

TEST_CASE("the proxy's own address is refused although a network lifts its class") {  // 22, 39
  World world(dns_world({.addresses = {{"ok.test", {"127.0.0.9"}}}}));
  CHECK(has(ask(world, connect_to(world, "ok.test")), "reason=resolved_address_denied"));
}

TEST_CASE(
    "an operator's address is free of the classes, but not the proxy's own, and the name must be "
    "allowed") {
  WorldOptions options = dns_world({});
  options.networks = {};
  options.hosts = {{"ok.test", "127.0.0.1"}, {"a.w.test", "127.0.0.9"}, {"evil.test", "127.0.0.1"}};
  World world(std::move(options));
  CHECK(ask(world, connect_to(world, "ok.test")).starts_with("HTTP/1.1 200 "));
  CHECK(has(ask(world, connect_to(world, "a.w.test")), "reason=resolved_address_denied"));
  CHECK(has(ask(world, connect_to(world, "evil.test")), "reason=not_in_allow_list"));
  CHECK(world.dns_queries() == 0);
}

TEST_CASE("of a mixed answer only the good address is dialled, and the other is on record") {  // 24
  World world(dns_world({.addresses = {{"ok.test", {"169.254.169.254", "127.0.0.1"}}}}));
  CHECK(ask(world, connect_to(world, "ok.test")).starts_with("HTTP/1.1 200 "));
  CHECK(has(world.denied(), "resolved_address_denied"));
}

TEST_CASE("the next address is tried when one does not answer") {
  // Nobody listens at 127.0.0.2 on this port: the upstream is bound to 127.0.0.1 alone.
  World world(dns_world({.addresses = {{"ok.test", {"127.0.0.2", "127.0.0.1"}}}}));
  CHECK(ask(world, connect_to(world, "ok.test")).starts_with("HTTP/1.1 200 "));
  CHECK(world.dns_queries() == 1);
}

TEST_CASE("a name with addresses of version 6 alone is asked for both versions") {
  World world(dns_world({.addresses = {{"ok.test", {"fd00::1", "fe80::1"}}}}));
  CHECK(has(ask(world, connect_to(world, "ok.test")), "reason=resolved_address_denied"));
  CHECK(world.dns_queries() == 2);
}

TEST_CASE("an address of version 4 inside of one of version 6 is judged as what it means") {  // 17
  World world(dns_world({.addresses = {{"ok.test", {"::ffff:169.254.169.254"}},
                                       {"a.w.test", {"64:ff9b::a9fe:a9fe"}}}}));
  CHECK(has(ask(world, connect_to(world, "ok.test")), "reason=resolved_address_denied"));
  CHECK(has(ask(world, connect_to(world, "a.w.test")), "reason=resolved_address_denied"));
}

TEST_CASE("a name that DNS does not know, and a broken server, give 502 and no denial") {  // 27
  World world(dns_world({.addresses = {{"empty.w.test", {}}}, .broken = {"ok.test"}}));
  CHECK(has(ask(world, connect_to(world, "gone.w.test")), "reason=name_not_found"));
  CHECK(has(ask(world, connect_to(world, "empty.w.test")), "reason=name_not_found"));
  CHECK(has(ask(world, connect_to(world, "ok.test")), "reason=resolve_failed"));
  CHECK(world.denied() == R"({"denied":[]})");
}

TEST_CASE("more answers than we take are cut, not followed") {  // 27
  std::vector<std::string> many;
  for (int i = 0; i < 60; ++i) {
    many.push_back("10.0.0." + std::to_string(i));
  }
  many.emplace_back("127.0.0.1");
  World world(dns_world({.addresses = {{"ok.test", many}}}));
  CHECK(ask(world, connect_to(world, "ok.test")).starts_with("HTTP/1.1 200 "));
}

TEST_CASE("one look-up more than a minute's share gets 429, and no packet leaves") {  // 32
  WorldOptions options = dns_world({.addresses = {{"ok.test", {"127.0.0.1"}}}});
  options.limits = {.max_lookups_per_minute = 2, .sweep = Limits::Ms{20}};
  World world(std::move(options));
  CHECK(ask(world, connect_to(world, "ok.test")).starts_with("HTTP/1.1 200 "));
  CHECK(ask(world, connect_to(world, "data.w.test")).starts_with("HTTP/1.1 502 "));
  CHECK(has(ask(world, connect_to(world, "ok.test")), "reason=too_many_lookups"));
  CHECK(world.dns_queries() == 2);
}

TEST_CASE("a name server that says nothing gives 504 within the time limit") {  // 27
  WorldOptions options = dns_world({.silent = {"ok.test"}});
  options.limits = {.resolve = Limits::Ms{200}, .sweep = Limits::Ms{20}};
  World world(std::move(options));
  const auto start = std::chrono::steady_clock::now();
  Client client(world);
  client.send(connect_to(world, "ok.test"));
  CHECK(has(client.read_answer(), "reason=resolve_timeout"));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(4));
}
