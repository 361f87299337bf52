#include "sandboxkit/egress.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

using Entries = std::vector<std::string>;

EgressPolicy policy_of(const Entries& domains, const Entries& networks = {}) {
  return EgressPolicy::create(domains, networks).value();
}

EgressTarget connect_to(const std::string& authority) {
  return EgressTarget::from_authority(authority).value();
}

EgressTarget plain_to(const std::string& uri) { return EgressTarget::from_http_uri(uri).value(); }

}  // namespace

TEST_CASE("the attack list's names and ports get the answers of the attack list") {
  const struct {
    const char* authority;
    bool allowed;
    EgressReason reason;
  } rows[] = {
      {"OK.TEST:443", true, EgressReason::kAllowed},                    // 1
      {"ok.test.:443", true, EgressReason::kAllowed},                   // 2
      {"a.ok.test:443", false, EgressReason::kNotInAllowList},          // 4
      {"w.test:443", false, EgressReason::kNotInAllowList},             // 5
      {"a.b.w.test:443", true, EgressReason::kAllowed},                 // 5
      {"notok.test:443", false, EgressReason::kNotInAllowList},         // 6
      {"ok.test.evil.test:443", false, EgressReason::kNotInAllowList},  // 6
      {"xw.test:443", false, EgressReason::kNotInAllowList},            // 6
      {"xn--k-wga.test:443", false, EgressReason::kNotInAllowList},     // 8
      {"ok.test:22", false, EgressReason::kPortNotAllowed},             // 15
      {"ok.test:80", false, EgressReason::kPortNotAllowed},             // 15: CONNECT means TLS
      {"203.0.113.9:443", false, EgressReason::kIpLiteral},             // 16
      {"[::ffff:127.0.0.1]:443", false, EgressReason::kIpLiteral},      // 17
      {"redis:443", false, EgressReason::kNotInAllowList},              // 31
      {"mail.w.test:25", false, EgressReason::kPortNotAllowed},         // 41
  };
  const EgressPolicy policy = policy_of({"ok.test", "*.w.test"});
  for (const auto& row : rows) {
    CAPTURE(row.authority);
    const EgressVerdict verdict = policy.decide(connect_to(row.authority));
    CHECK(verdict.allowed == row.allowed);
    CHECK(verdict.reason == row.reason);
  }
}

TEST_CASE("a port in an entry is the only one that it allows, in both schemes") {
  const EgressPolicy policy =
      policy_of({"db.test:5432", "*.w.test:8443", "Both.test", "both.test:8080"});
  CHECK(policy.decide(connect_to("db.test:5432")).allowed);
  CHECK(policy.decide(plain_to("http://db.test:5432/")).allowed);
  CHECK_FALSE(policy.decide(connect_to("db.test:443")).allowed);
  CHECK_FALSE(policy.decide(plain_to("http://db.test/")).allowed);
  CHECK(policy.decide(connect_to("a.w.test:8443")).rule == "*.w.test:8443");
  CHECK(policy.decide(connect_to("both.test:443")).rule == "Both.test");
  CHECK(policy.decide(connect_to("both.test:8080")).rule == "both.test:8080");
  CHECK(policy.decide(plain_to("http://both.test/")).allowed);
  CHECK_FALSE(policy.decide(plain_to("http://both.test:443/")).allowed);
}

TEST_CASE("a resolved address of a special class is refused unless a network lifts it") {
  const EgressTarget target = connect_to("ok.test:443");
  const EgressPolicy plain = policy_of({"ok.test"});
  for (const char* text : {"127.0.0.1", "169.254.169.254", "10.0.0.5", "::1", "fe80::1"}) {  // 22
    CAPTURE(text);
    const auto verdict = plain.decide_address(target, IpAddress::parse(text).value());
    CHECK_FALSE(verdict.allowed);
    CHECK(verdict.reason == EgressReason::kAddressClass);
  }
  CHECK(plain.decide_address(target, IpAddress::parse("8.8.8.8").value()).allowed);

  const auto ten = IpAddress::parse("10.0.0.5").value();
  CHECK(policy_of({"ok.test"}, {"10.0.0.0/24"}).decide_address(target, ten).rule == "10.0.0.0/24");
  CHECK(policy_of({"ok.test"}, {"10.0.0.0/24:443"}).decide_address(target, ten).allowed);
  CHECK_FALSE(policy_of({"ok.test"}, {"10.0.0.0/24:80"}).decide_address(target, ten).allowed);
  CHECK_FALSE(policy_of({"ok.test"}, {"10.0.1.0/24"}).decide_address(target, ten).allowed);
  // A network lifts the class for allowed names only.
  CHECK_FALSE(policy_of({"other.test"}, {"10.0.0.0/24"}).decide_address(target, ten).allowed);
}

