#include "sandboxkit/gate.h"

#include <functional>
#include <map>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

using Op = GateOperation;
using Ops = std::set<GateOperation>;

/// A file system of a few names; what is not in it does not exist.
class FakeEyes final : public FileEyes {
 public:
  std::map<std::string, SeenPath> names{};
  bool blind = false;

  Result<SeenPath> look(const std::string& cwd, const std::string& path) const override {
    if (blind) {
      return Error{ErrorCode::kUnavailable, "it changed while we looked"};
    }
    const std::string absolute = path.starts_with('/') ? path : cwd + "/" + path;
    const auto found = names.find(absolute);
    return found != names.end() ? found->second : SeenPath{.canonical = absolute};
  }
};

constexpr WallTime kNow{std::chrono::milliseconds{1'000'000}};
constexpr WallTime kLater{std::chrono::milliseconds{2'000'000}};

GatePolicy policy() {
  GatePolicy policy;
  policy.denials = {GateRule{"/home/u/.ssh", Ops{Op::kRead, Op::kWrite, Op::kCreate, Op::kDelete},
                             FileIdentity{1, 77}, "policy.json:3"},
                    GateRule{"/home/u/proj/.git/hooks", Ops{Op::kWrite, Op::kCreate, Op::kDelete},
                             std::nullopt, "policy.json:4"}};
  policy.roots = {GateRoot{"/home/u/proj", RootAccess::kReadWrite},
                  GateRoot{"/usr", RootAccess::kReadOnly}};
  policy.exclusions = {"/home/u/proj/.github/workflows"};
  return policy;
}

PermissionGate gate(PermissionMode mode, GatePolicy with = policy()) {
  auto made = PermissionGate::create(
      {.state_dir = "/home/u/.local/state/sandboxkit", .install_dirs = {"/usr/lib/sandboxkit"}},
      std::move(with), mode);
  REQUIRE_MESSAGE(made.has_value(), made.error().message);
  return std::move(*made);
}

GateGrant grant(const std::string& id, const std::string& path, Ops operations) {
  return GateGrant{.id = id,
                   .rule = GateRule{path, std::move(operations), std::nullopt, "grants.json"},
                   .agent = "a",
                   .expires = kLater};
}

GateRequest request(std::vector<GateItem> items) {
  return GateRequest{.cwd = "/home/u/proj", .items = std::move(items), .agent = "a"};
}

GateDecision decide(const GateItem& item, const GateGrants& grants = {},
                    PermissionMode mode = PermissionMode::kPrompt) {
  return gate(mode).decide(request({item}), grants, FakeEyes{}, kNow);
}

}  // namespace

TEST_CASE("the branches speak in the order of the document") {
  struct Row {
    GateItem item;
    GateAnswer answer;
    GateBranch branch;
  };
  GateGrants grants;
  // The permanent grant covers all, so that whatever comes before it must speak first.
  grants.permanent = {grant("g_1", "/home/u", Ops{Op::kRead, Op::kWrite, Op::kUnix})};
  grants.session = {grant("g_2", "/", Ops{Op::kRead, Op::kUnix}),
                    grant("g_3", "LD_PRELOAD", Ops{Op::kEnv}), grant("g_4", "LANG", Ops{Op::kEnv})};
  const std::vector<Row> rows = {
      {{Op::kRead, "/home/u/.local/state/sandboxkit/grants.json"},
       GateAnswer::kDeny,
       GateBranch::kHardlock},
      {{Op::kUnix, "/var/run/docker.sock"}, GateAnswer::kDeny, GateBranch::kHardlock},
      {{Op::kEnv, "LD_PRELOAD"}, GateAnswer::kDeny, GateBranch::kHardlock},
      {{Op::kPtrace, "1"}, GateAnswer::kDeny, GateBranch::kHardlock},
      {{Op::kRead, "/home/u/.ssh/id_ed25519"}, GateAnswer::kDeny, GateBranch::kMandatoryDenial},
      {{Op::kWrite, "/home/u/proj/.git/hooks/pre-commit"},
       GateAnswer::kDeny,
       GateBranch::kMandatoryDenial},
      {{Op::kWrite, "/home/u/proj/main.c"}, GateAnswer::kAllow, GateBranch::kWorkTree},
      {{Op::kRead, "/home/u/proj/.git/hooks/pre-commit"},
       GateAnswer::kAllow,
       GateBranch::kWorkTree},
      {{Op::kWrite, "/home/u/proj/.github/workflows/ci.yml"},
       GateAnswer::kAllow,
       GateBranch::kPermanentGrant},
      {{Op::kRead, "/home/u/notes.txt"}, GateAnswer::kAllow, GateBranch::kPermanentGrant},
      {{Op::kRead, "/srv/data"}, GateAnswer::kAllow, GateBranch::kSessionGrant},
      {{Op::kEnv, "LANG"}, GateAnswer::kAllow, GateBranch::kSessionGrant},
      {{Op::kWrite, "/srv/data"}, GateAnswer::kAsk, GateBranch::kAsk},
      {{Op::kConnect, "example.org:443"}, GateAnswer::kAsk, GateBranch::kAsk},
  };
  for (const Row& row : rows) {
    CAPTURE(name_of(row.item.operation));
    CAPTURE(row.item.target);
    const GateDecision decision = decide(row.item, grants);
    CHECK(decision.answer == row.answer);
    CHECK(decision.decisive.branch == row.branch);
    CHECK(decision.judged);
  }
}

