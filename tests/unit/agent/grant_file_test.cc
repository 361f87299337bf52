#include "agent/grant_file.h"

#include "tests/unit/agent/grants_world.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;              // NOLINT(google-build-using-namespace)
using namespace sandboxkit::agent_test;  // NOLINT(google-build-using-namespace)

namespace {

audit::Key key(std::uint8_t first = 1) {
  audit::Key::Bytes bytes{};
  bytes[0] = first;
  return audit::Key(bytes);
}

KeptGrants some() {
  const gate_test::FakeEyes eyes = gate_test::machine();
  KeptGrants kept{.generation = 41};
  kept.grants.push_back(
      {.grant = gate_test::permanent(
           eyes, {.operations = {Op::kRead, Op::kList}, .target = "/srv/daten \u00fc/\"x\"/**"}),
       .created = gate_test::kNow,
       .by = "tty:u@h",
       .request = "sha256:0",
       .note = "line\nand another"});
  kept.grants.push_back(
      {.grant = gate_test::permanent(
           eyes, {.operations = {Op::kExec}, .argv = {"git", "log"}, .argv_is_prefix = true})});
  kept.grants.back().grant.id = "g_2";
  kept.grants.back().grant.needs_box = true;
  kept.grants.back().grant.expires.reset();
  return kept;
}

std::string why(const std::string& text) {
  const auto opened = agent::open_grants(text, key());
  return opened ? "it counts" : opened.error().field;
}

}  // namespace

TEST_CASE("what is written is read again, to the last member") {
  const KeptGrants before = some();
  const auto after = agent::open_grants(agent::sign_grants(before, key()), key());
  REQUIRE_MESSAGE(after.has_value(), after.error().message);
  CHECK(to_json(*after) == to_json(before));
  CHECK(after->generation == 41);
  REQUIRE(after->grants.size() == 2);
  CHECK(after->grants[0].grant.use.target == before.grants[0].grant.use.target);
  CHECK(after->grants[0].grant.tree_identity == before.grants[0].grant.tree_identity);
  CHECK(after->grants[0].note == before.grants[0].note);
  CHECK(after->grants[0].created == before.grants[0].created);
  CHECK(after->grants[1].grant.use.argv_is_prefix);
  CHECK(after->grants[1].grant.needs_box);
  CHECK_FALSE(after->grants[1].grant.expires.has_value());
}

TEST_CASE(
    "case 52: a change of any byte, a cut at any byte, or a byte more, and the MAC is wrong") {
  const std::string text = agent::sign_grants(some(), key());
  for (std::size_t at = 0; at < text.size(); ++at) {
    CAPTURE(at);
    for (const char change : {'\x01', '\x20', '\x7f'}) {
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ change);
      REQUIRE(why(changed) == "mac");
    }
    REQUIRE(why(text.substr(0, at)) == "mac");
    std::string longer = text;
    longer.insert(at, 1, ' ');
    REQUIRE(why(longer) == "mac");
  }
  CHECK(why(text + "\n") == "mac");
  CHECK(why(text + text) == "mac");
  CHECK(why(text) == "it counts");
}

TEST_CASE("another key's file does not count, and neither does another purpose's MAC") {
  CHECK(why(agent::sign_grants(some(), key(2))) == "mac");
  std::string body = to_json(some());
  const std::string other = key().sign("sandboxkit audit head v1", body);
  body.pop_back();
  CHECK(why(body + ",\"mac\":\"hmac-sha256:" + other + "\"}\n") == "mac");
}

TEST_CASE("a signed file that is none of grants does not count, whole") {
  KeptGrants twice = some();
  twice.grants[1].grant.id = twice.grants[0].grant.id;
  CHECK(why(agent::sign_grants(twice, key())) == "json");
  KeptGrants empty_operations = some();
  empty_operations.grants[0].grant.use.operations.clear();
  CHECK(why(agent::sign_grants(empty_operations, key())) == "json");
}