TEST_CASE(
    "an address that a client names itself must lie in a network, and is judged by its port") {
  const EgressPolicy policy = policy_of({}, {"10.1.0.0/16", "192.0.2.7/32:22", "fd00:1::/32"});
  CHECK(policy.decide(connect_to("10.1.255.255:443")).allowed);
  CHECK(policy.decide(plain_to("http://10.1.0.0/")).allowed);
  CHECK(policy.decide(connect_to("192.0.2.7:22")).rule == "192.0.2.7/32:22");
  CHECK(policy.decide(connect_to("[fd00:1::2]:443")).allowed);
  CHECK(policy.decide(connect_to("10.1.0.1:22")).reason == EgressReason::kPortNotAllowed);
  CHECK(policy.decide(connect_to("192.0.2.7:443")).reason == EgressReason::kPortNotAllowed);
  CHECK(policy.decide(connect_to("10.2.0.0:443")).reason == EgressReason::kIpLiteral);
  CHECK(policy.decide(connect_to("[fd00:2::2]:443")).reason == EgressReason::kIpLiteral);
  // A literal is dialled as it is named, never as something else.
  const EgressTarget literal = connect_to("10.1.0.1:443");
  CHECK(policy.decide_address(literal, IpAddress::parse("10.1.0.1").value()).allowed);
  CHECK_FALSE(policy.decide_address(literal, IpAddress::parse("10.1.0.2").value()).allowed);
}

TEST_CASE("an entry that is no plain name is refused with its index and the way out") {  // 19
  const struct {
    const char* entry;
    const char* words;
  } rows[] = {
      {"", "empty"},
      {"*", "`*`"},
      {"*.", "empty"},
      {"*.com", "too wide"},
      {"a.*.b", "`*.example.org`"},
      {"*a.b.test", "`*.example.org`"},
      {"**.b.test", "`*.example.org`"},
      {"*.*.b.test", "`*.example.org`"},
      {"https://x.test", "scheme"},
      {"x.test/y", "path"},
      {"10.0.0.0/8", "allowed_networks"},
      {"u@x.test", "user name"},
      {"ok.test.", "ends with a dot"},
      {"ok..test", "empty label"},
      {".ok.test", "empty label"},
      {"1.2.3.4", "allowed_networks"},
      {"1.2.3.4:443", "allowed_networks"},
      {"[::1]:443", "allowed_networks"},
      {"::1", "allowed_networks"},
      {"127.1", "ends in a number"},
      {"0x7f.1", "ends in a number"},
      {"redis", "single label"},
      {"b\xc3\xbc"
       "cher.test",
       "xn--"},
      {"xn--a-.test", "`-`"},
      {"xn--99999999999.test", "decodes to nothing"},
      {"ok.test:", "port"},
      {"ok.test:0", "port"},
      {"ok.test:65536", "port"},
      {"ok.test:x", "port"},
      {"ok .test", "no part of a DNS name"},
      {"ok%2etest.test", "no part of a DNS name"},
      {"-a.test", "`-`"},
      {"*.-a.test", "`-`"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.entry);
    const auto policy = EgressPolicy::create(Entries{"fine.test", row.entry}, {});
    REQUIRE_FALSE(policy.has_value());
    CHECK(policy.error().code == ErrorCode::kInvalidArgument);
    CHECK(policy.error().field == "allowed_domains[1]");
    CAPTURE(policy.error().message);
    CHECK(policy.error().message.find(row.words) != std::string::npos);
  }
}