TEST_CASE("strict denies what prompt asks, and nothing else differs") {
  for (const char* path : {"/home/u/.ssh/x", "/home/u/proj/x", "/srv/data"}) {
    CAPTURE(std::string(path));
    const auto prompt = decide({Op::kRead, path});
    const auto strict = decide({Op::kRead, path}, {}, PermissionMode::kStrict);
    CHECK(strict.decisive.branch == prompt.decisive.branch);
    CHECK(strict.answer == (prompt.answer == GateAnswer::kAsk ? GateAnswer::kDeny : prompt.answer));
  }
}

TEST_CASE("off judges nothing and says so") {
  const auto decision = decide({Op::kRead, "/home/u/.ssh/x"}, {}, PermissionMode::kOff);
  CHECK(decision.answer == GateAnswer::kAllow);
  CHECK_FALSE(decision.judged);
  CHECK(decision.decisive.reason == "mode_off");
}

TEST_CASE("the strictest item decides and every item is judged") {
  const auto decision = gate(PermissionMode::kPrompt)
                            .decide(request({{Op::kRead, "main.c"},
                                             {Op::kRead, "/home/u/.ssh/id"},
                                             {Op::kRead, "/srv/x"}}),
                                    {}, FakeEyes{}, kNow);
  CHECK(decision.answer == GateAnswer::kDeny);
  REQUIRE(decision.items.size() == 3);
  CHECK(decision.items[0].answer == GateAnswer::kAllow);
  CHECK(decision.items[2].answer == GateAnswer::kAsk);
  CHECK(decision.decisive.canonical == "/home/u/.ssh/id");
}

TEST_CASE("a denied object is denied under every name of it") {
  FakeEyes eyes;
  eyes.names["/home/u/proj/key"] = {.canonical = "/home/u/.ssh/id", .links = {"/home/u/proj/key"}};
  eyes.names["/home/u/proj/hard"] = {.canonical = "/home/u/proj/hard",
                                     .identity = FileIdentity{1, 77}};
  eyes.names["/home/u/.ssh/away"] = {.canonical = "/home/u/proj/x", .links = {"/home/u/.ssh/away"}};
  eyes.names["/home/u/proj/../.ssh/id"] = {.canonical = "/home/u/.ssh/id"};
  for (const char* path : {"key", "hard", "/home/u/.ssh/away", "/home/u/.SSH/id", "../.ssh/id"}) {
    CAPTURE(std::string(path));
    const auto decision =
        gate(PermissionMode::kPrompt).decide(request({{Op::kRead, path}}), {}, eyes, kNow);
    CHECK(decision.answer == GateAnswer::kDeny);
    CHECK(decision.decisive.branch == GateBranch::kMandatoryDenial);
  }
}

TEST_CASE("a name that only begins like a protected one is not protected") {
  CHECK(decide({Op::kRead, "/home/u/.sshx"}).decisive.branch == GateBranch::kAsk);
}

TEST_CASE("a directory that holds something protected cannot be deleted or renamed away") {
  for (const GateItem& item : {GateItem{Op::kDelete, "/home/u/proj/.git"},
                               GateItem{Op::kRename, "/home/u/proj/.git", "/home/u/proj/old"}}) {
    const auto decision = decide(item);
    CHECK(decision.answer == GateAnswer::kDeny);
    CHECK(decision.decisive.reason == "contains_denied");
  }
}

TEST_CASE("a rename into a protected place and a hard link of a protected file are denied") {
  CHECK(decide({Op::kRename, "x", "/home/u/proj/.git/hooks/pre-commit"}).answer ==
        GateAnswer::kDeny);
  CHECK(decide({Op::kLink, "/home/u/.ssh/id", "/home/u/proj/id"}).answer == GateAnswer::kDeny);
}

