#include "egress/config.h"
#include "egress/denied_log.h"
#include "egress/dns_refuser.h"
#include "egress/line_log.h"
#include "egress/local_addresses.h"
#include "io/fd.h"

#include <array>
#include <csignal>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::egress;  // NOLINT(google-build-using-namespace)
using namespace std::literals;

namespace {

constexpr WallTime kNow{std::chrono::milliseconds{1'764'417'600'000}};

EgressTarget target(const std::string& authority) {
  return EgressTarget::from_authority(authority).value();
}

}  // namespace

TEST_CASE("a whole configuration is read") {
  const auto config = parse_config(R"({"listen": "10.231.0.3:3128", "dns_listen": "10.231.0.3:53",
    "allowed_domains": ["ok.test"], "allowed_networks": ["10.0.0.0/8"], "dns_servers":
    ["192.0.2.53", "192.0.2.54:5353"], "hosts": {"Packages.test": "172.30.0.2"},
    "policy_hash": "abc"})");
  REQUIRE(config.has_value());
  CHECK(config->listen.address == "10.231.0.3");
  CHECK(config->listen.port == 3128);
  CHECK(config->dns_listen->port == 53);
  CHECK(config->policy.allowed_domains().size() == 1);
  CHECK(config->dns_servers.size() == 2);
  CHECK(config->hosts.at("packages.test").to_string() == "172.30.0.2");
  CHECK(config->policy_hash == "abc");
  CHECK_FALSE(config->policy.strict_tls());
  CHECK(parse_config(R"({"listen": "127.0.0.1:0", "allowed_domains": [], "strict_tls": true,
                         "policy_hash": "a"})")
            ->policy.strict_tls());
  CHECK(config->limits.max_upstreams == Limits{}.max_upstreams);
  CHECK(config->limits.max_bytes == 0);
  const auto limits = parse_config(R"({"listen": "127.0.0.1:0", "allowed_domains": [],
    "policy_hash": "a", "max_connections": 7, "max_upstreams": 6, "max_lookups_per_minute": 5,
    "max_bytes": 4})")
                          ->limits;
  CHECK(limits.max_connections == 7);
  CHECK(limits.max_upstreams == 6);
  CHECK(limits.max_lookups_per_minute == 5);
  CHECK(limits.max_bytes == 4);
}

TEST_CASE("a configuration that lost something is an error and never a wider or empty policy") {
  const struct {
    const char* json;
    const char* field;
  } rows[] = {
      {R"({"allowed_domains": [], "policy_hash": "a"})", "listen"},
      {R"({"listen": "127.0.0.1:0", "policy_hash": "a"})", "allowed_domains"},
      {R"({"listen": "127.0.0.1:0", "allowed_domains": null, "policy_hash": "a"})",
       "allowed_domains"},
      {R"({"listen": "127.0.0.1:0", "allowed_domains": "ok.test", "policy_hash": "a"})",
       "allowed_domains"},
      {R"({"listen": "127.0.0.1:0", "allowed_domains": []})", "policy_hash"},
      {R"({"listen": "localhost:1", "allowed_domains": [], "policy_hash": "a"})", "listen"},
      {R"({"listen": "127.0.0.1", "allowed_domains": [], "policy_hash": "a"})", "listen"},
      {R"({"listen": "127.0.0.1:0", "allowed_domains": ["*"], "policy_hash": "a"})",
       "allowed_domains[0]"},
      {R"({"listen": "127.0.0.1:0", "allowed_domains": [], "policy_hash": "a", "more": 1})",
       "more"},
      {R"({"listen": "127.0.0.1:0", "allowed_domains": [], "policy_hash": "a",
          "hosts": {"a.test": "localhost"}})",
       "hosts"},
      {R"({"listen": "127.0.0.1:0", "allowed_domains": [], "policy_hash": "a",
          "dns_servers": ["dns.test"]})",
       "dns_servers"},
      {R"({"listen": "127.0.0.1:0", "allowed_domains": [], "policy_hash": "a",
          "strict_tls": 1})",
       "strict_tls"},
      {R"({"listen": "127.0.0.1:0", "allowed_domains": [], "policy_hash": "a",
          "max_upstreams": 0})",
       "max_upstreams"},
      {"{", ""},
      {"[]", ""},
  };
  for (const auto& row : rows) {
    CAPTURE(row.json);
    const auto config = parse_config(row.json);
    REQUIRE_FALSE(config.has_value());
    CHECK(config.error().field == row.field);
  }
  CHECK_FALSE(load_config("/nonexistent/policy.json").has_value());
}

TEST_CASE("denials of one kind are one entry that counts") {
  DeniedLog log;
  log.add(target("a.test:443"), "not_in_allow_list", kNow);
  log.add(target("b.test:443"), "not_in_allow_list", kNow);
  log.add(target("a.test:443"), "not_in_allow_list", kNow + std::chrono::seconds(1));
  log.add(target("a.test:443"), "resolved_address_denied", kNow);
  CHECK(json::dump(log.to_json()) ==
        R"({"denied":[)"
        R"({"host":"a.test","port":443,"reason":"resolved_address_denied","count":1,)"
        R"("first":"2025-11-29T12:00:00.000Z","last":"2025-11-29T12:00:00.000Z"},)"
        R"({"host":"a.test","port":443,"reason":"not_in_allow_list","count":2,)"
        R"("first":"2025-11-29T12:00:00.000Z","last":"2025-11-29T12:00:01.000Z"},)"
        R"({"host":"b.test","port":443,"reason":"not_in_allow_list","count":1,)"
        R"("first":"2025-11-29T12:00:00.000Z","last":"2025-11-29T12:00:00.000Z"}]})");
}

