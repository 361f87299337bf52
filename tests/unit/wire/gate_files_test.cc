#include "sandboxkit/gate_files.h"

#include "json/value.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

using Op = GateOperation;

std::string field_of(const std::string& policy) {
  const auto read = parse_gate_policy(policy, "p.json");
  return read ? "taken" : read.error().field + " | " + read.error().message;
}

GateItem only_item(const std::string& item) {
  const auto request = parse_gate_request("{\"cwd\": \"/w\", \"items\": [" + item + "]}");
  REQUIRE_MESSAGE(request.has_value(), request.error().message);
  REQUIRE(request->items.size() == 1);
  return request->items[0];
}

std::string grant(const std::string& change_from = "", const std::string& change_to = "") {
  std::string text =
      R"({"id":"g_1","op":["read"],"target":"/srv/data/**","scope":{"tree":"/w","dev":7,"ino":9,)"
      R"("agent":"a"},"box":"any","created":"2026-11-01T00:00:00Z",)"
      R"("expires":"2026-12-01T02:00:00+02:00","by":"tty:u@h","request":"sha256:0","note":"n"})";
  if (!change_from.empty()) {
    const auto at = text.find(change_from);
    REQUIRE(at != std::string::npos);
    text.replace(at, change_from.size(), change_to);
  }
  return R"({"version":1,"generation":41,"grants":[)" + text + R"(],"mac":"hmac-sha256:0"})";
}

}  // namespace

TEST_CASE("a policy file of a version alone is the shipped lists") {
  const auto policy = parse_gate_policy("{\"version\": 1}", "p.json");
  REQUIRE(policy.has_value());
  const GatePolicy shipped = GatePolicy::shipped();
  CHECK(policy->denials.size() == shipped.denials.size());
  CHECK(policy->exceptions.size() == shipped.exceptions.size());
  CHECK_FALSE(policy->egress.has_value());
}

TEST_CASE("a policy file adds to the shipped lists, and each rule says where it stands") {
  const auto policy = parse_gate_policy(
      R"({"version":1,"deny":[{"op":["read","list"],"target":"~/x"},{"op":["all"],"target":"y"}],
          "except":[{"op":["read"],"target":"${tree}/.env"}],"exclude":[{"target":"/**/docs"}],
          "roots":[{"path":"/srv","access":"ro"}],"variables":{"deny":["A*"],"allow":["B"]},
          "egress":{"allowed_domains":["a.test"]}})",
      "p.json");
  REQUIRE_MESSAGE(policy.has_value(), policy.error().message);
  CHECK(policy->denials.back().source == "p.json: deny[1]");
  CHECK(policy->denials.back().operations.contains(Op::kListen));
  CHECK(policy->exceptions.back().operations == std::set<Op>{Op::kRead});
  CHECK(policy->exclusions.back().operations.contains(Op::kWrite));
  CHECK_FALSE(policy->exclusions.back().operations.contains(Op::kRead));
  CHECK(policy->roots.front().access == RootAccess::kReadOnly);
  CHECK(policy->denied_variables.back() == "A*");
  CHECK(policy->allowed_variables.back() == "B");
  REQUIRE(policy->egress.has_value());
  CHECK(policy->egress->allowed_domains() == std::vector<std::string>{"a.test"});
}

TEST_CASE("what is wrong in a policy file is told by its field") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", " | "},
      {"[]", " | "},
      {"{}", "version | "},
      {R"({"version":2})", "version | "},
      {R"({"version":1,"denny":[]})", "denny | "},
      {R"({"version":1,"deny":{}})", "deny | "},
      {R"({"version":1,"deny":[{"op":["read"]}]})", "deny[0].target | "},
      {R"({"version":1,"deny":[{"op":["read"],"target":"/a/"}]})", "deny[0].target | "},
      {R"({"version":1,"deny":[{"op":["read"],"target":"/"}]})", "deny[0].target | "},
      {R"({"version":1,"deny":[{"target":"/a"}]})", "deny[0].op | "},
      {R"({"version":1,"deny":[{"op":["frob"],"target":"/a"}]})", "deny[0].op[0] | "},
      {R"({"version":1,"deny":[{"op":["read"],"target":"/a","x":1}]})", "deny[0].x | "},
      {R"({"version":1,"except":[{"op":["read"],"target":".env"}]})", "except[0].target | "},
      {R"({"version":1,"roots":[{"path":"/a","access":"rwx"}]})", "roots[0].access | "},
      {R"({"version":1,"variables":{"deny":[1]}})", "variables.deny[0] | "},
      {R"({"version":1,"egress":{"allowed_domains":["*"]}})", "egress.allowed_domains[0] | "},
      {R"({"version":1,"version":1})", " | "},
  };
  for (const auto& row : rows) {
    const std::string& text = row.first;
    CAPTURE(text);
    CHECK_MESSAGE(field_of(text).starts_with(row.second), field_of(text));
  }
  CHECK(field_of("{\"version\":1}" + std::string(1 << 20, ' ')) != "taken");
}

