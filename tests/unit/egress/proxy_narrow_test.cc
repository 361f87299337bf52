#include "egress/proxy.h"
#include "tests/unit/egress/proxy_world.h"

#include <string>
#include <string_view>

#include <doctest/doctest.h>

using namespace sandboxkit::egress::test;  // NOLINT(google-build-using-namespace)

namespace {

WorldOptions two_names(Upstream upstream = echo) {
  return {.domains = {"ok.test:@", "other.test:@"},
          .hosts = {{"ok.test", "127.0.0.1"}, {"other.test", "127.0.0.1"}},
          .upstream = std::move(upstream)};
}

std::string connect_to(const World& world, std::string_view host) {
  return "CONNECT " + std::string(host) + ":" + world.up() + " HTTP/1.1\r\nHost: x\r\n\r\n";
}

std::string get(const World& world, std::string_view host) {
  return "GET http://" + std::string(host) + ":" + world.up() + "/ HTTP/1.1\r\nHost: x\r\n\r\n";
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

TEST_CASE("a narrowed policy closes the open tunnels that it no longer allows, and no others") {
  World world(two_names());
  Client kept(world);
  Client cut(world);
  for (auto [client, host] : {std::pair{&kept, "ok.test"}, std::pair{&cut, "other.test"}}) {
    client->send(connect_to(world, host));
    REQUIRE(client->read_answer(false).starts_with("HTTP/1.1 200"));
    client->send("before");
    REQUIRE(has(client->read_until("before"), "before"));
  }
  CHECK(world.narrow({"ok.test:@"}) == "ok");
  CHECK(cut.read_all().empty());
  CHECK_FALSE(cut.timed_out());
  kept.send("after");
  CHECK(has(kept.read_until("after"), "after"));
  CHECK(ask(world, connect_to(world, "other.test")).starts_with("HTTP/1.1 403"));
  CHECK(has(world.denied(), "other.test"));
}

TEST_CASE("a connection that is kept for plain requests is judged by the narrowed policy") {
  World world(two_names(mirror_head));
  Client client(world);
  client.send(get(world, "other.test"));
  CHECK(client.read_answer().starts_with("HTTP/1.1 200"));
  CHECK(world.narrow({"ok.test:@"}) == "ok");
  client.send(get(world, "other.test"));
  CHECK(client.read_answer().starts_with("HTTP/1.1 403"));
  client.send(get(world, "ok.test"));
  CHECK(client.read_answer().starts_with("HTTP/1.1 200"));
}

TEST_CASE("an answer that is under way is cut, not finished") {
  World world(two_names([](const std::string&) {
    return Reply{"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun"};
  }));
  Client client(world);
  client.send(get(world, "other.test"));
  REQUIRE(has(client.read_until("begun"), "begun"));
  CHECK(world.narrow({}) == "ok");
  CHECK(client.read_all().empty());
  CHECK_FALSE(client.timed_out());
}

TEST_CASE("a policy is narrowed again and again, and never widened") {
  World world(two_names());
  CHECK(world.narrow({"ok.test:@", "other.test:@"}) == "ok");
  CHECK(world.narrow({"ok.test:@", "new.test:@"}) == "policy_widens");
  CHECK(world.narrow({"ok.test"}) == "policy_widens");
  CHECK(world.narrow({"ok.test:@"}) == "ok");
  CHECK(world.narrow({"other.test:@"}) == "policy_widens");
  CHECK(world.narrow({"ok.test:@"}, {"10.0.0.0/8"}) == "policy_widens");
  CHECK(ask(world, connect_to(world, "ok.test")).starts_with("HTTP/1.1 200"));
}

TEST_CASE("a tunnel to an address that only a removed network opened is closed") {
  World world({.domains = {"ok.test:@"},
               .networks = {"127.0.0.0/8:@"},
               .dns = {.addresses = {{"ok.test", {"127.0.0.1"}}}},
               .upstream = echo});
  Client client(world);
  client.send(connect_to(world, "ok.test"));
  REQUIRE(client.read_answer(false).starts_with("HTTP/1.1 200"));
  CHECK(world.narrow({"ok.test:@"}) == "ok");
  CHECK(client.read_all().empty());
  CHECK_FALSE(client.timed_out());
}
