#include "tests/unit/gate/world.h"

#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;             // NOLINT(google-build-using-namespace)
using namespace sandboxkit::gate_test;  // NOLINT(google-build-using-namespace)

TEST_CASE("the strictest item decides and every item is judged") {
  const auto decision = decide({}, {item(Op::kRead, "src/a.c"), item(Op::kRead, "/srv/x"),
                                    item(Op::kRead, "/home/u/.ssh/id_rsa")});
  CHECK(decision.answer == GateAnswer::kDeny);
  REQUIRE(decision.items.size() == 3);
  CHECK(decision.items[0].answer == GateAnswer::kAllow);
  CHECK(decision.items[1].answer == GateAnswer::kAsk);
  CHECK(decision.decisive.canonical == "/home/u/.ssh/id_rsa");
}

TEST_CASE("each branch speaks only where none before it did") {
  // The same read is allowed by the tree and by both kinds of grant; what comes first is taken away
  // one by one.
  const GrantedUse use{.operations = {Op::kRead}, .target = "/home/u/**"};
  struct Row {
    const char* path;
    bool permanent;
    bool session;
    GateBranch branch;
  };
  const std::vector<Row> rows = {
      {"/home/u/.local/state/sandboxkit/gate/x", true, true, GateBranch::kHardlock},
      {"/home/u/.ssh/x", true, true, GateBranch::kMandatoryDenial},
      {"/home/u/proj/x", true, true, GateBranch::kWorkTree},
      {"/home/u/x", true, true, GateBranch::kPermanentGrant},
      {"/home/u/x", false, true, GateBranch::kSessionGrant},
      {"/home/u/x", false, false, GateBranch::kAsk},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.path));
    Question with;
    with.item = item(Op::kRead, row.path);
    if (row.permanent) {
      with.permanent = {permanent(with.eyes, use)};
    }
    if (row.session) {
      with.granted = {for_session(use)};
    }
    CHECK(decide(with).decisive.branch == row.branch);
  }
}

TEST_CASE("strict denies what prompt asks, and nothing else differs") {
  for (const char* path : {"/home/u/.ssh/x", "/home/u/proj/x", "/srv/data", "/proc/1/mem"}) {
    CAPTURE(std::string(path));
    Question with;
    with.item = item(Op::kRead, path);
    const auto prompt = decide(with);
    with.mode = PermissionMode::kStrict;
    const auto strict = decide(with);
    CHECK(strict.decisive.branch == prompt.decisive.branch);
    CHECK(strict.answer == (prompt.answer == GateAnswer::kAsk ? GateAnswer::kDeny : prompt.answer));
  }
}

TEST_CASE("what cannot be seen is denied, by the branch that knows its name") {
  Question with;
  with.eyes.blind = true;
  with.item = item(Op::kRead, "src/a.c");
  CHECK(told(decide(with)) == "deny hardlock cannot_see");
  with.item = item(Op::kRead, "/home/u/.ssh/id_rsa");
  CHECK(told(decide(with)) == "deny mandatory_denial denied");
  Question closed;
  closed.eyes.closed.insert(kTree + "/src");
  closed.item = item(Op::kDelete, "src");
  CHECK(told(decide(closed)) == "deny hardlock cannot_see");
}

TEST_CASE("a request without items or with too many is malformed") {
  CHECK(told(decide({}, {})) == "deny hardlock malformed");
  CHECK(told(decide({}, std::vector<GateItem>(1025, item(Op::kRead, "src/a.c")))) ==
        "deny hardlock malformed");
  CHECK(decide({}, std::vector<GateItem>(1024, item(Op::kRead, "/etc/hosts"))).answer ==
        GateAnswer::kAllow);
}

TEST_CASE("an item that could not be read is denied and says why") {
  GateItem broken = item(Op::kRead, "src/a.c");
  broken.problem = "unknown member `pth`";
  const auto decision = decide({}, {broken});
  CHECK(told(decision) == "deny hardlock malformed");
  CHECK(explain(decision).find("unknown member") != std::string::npos);
}