TEST_CASE("a network that is no exact block is refused with its index and the way out") {
  const struct {
    const char* entry;
    const char* words;
  } rows[] = {
      {"", "prefix length"},
      {"10.1.2.3", "`10.1.2.3/32`"},
      {"10.1.2.3/16", "`10.1.0.0/16`"},
      {"10.0.0.0/33", "0 to 32"},
      {"10.0.0.0/", "prefix length"},
      {"10.0.0.0/08", "prefix length"},
      {"0.0.0.0/0", "too wide"},
      {"10.0.0.0/7", "too wide"},
      {"2000::/3", "too wide"},
      {"fd00::/129", "0 to 128"},
      {"10.0/16", "no address block"},
      {"ok.test/24", "no address block"},
      {"10.0.0.0/8:0", "port"},
      {"10.0.0.0/8:", "port"},
      {"[fd00::]/32", "no address block"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.entry);
    const auto policy = EgressPolicy::create({}, Entries{"10.9.0.0/16", row.entry});
    REQUIRE_FALSE(policy.has_value());
    CHECK(policy.error().field == "allowed_networks[1]");
    CAPTURE(policy.error().message);
    CHECK(policy.error().message.find(row.words) != std::string::npos);
  }
}

TEST_CASE("an entry that says the same thing twice is refused") {
  for (const Entries& domains :
       {Entries{"ok.test", "OK.test"}, Entries{"*.w.test:1", "*.W.test:1"}}) {
    const auto policy = EgressPolicy::create(domains, {});
    REQUIRE_FALSE(policy.has_value());
    CHECK(policy.error().field == "allowed_domains[1]");
  }
  CHECK(EgressPolicy::create(Entries{"ok.test", "ok.test:443", "*.ok.test"}, {}).has_value());
  CHECK_FALSE(EgressPolicy::create({}, Entries{"10.0.0.0/8", "10.0.0.0/8"}).has_value());
  CHECK_FALSE(EgressPolicy::create({}, Entries{"fd00:0::/32", "fd00::/32"}).has_value());
}

TEST_CASE("256 domains and 64 networks are taken, one more is not") {
  Entries domains;
  for (std::size_t i = 0; i < EgressPolicy::kMaxDomains; ++i) {
    domains.push_back("n" + std::to_string(i) + ".test");
  }
  Entries networks;
  for (std::size_t i = 0; i < EgressPolicy::kMaxNetworks; ++i) {
    networks.push_back("10." + std::to_string(i) + ".0.0/16");
  }
  CHECK(EgressPolicy::create(domains, networks).has_value());
  domains.emplace_back("one.more.test");
  CHECK(EgressPolicy::create(domains, networks).error().field == "allowed_domains[256]");
  domains.pop_back();
  networks.emplace_back("10.200.0.0/16");
  CHECK(EgressPolicy::create(domains, networks).error().field == "allowed_networks[64]");
}

// Complaint 67: some destinations are allowed though no list names them.
TEST_CASE("a policy of nothing allows nothing, and says so when asked") {
  CHECK_FALSE(EgressPolicy::deny_all().decide(connect_to("ok.test:443")).allowed);
  CHECK_FALSE(policy_of({}).decide(plain_to("http://ok.test/")).allowed);
  CHECK(policy_of({}).canonical() == EgressPolicy::deny_all().canonical());
  CHECK_FALSE(EgressVerdict{}.allowed);
}

TEST_CASE("canonical text forgets order and case, and nothing else") {
  const Entries a{"ok.test", "*.W.test:8443"};
  const Entries b{"*.w.test:8443", "OK.test"};
  CHECK(policy_of(a, {"10.0.0.0/8", "fd00::/16"}).canonical() ==
        policy_of(b, {"fd00:0::/16", "10.0.0.0/8"}).canonical());
  CHECK(policy_of(a).canonical() != policy_of({"ok.test"}).canonical());
  CHECK(policy_of({"ok.test"}).canonical() != policy_of({"*.ok.test"}).canonical());
  CHECK(policy_of({"ok.test"}).canonical() != policy_of({"ok.test:443"}).canonical());
  CHECK(policy_of({}, {"10.0.0.0/8"}).canonical() != policy_of({}, {"10.0.0.0/9"}).canonical());
  CHECK(policy_of(a).canonical() != policy_of(a).with_strict_tls().canonical());
}