TEST_CASE("a read-only root allows reading alone") {
  CHECK(decide({Op::kRead, "/usr/bin/cc"}).answer == GateAnswer::kAllow);
  CHECK(decide({Op::kWrite, "/usr/bin/cc"}).answer == GateAnswer::kAsk);
}

TEST_CASE("an exec is a matter of course only in an active box") {
  const GateItem item{Op::kExec, "/usr/bin/cc", "", {"cc", "main.c"}};
  CHECK(decide(item).answer == GateAnswer::kAsk);
  GatePolicy boxed = policy();
  boxed.box_is_active = true;
  CHECK(gate(PermissionMode::kPrompt, boxed)
            .decide(request({item}), {}, FakeEyes{}, kNow)
            .decisive.branch == GateBranch::kWorkTree);
}

TEST_CASE("a grant that has expired or was given to another agent does not count") {
  GateGrants grants;
  grants.permanent = {grant("g_1", "/srv", Ops{Op::kRead})};
  CHECK(decide({Op::kRead, "/srv/x"}, grants).answer == GateAnswer::kAllow);
  grants.permanent[0].expires = kNow;
  CHECK(decide({Op::kRead, "/srv/x"}, grants).answer == GateAnswer::kAsk);
  grants.permanent[0].expires = kLater;
  grants.permanent[0].agent = "b";
  CHECK(decide({Op::kRead, "/srv/x"}, grants).answer == GateAnswer::kAsk);
}

TEST_CASE("what cannot be read or seen is denied") {
  CHECK(decide({Op::kRead, ""}).decisive.reason == "malformed");
  CHECK(decide({Op::kRead, std::string("a\0b", 3)}).decisive.reason == "malformed");
  CHECK(decide({Op::kRead, std::string(4097, 'a')}).decisive.reason == "malformed");
  CHECK(decide({Op::kExec, "/usr/bin/cc"}).decisive.reason == "malformed");
  CHECK(decide({Op::kRename, "a"}).decisive.reason == "malformed");
  CHECK(gate(PermissionMode::kPrompt).decide(request({}), {}, FakeEyes{}, kNow).answer ==
        GateAnswer::kDeny);
  FakeEyes blind;
  blind.blind = true;
  const auto decision =
      gate(PermissionMode::kPrompt).decide(request({{Op::kRead, "a"}}), {}, blind, kNow);
  CHECK(decision.answer == GateAnswer::kDeny);
  CHECK(decision.decisive.reason == "cannot_see");
}

TEST_CASE("a policy that would open the gate's own state is refused") {
  const GateSelf self{.state_dir = "/home/u/.local/state/sandboxkit"};
  const auto made = [&](const std::function<void(GatePolicy&)>& change) {
    GatePolicy changed;
    change(changed);
    const auto gate = PermissionGate::create(self, changed, PermissionMode::kStrict);
    return gate ? std::string("taken") : gate.error().field;
  };
  CHECK(made([](auto& p) { p.roots = {{"/home/u", RootAccess::kReadWrite}}; }) == "roots[0]");
  CHECK(made([](auto& p) { p.roots = {{"proj", RootAccess::kReadOnly}}; }) == "roots[0]");
  CHECK(made([](auto& p) { p.roots = {{"/a/../b", RootAccess::kReadOnly}}; }) == "roots[0]");
  CHECK(made([](auto& p) { p.denials = {GateRule{"/x", {}}}; }) == "denials[0]");
  CHECK(made([](auto& p) { p.roots = {{"/home/u/proj", RootAccess::kReadWrite}}; }) == "taken");
}

TEST_CASE("a decision can be told in a sentence, and one made by default is a denial") {
  CHECK(explain(decide({Op::kRead, "/home/u/.ssh/id"})) ==
        "deny: read of `/home/u/.ssh/id` by mandatory_denial `/home/u/.ssh` (policy.json:3), "
        "denied.");
  CHECK(GateDecision{}.answer == GateAnswer::kDeny);
  CHECK(GateItemDecision{}.answer == GateAnswer::kDeny);
}

TEST_CASE("operations and modes have names that read back") {
  for (int i = 0; i <= static_cast<int>(Op::kDevice); ++i) {
    const auto read = gate_operation_from(name_of(static_cast<Op>(i)));
    REQUIRE(read.has_value());
    CHECK(*read == static_cast<Op>(i));
  }
  CHECK_FALSE(gate_operation_from("READ").has_value());
  CHECK(*permission_mode_from("strict") == PermissionMode::kStrict);
  CHECK(permission_mode_from("on").error().field == "mode");
}