TEST_CASE("a grant that a denial shadows, that is too wide or that names no place is refused") {
  struct Row {
    GrantedUse use;
    const char* reason;
    const char* field;
  };
  const std::vector<Row> rows = {
      {{.operations = {Op::kRead}, .target = "~/.ssh/config"}, "shadowed", "target"},
      {{.operations = {Op::kWrite}, .target = "${tree}/.git/hooks/**"}, "shadowed", "target"},
      {{.operations = {Op::kRead}, .target = "/srv/**/.env"}, "shadowed", "target"},
      {{.operations = {Op::kRead}, .target = "~/.local/state/sandboxkit/gate/x"},
       "shadowed",
       "target"},
      {{.operations = {Op::kUnix}, .target = "/var/run/docker.sock"}, "shadowed", "target"},
      {{.operations = {Op::kRead}, .target = "/home/u/**"}, "too_wide", "target"},
      {{.operations = {Op::kRead}, .target = "/home"}, "too_wide", "target"},
      {{.operations = {Op::kRead}, .target = "/**/x"}, "too_wide", "target"},
      {{.operations = {Op::kRead}, .target = "notes.txt"}, "", "target"},
      {{.operations = {}, .target = "/srv/x"}, "", "op"},
      {{.operations = {Op::kExec}, .target = "/usr/bin/git"}, "", "argv"},
      {{.operations = {Op::kExec}, .argv = {"sudo", "ls"}}, "shadowed", "target"},
      {{.operations = {Op::kExec}, .argv = {"env", "sudo", "ls"}}, "shadowed", "target"},
      {{.operations = {Op::kEnv}, .target = "NPM_TOKEN"}, "shadowed", "target"},
      {{.operations = {Op::kEnv}, .target = "LD_PRELOAD"}, "shadowed", "target"},
      {{.operations = {Op::kConnect}, .target = "169.254.169.254:80"}, "shadowed", "target"},
      {{.operations = {Op::kPtrace}, .target = "1"}, "shadowed", "target"},
  };
  const auto gate = gate_of({});
  for (const Row& row : rows) {
    CAPTURE(row.use.target);
    const auto status = gate.check_new(row.use);
    REQUIRE_FALSE(status.has_value());
    CHECK(status.error().reason == row.reason);
    CHECK(status.error().field == row.field);
  }
  for (const GrantedUse& use : {GrantedUse{.operations = {Op::kRead}, .target = "/srv/data/**"},
                                GrantedUse{.operations = {Op::kRead}, .target = "~/.bashrc"},
                                GrantedUse{.operations = {Op::kEnv}, .target = "EDITOR"},
                                GrantedUse{.operations = {Op::kConnect}, .target = "x.com:443"}}) {
    CAPTURE(use.target);
    CHECK(gate.check_new(use).has_value());
  }
}

TEST_CASE("kept grants that cannot be read name the grant") {
  const Question with;
  auto grant = permanent(with.eyes, {.operations = {Op::kRead}, .target = "/srv/x"});
  auto wrong = permanent(with.eyes, {.operations = {Op::kRead}, .target = "/srv//x"});
  const auto compiled = gate_of(with).compile(std::vector{grant, wrong}, {});
  REQUIRE_FALSE(compiled.has_value());
  CHECK(compiled.error().field == "grants[1].target");
}

TEST_CASE("a policy that would open the home or the gate's own state is refused") {
  const auto made = [&](const std::function<void(GatePolicy&, GateSession&)>& change) {
    GatePolicy policy = GatePolicy::shipped();
    const FakeEyes eyes = machine();
    GateSession with = session(eyes);
    change(policy, with);
    const auto gate = PermissionGate::create(with, policy, PermissionMode::kStrict);
    return gate ? std::string("taken") : gate.error().field;
  };
  using P = GatePolicy;
  using S = GateSession;
  CHECK(made([](P&, S&) {}) == "taken");
  CHECK(made([](P&, S& s) { s.tree = "/home/u"; }) == "tree");
  CHECK(made([](P&, S& s) { s.tree = "/"; }) == "tree");
  CHECK(made([](P&, S& s) { s.tree = "proj"; }) == "tree");
  CHECK(made([](P&, S& s) { s.home = "home"; }) == "home");
  CHECK(made([](P&, S& s) { s.state_dirs = {"x"}; }) == "state_dirs[0]");
  CHECK(made([](P& p, S&) { p.roots = {{"/home", RootAccess::kReadOnly}}; }) == "roots[0]");
  CHECK(made([](P& p, S&) { p.roots = {{"/a/../b", RootAccess::kReadOnly}}; }) == "roots[0]");
  CHECK(made([](P& p, S&) {
          p.roots = {{"/srv/x", RootAccess::kReadOnly},
                     {"/home/u/.local/state/sandboxkit", RootAccess::kReadWrite}};
        }) == "roots[1]");
  CHECK(made([](P& p, S&) { p.denials = {{"/x/", {Op::kRead}, "t"}}; }) == "denials[0]");
  CHECK(made([](P& p, S&) { p.denials = {{"/x", {}, "t"}}; }) == "denials[0]");
  CHECK(made([](P& p, S&) { p.denials = {{"/home", {Op::kRead}, "t"}}; }) == "denials[0]");
  CHECK(made([](P& p, S&) { p.exceptions = {{".env", {Op::kRead}, "t"}}; }) == "exceptions[0]");
  CHECK(made([](P& p, S&) { p.exceptions = {{"~/x", {}, "t"}}; }) == "exceptions[0]");
  CHECK(made([](P& p, S&) { p.exclusions = {{"/a//b", {Op::kRead}, "t"}}; }) == "exclusions[0]");
}