TEST_CASE("the denied table keeps 1,000 entries and drops the one that is oldest") {
  DeniedLog log;
  for (std::size_t i = 0; i < DeniedLog::kMaxEntries; ++i) {
    log.add(target("n" + std::to_string(i) + ".test:443"), "x", kNow);
  }
  CHECK(log.dropped() == 0);
  log.add(target("n0.test:443"), "x", kNow);  // now the newest
  log.add(target("more.test:443"), "x", kNow);
  CHECK(log.dropped() == 1);
  const std::string text = json::dump(log.to_json());
  CHECK(text.find("\"n0.test\"") != std::string::npos);
  CHECK(text.find("\"n1.test\"") == std::string::npos);
  CHECK(text.find("\"more.test\"") != std::string::npos);
}

TEST_CASE("a log whose reader sleeps drops lines, counts them, and does not block") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const io::Fd reader(ends[0]);
  const io::Fd writer(ends[1]);
  io::EventLoop loop;
  LineLog log(loop, writer.get());
  const json::Value line = json::Object{{"text", std::string(1000, 'x')}};
  for (int i = 0; i < 1000; ++i) {
    log.write(line);
    loop.run_once(io::EventLoop::Duration{0});
  }
  CHECK(log.dropped() > 0);
  CHECK(log.dropped() < 1000);
}

TEST_CASE("a log whose reader is gone loses its lines and nothing else") {  // 74
  ::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  io::Fd reader(ends[0]);
  const io::Fd writer(ends[1]);
  io::EventLoop loop;
  LineLog log(loop, writer.get());
  reader.reset();
  log.write(json::Object{{"a", 1}});
  loop.run_once(io::EventLoop::Duration{100});
  loop.run_once(io::EventLoop::Duration{100});
  log.write(json::Object{{"a", 1}});
  CHECK(log.dropped() == 2);
}

namespace {

std::string query_for(std::string_view name, std::string_view flags = "\x01\x00"sv) {
  std::string out = "\x12\x34" + std::string(flags) + "\0\x01\0\0\0\0\0\0"s;
  std::string_view rest = name;
  while (!rest.empty()) {
    const auto dot = std::min(rest.find('.'), rest.size());
    out += static_cast<char>(dot);
    out += rest.substr(0, dot);
    rest.remove_prefix(std::min(rest.size(), dot + 1));
  }
  return out + "\0\0\x01\0\x01"s;
}

}  // namespace

TEST_CASE("a DNS query is answered REFUSED with its question repeated") {  // 28
  const auto answer = refuse_query(query_for("evil.test"));
  REQUIRE(answer.has_value());
  CHECK(answer->substr(0, 4) == "\x12\x34\x81\x05"s);
  CHECK(answer->substr(4) == query_for("evil.test").substr(4));
  // An EDNS record behind the question is dropped.
  std::string with_edns = query_for("evil.test");
  with_edns[11] = 1;
  with_edns += "\0\0\x29\x04\xd0\0\0\0\0\0\0"s;
  CHECK(refuse_query(with_edns) == answer);
}

TEST_CASE("what is no plain DNS query gets no answer") {
  const std::string good = query_for("evil.test");
  for (std::size_t length = 0; length < good.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(refuse_query(good.substr(0, length)).has_value());
  }
  CHECK_FALSE(refuse_query(query_for("evil.test", "\x81\x00"sv)).has_value());  // an answer
  std::string two = good;
  two[5] = 2;
  CHECK_FALSE(refuse_query(two).has_value());
  std::string pointer = good;
  pointer[12] = '\xc0';
  CHECK_FALSE(refuse_query(pointer).has_value());
  CHECK_FALSE(refuse_query(good + std::string(2000, 'x')).has_value());
  std::string endless;
  for (int i = 0; i < 100; ++i) {
    endless += "aaa.";
  }
  CHECK_FALSE(refuse_query(query_for(endless)).has_value());
}

TEST_CASE("loopback, the unspecified address and the machine's own are local") {
  LocalAddresses local;
  for (const char* text : {"127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "::", "::1"}) {
    CAPTURE(text);
    CHECK(local.contains(IpAddress::parse(text).value()));
  }
  CHECK_FALSE(local.contains(IpAddress::parse("192.0.2.77").value()));
}

TEST_CASE("a network that the host names counts as the proxy's own") {
  LocalAddresses local({{IpAddress::parse("192.0.2.64").value(), 26}});
  CHECK(local.contains(IpAddress::parse("192.0.2.77").value()));
  CHECK_FALSE(local.contains(IpAddress::parse("192.0.2.128").value()));
}
