#include "sandboxkit/relax/unwalled_egress.h"
#include "sandboxkit/sandbox_spec.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

LentSecret plain() {
  return LentSecret{.name = "API_TOKEN",
                    .domain = "api.example.org",
                    .key = "Authorization",
                    .value = "Bearer s3cret"};
}

SandboxSpec with_secrets(std::vector<LentSecret> secrets) {
  const std::vector<std::string> domains{"api.example.org", "*.w.test", "db.test:8443",
                                         "x.test:80"};
  SandboxSpec spec{.image = "base", .egress = Egress::walled(*EgressPolicy::create(domains, {}))};
  spec.secrets = std::move(secrets);
  return spec;
}

struct Row {
  const char* field;
  std::function<void(LentSecret&)> change;
};

void basic(LentSecret& secret, std::string value) {
  secret.place = SecretPlace::kBasic;
  secret.key = "";
  secret.value = std::move(value);
}

void query(LentSecret& secret, std::string key) {
  secret.place = SecretPlace::kQuery;
  secret.key = std::move(key);
}

const std::vector<Row> kBad = {
    {"name", [](auto& s) { s.name = ""; }},
    {"name", [](auto& s) { s.name = std::string(65, 'a'); }},
    {"name", [](auto& s) { s.name = "1A"; }},
    {"name", [](auto& s) { s.name = "A=B"; }},
    {"name", [](auto& s) { s.name = "A-B"; }},
    {"domain", [](auto& s) { s.domain = ""; }},
    {"domain", [](auto& s) { s.domain = "*.example.org"; }},
    {"domain", [](auto& s) { s.domain = "API.example.org"; }},
    {"domain", [](auto& s) { s.domain = "api.example.org."; }},
    {"domain", [](auto& s) { s.domain = "10.0.0.1"; }},
    {"domain", [](auto& s) { s.domain = "[::1]:443"; }},
    {"domain", [](auto& s) { s.domain = "api.example.org:443"; }},
    {"domain", [](auto& s) { s.domain = "api.example.org:0"; }},
    {"domain", [](auto& s) { s.domain = "https://api.example.org"; }},
    {"header", [](auto& s) { s.key = ""; }},
    {"header", [](auto& s) { s.key = "A B"; }},
    {"header", [](auto& s) { s.key = "A\r\nB"; }},
    {"header", [](auto& s) { s.key = std::string(129, 'a'); }},
    {"header", [](auto& s) { s.key = "HOST"; }},
    {"header", [](auto& s) { s.key = "Content-Length"; }},
    {"header", [](auto& s) { s.key = "Transfer-Encoding"; }},
    {"header", [](auto& s) { s.key = "Proxy-Authorization"; }},
    {"query", [](auto& s) { query(s, ""); }},
    {"query", [](auto& s) { query(s, "a&b"); }},
    {"query", [](auto& s) { query(s, "a=b"); }},
    {"value_from.value", [](auto& s) { s.value = ""; }},
    {"value_from.value", [](auto& s) { s.value = std::string(4097, 'x'); }},
    {"value_from.value", [](auto& s) { s.value = "s3cret\r\nX: y"; }},
    {"value_from.value", [](auto& s) { s.value = "s3cret\xff"; }},
    {"value_from.value", [](auto& s) { s.value = " s3cret"; }},
    {"value_from.value", [](auto& s) { s.value = "s3cret "; }},
    {"value_from.value", [](auto& s) { basic(s, "s3cret without a colon"); }},
    {"basic",
     [](auto& s) {
       basic(s, "a:s3cret");
       s.key = "x";
     }},
    {"expires_at", [](auto& s) { s.expires_at = WallTime{} - std::chrono::seconds{1}; }},
};

}  // namespace

TEST_CASE("a secret at its limits is taken") {
  LentSecret secret = plain();
  secret.name = "_" + std::string(63, 'a');
  secret.key = std::string(128, 'a');
  secret.value = std::string(4096, 'v');
  CHECK(validate(secret).has_value());
  basic(secret, ":");
  CHECK(validate(secret).has_value());
  query(secret, "access-token.v1_x~");
  secret.value = " spaces are encoded ";
  CHECK(validate(secret).has_value());
  CHECK(secret.placeholder().find("spaces") == std::string::npos);
}