TEST_CASE("kept grants are read whole or not at all") {
  const auto grants = parse_gate_grants(grant());
  REQUIRE_MESSAGE(grants.has_value(), grants.error().message);
  REQUIRE(grants->size() == 1);
  const PermanentGrant& read = grants->front();
  CHECK(read.id == "g_1");
  CHECK(read.use.target == "/srv/data/**");
  CHECK(read.tree_identity == FileIdentity{7, 9});
  CHECK(read.agent == "a");
  CHECK(read.expires == *parse_gate_time("2026-12-01T00:00:00Z"));
  CHECK_FALSE(parse_gate_grants(grant(R"("2026-12-01T02:00:00+02:00")", "\"never\""))
                  ->front()
                  .expires.has_value());
  const std::vector<std::pair<std::pair<std::string, std::string>, std::string>> rows = {
      {{R"("dev":7,)", ""}, "grants[0].scope.dev"},
      {{R"("tree":"/w",)", ""}, "grants[0].scope.tree"},
      {{R"(,"agent":"a")", ""}, "grants[0].scope.agent"},
      {{R"("scope":)", R"("scope_":)"}, "grants[0].scope"},
      {{R"("2026-12-01T02:00:00+02:00")", "\"soon\""}, "grants[0].expires"},
      {{R"("expires":"2026-12-01T02:00:00+02:00",)", ""}, "grants[0].expires"},
      {{R"("any")", "\"some\""}, "grants[0].box"},
      {{R"(["read"])", "[]"}, "grants[0].op"},
      {{R"("id":"g_1",)", ""}, "grants[0].id"},
  };
  for (const auto& row : rows) {
    const auto& change = row.first;
    CAPTURE(change.first);
    const auto wrong = parse_gate_grants(grant(change.first, change.second));
    REQUIRE_FALSE(wrong.has_value());
    CHECK(wrong.error().field == row.second);
  }
  CHECK_FALSE(parse_gate_grants("{\"version\":1}").has_value());
  CHECK_FALSE(parse_gate_grants("{").has_value());
}

TEST_CASE("items have what their operation asks for, and else a problem") {
  CHECK(only_item(R"({"op":"read","path":"a"})").target == "a");
  CHECK(only_item(R"({"op":"read","path":"a\u0000b"})").target == std::string("a\0b", 3));
  CHECK(only_item(R"({"op":"rename","path":"a","to":"b"})").to == "b");
  CHECK(only_item(R"({"op":"exec","command":"ls"})").command == "ls");
  CHECK(only_item(R"({"op":"exec","argv":["ls","-l"]})").argv.size() == 2);
  CHECK(only_item(R"({"op":"env","name":"LANG"})").target == "LANG");
  CHECK(only_item(R"({"op":"connect","host":"a.test","port":443})").target == "a.test:443");
  CHECK(only_item(R"({"op":"connect","host":"::1","port":1})").target == "[::1]:1");
  CHECK(only_item(R"({"op":"listen","port":80})").target == "0.0.0.0:80");
  for (const char* wrong :
       {R"({"op":"frob","path":"a"})", R"({"path":"a"})", R"({"op":"unknown"})", R"({"op":1})",
        R"("read")", R"({"op":"read","path":1})", R"({"op":"read","path":"a","env":{}})",
        R"({"op":"read","name":"a"})", R"({"op":"exec","argv":"ls"})",
        R"({"op":"exec","argv":[1]})", R"({"op":"exec","path":"/bin/ls"})",
        R"({"op":"connect","host":"a"})", R"({"op":"connect","host":"a","port":0})",
        R"({"op":"connect","host":"a","port":65536})", R"({"op":"connect","port":1})"}) {
    CAPTURE(std::string(wrong));
    CHECK_FALSE(only_item(wrong).problem.empty());
  }
  for (const char* wrong :
       {"", "[]", "{}", R"({"items":{}})", R"({"items":[],"x":1})", R"({"items":[],"cwd":1})"}) {
    CAPTURE(std::string(wrong));
    CHECK_FALSE(parse_gate_request(wrong).has_value());
  }
}

TEST_CASE("a decision is one line that reads back, whatever the names hold") {
  GateDecision decision;
  decision.decisive.requested = "a\nb\x1b[2J\u202e\u009b";
  decision.decisive.reason = "malformed";
  decision.items = {decision.decisive};
  const std::string line = to_json(decision);
  CHECK(line.find_first_of("\n\x1b") == std::string::npos);
  CHECK(line.find("\u202e") == std::string::npos);
  const auto value = json::parse(line);
  REQUIRE(value.has_value());
  CHECK(value->text("decision") == "deny");
  CHECK(value->text("branch") == "hardlock");
  CHECK(value->find("rule")->is_null());
  CHECK((*value->find("items")->as_array())[0].text("requested") == decision.decisive.requested);
}

TEST_CASE("times have any offset, and nothing else is a time") {
  CHECK(*parse_gate_time("2026-12-01T02:30:00+02:30") == *parse_gate_time("2026-12-01T00:00:00Z"));
  CHECK(*parse_gate_time("2026-11-30T23:00:00-01:00") == *parse_gate_time("2026-12-01T00:00:00Z"));
  for (const char* wrong : {"", "now", "2026-12-01", "2026-12-01T00:00:00", "2026-12-01T00:00:00+2",
                            "2026-12-01T00:00:00+24:00", "2026-13-01T00:00:00Z"}) {
    CAPTURE(std::string(wrong));
    CHECK_FALSE(parse_gate_time(wrong).has_value());
  }
}