TEST_CASE("the owner's denials, roots and exclusions count like the shipped ones") {
  Question with;
  with.policy.denials.push_back({"/srv/data/secret", {Op::kRead}, "policy.json: deny[0]"});
  with.policy.roots = {{"/srv/data", RootAccess::kReadOnly}};
  with.policy.exclusions.push_back({"${tree}/docs", {Op::kWrite}, "policy.json: exclude[0]"});
  with.item = item(Op::kRead, "/srv/data/SECRET/x");
  const auto denied = decide(with);
  CHECK(told(denied) == "deny mandatory_denial denied");
  CHECK(denied.decisive.source == "policy.json: deny[0]");
  with.item = item(Op::kRead, "/srv/data/x.csv");
  CHECK(told(decide(with)) == "allow work_tree in_root");
  with.item = item(Op::kWrite, "/srv/data/x.csv");
  CHECK(told(decide(with)) == "ask ask not_granted");
  with.item = item(Op::kDelete, "/srv");
  CHECK(told(decide(with)) == "deny mandatory_denial contains_denied");
  with.item = item(Op::kWrite, "docs/x.md");
  CHECK(told(decide(with)) == "ask ask not_granted");
}

TEST_CASE("a box runs what is found by its name, and by its path what may be read") {
  Question with;
  with.eyes.file("/home/u/.tools/bin/lint").mode = 0755;
  auto asked = session(with.eyes);
  asked.program_dirs = {"/home/u/.tools/bin"};
  const auto gate = PermissionGate::create(asked, GatePolicy::shipped(), PermissionMode::kPrompt);
  REQUIRE(gate.has_value());
  const auto says = [&](const std::string& text) {
    return told(gate->decide({.cwd = kTree, .items = {command(text)}}, {}, with.eyes, kNow));
  };
  CHECK(says("lint src") == "allow work_tree in_root");
  CHECK(says("/home/u/.tools/bin/lint src") == "ask ask not_granted");
  CHECK(says("./git status") == "allow work_tree in_root");
}

TEST_CASE("programs that are looked for cannot be replaced where they are found") {
  Question with;
  with.permanent = {permanent(with.eyes, {.operations = {Op::kWrite}, .target = "/usr/bin/git"})};
  with.item = item(Op::kWrite, "/usr/bin/git");
  CHECK(told(decide(with)) == "deny mandatory_denial denied");
}

TEST_CASE("a decision can be told in a sentence, and one made by default is a denial") {
  CHECK(explain(decide({item(Op::kRead, "/home/u/.ssh/id_rsa")})) ==
        "deny: read of `/home/u/.ssh/id_rsa` by mandatory_denial `~/.ssh` (shipped), denied.");
  CHECK(explain(decide({item(Op::kRead, "/srv/a\x1b[2J\nb")})).find('\n') == std::string::npos);
  CHECK(GateDecision{}.answer == GateAnswer::kDeny);
  CHECK(GateItemDecision{}.answer == GateAnswer::kDeny);
  CHECK(told(decide({}, {GateItem{}})) == "deny hardlock malformed");
}

TEST_CASE("operations and modes have names that read back") {
  for (int i = 0; i < static_cast<int>(Op::kUnknown); ++i) {
    const auto read = gate_operation_from(name_of(static_cast<Op>(i)));
    REQUIRE(read.has_value());
    CHECK(*read == static_cast<Op>(i));
  }
  CHECK_FALSE(gate_operation_from("unknown").has_value());
  CHECK_FALSE(gate_operation_from("READ").has_value());
  CHECK(*permission_mode_from("strict") == PermissionMode::kStrict);
  CHECK(permission_mode_from("on").error().field == "mode");
}

TEST_CASE("an owner's exception lifts no hardlock") {
  Question with;
  with.policy.exceptions.push_back({.pattern = "/home/u/.local/state/sandboxkit/**",
                                    .operations = {Op::kRead},
                                    .source = "policy.json: except[0]"});
  with.item = item(Op::kRead, "/home/u/.local/state/sandboxkit/gate/grants.json");
  CHECK(told(decide(with)) == "deny hardlock denied");
}