TEST_CASE("a secret past a limit is refused at its member, in words that do not hold the value") {
  for (std::size_t row = 0; row < kBad.size(); ++row) {
    CAPTURE(row);
    LentSecret secret = plain();
    kBad[row].change(secret);
    const Status status = validate(secret);
    REQUIRE_FALSE(status);
    CHECK(status.error().field == kBad[row].field);
    CHECK(status.error().message.find("s3cret") == std::string::npos);
    const Status of_spec = validate(with_secrets({secret}));
    REQUIRE_FALSE(of_spec);
    CHECK(of_spec.error().field == std::string("secrets[0].") + kBad[row].field);
  }
}

TEST_CASE("a secret is lent only to a domain and a port that the policy allows") {
  for (const auto& [domain, allowed] : std::vector<std::pair<const char*, bool>>{
           {"api.example.org", true},
           {"api.example.org:80", true},
           {"api.example.org:8443", false},
           {"example.org", false},
           {"a.w.test", true},
           {"w.test", false},
           {"db.test:8443", true},
           {"db.test", false},
           {"x.test:80", true},
           {"x.test", false},
       }) {
    const auto& shown = domain;  // A lambda of clang 14 takes no structured binding.
    CAPTURE(shown);
    LentSecret secret = plain();
    secret.domain = domain;
    const Status status = validate(with_secrets({secret}));
    CHECK(status.has_value() == allowed);
    CHECK((allowed || status.error().field == "secrets[0].domain"));
  }
}

TEST_CASE("an unwalled sandbox is lent nothing") {
  SandboxSpec spec = with_secrets({plain()});
  CHECK(validate(spec).has_value());
  spec.egress = Egress::unwalled(UnwalledEgress{});
  REQUIRE_FALSE(validate(spec));
  CHECK(validate(spec).error().field == "secrets");
}

TEST_CASE("secrets at their number are taken and one past it is refused") {
  std::vector<LentSecret> secrets;
  for (std::size_t i = 0; i < SandboxSpec::kMaxSecrets; ++i) {
    secrets.push_back(plain());
    secrets.back().name += std::to_string(i);
    secrets.back().key += std::to_string(i);
  }
  CHECK(validate(with_secrets(secrets)).has_value());
  secrets.push_back(plain());
  REQUIRE_FALSE(validate(with_secrets(secrets)));
  CHECK(validate(with_secrets(secrets)).error().field == "secrets");
}

TEST_CASE("two secrets never want one name or one place of a request") {
  LentSecret other = plain();
  other.key = "X-Other";
  CHECK(validate(with_secrets({plain(), other})).error().field == "secrets[1].name");
  other.name = "OTHER";
  CHECK(validate(with_secrets({plain(), other})).has_value());
  other.key = "authorization";
  CHECK(validate(with_secrets({plain(), other})).error().field == "secrets[1]");
  basic(other, "user:password");
  CHECK(validate(with_secrets({plain(), other})).error().field == "secrets[1]");
  other.domain = "a.w.test";
  CHECK(validate(with_secrets({plain(), other})).has_value());
  SandboxSpec spec = with_secrets({plain()});
  spec.env["API_TOKEN"] = "x";
  CHECK(validate(spec).error().field == "secrets[0].name");
}

TEST_CASE("value and end make no other spec, all else of a secret does") {
  const std::string text = canonical_text(with_secrets({plain()}));
  CHECK(text.find("s3cret") == std::string::npos);
  CHECK(text != canonical_text(with_secrets({})));
  LentSecret rotated = plain();
  rotated.value = "next";
  rotated.expires_at = WallTime{std::chrono::hours{1}};
  CHECK(canonical_text(with_secrets({rotated})) == text);
  for (const auto& change : std::vector<std::function<void(LentSecret&)>>{
           [](auto& s) { s.name = "B"; },
           [](auto& s) { s.domain = "a.w.test"; },
           [](auto& s) { s.key = "X-Key"; },
           [](auto& s) { query(s, "Authorization"); },
       }) {
    LentSecret changed = plain();
    change(changed);
    CHECK(canonical_text(with_secrets({changed})) != text);
  }
}
