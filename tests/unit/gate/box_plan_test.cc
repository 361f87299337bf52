#include "sandboxkit/box_plan.h"

#include "gate/box_view.h"
#include "tests/unit/gate/world.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;             // NOLINT(google-build-using-namespace)
using namespace sandboxkit::gate_test;  // NOLINT(google-build-using-namespace)

namespace {

Result<BoxPlan> planned(const Question& with, const BoxChoices& choices = {}) {
  const PermissionGate gate = gate_of(with);
  const auto grants = gate.compile(with.permanent, with.granted);
  REQUIRE_MESSAGE(grants.has_value(), grants.error().message);
  return gate.plan_box(*grants, with.eyes, kNow, choices);
}

BoxPlan plan_of(const Question& with, const BoxChoices& choices = {}) {
  auto plan = planned(with, choices);
  REQUIRE_MESSAGE(plan.has_value(), plan.error().message);
  return std::move(*plan);
}

/// `read_write`, or "" where no place has the path.
std::string at(const BoxPlan& plan, const std::string& path) {
  const auto found = std::ranges::find(plan.places, path, &BoxPlace::path);
  return found == plan.places.end() ? "" : name_of(found->access);
}

const Ops kAllOps = {Op::kRead,   Op::kList, Op::kStat,   Op::kWrite, Op::kCreate,
                     Op::kDelete, Op::kMeta, Op::kRename, Op::kLink,  Op::kSymlink};

}  // namespace

TEST_CASE("the tree can be changed, but for what is denied in it") {
  Question with;
  with.eyes.file("/home/u/proj/.vscode/settings.json");
  with.eyes.file("/home/u/proj/deep/er/x.pem");
  with.eyes.directory("/var/lib");
  with.eyes.file("/nix/store/x");
  with.eyes.file("/sys/devices/system/cpu/online");
  const BoxPlan plan = plan_of(with);
  const std::map<std::string, std::string> expected = {
      {"/home/u/proj", "read_write"},
      {"/home/u/proj/.env", "hide"},
      {"/home/u/proj/.env.example", ""},
      {"/home/u/proj/.vscode", "read_only"},
      {"/home/u/proj/.vscode/settings.json", ""},
      {"/home/u/proj/deep/er/x.pem", "hide"},
      // A directory above what is protected stays where it is.
      {"/home/u/proj/deep/er", "pin"},
      {"/home/u/proj/deep", "pin"},
      {"/home/u/proj/src", ""},
      {"/home/u/proj/.git", "pin"},
      {"/home/u/proj/.git/hooks", "read_only"},
      {"/home/u/proj/.git/config", "read_only"},
      {"/home/u/proj/.git/index", ""},
      // A repository in the repository.
      {"/home/u/proj/sub", "pin"},
      {"/home/u/proj/sub/.git", "pin"},
      {"/home/u/proj/sub/.git/hooks", "read_only"},
      // Names that are not there, in the tree and in the repositories.
      {"/home/u/proj/.mcp.json", "absent"},
      {"/home/u/proj/.bashrc", "absent"},
      {"/home/u/proj/src/.mcp.json", ""},
      {"/home/u/proj/sub/.git/config.worktree", "absent"},
      // An empty file of this name would break git.
      {"/home/u/proj/.git/commondir", ""},
      // Hidden as a whole by where they lie.
      {"/home/u/.ssh", ""},
      {"/etc/shadow", "hide"},
      {"/srv", "hide"},
      {"/var", "hide"},
      {"/usr", ""},
      // What every program reads, in what is hidden.
      {"/nix", "hide"},
      {"/nix/store", "read_only"},
      {"/sys", "hide"},
      {"/sys/devices/system/cpu", "read_only"},
  };
  for (const auto& row : expected) {
    CAPTURE(row.first);
    CHECK(at(plan, row.first) == row.second);
  }
  CHECK(std::ranges::is_sorted(plan.places, {}, &BoxPlace::path));
}

TEST_CASE("every place but an absent one tells the object that was judged") {
  Question with;
  const BoxPlan plan = plan_of(with);
  for (const BoxPlace& place : plan.places) {
    CAPTURE(place.path);
    const bool is_absent = place.access == BoxAccess::kAbsent;
    CHECK((place.identity == FileIdentity{}) == is_absent);
    if (!is_absent) {
      CHECK(place.identity == with.eyes.identity(place.path));
    }
  }
}

TEST_CASE("another name of a protected file is protected like it") {
  Question with;
  with.eyes.hard_link("/home/u/.bashrc", "/home/u/proj/hl");
  with.eyes.hard_link("/home/u/.ssh/id_rsa", "/home/u/proj/src/key");
  const BoxPlan plan = plan_of(with);
  CHECK(at(plan, "/home/u/proj/hl") == "read_only");
  CHECK(at(plan, "/home/u/proj/src/key") == "hide");
  CHECK(at(plan, "/home/u/proj/src") == "pin");
}

TEST_CASE("a bare repository is protected by its shape") {
  Question with;
  for (const char* path : {"HEAD", "objects/x", "refs/x", "config"}) {
    with.eyes.file(std::string("/home/u/proj/m/") + path);
  }
  for (const char* path : {"HEAD", "objects/x", "config"}) {
    with.eyes.file(std::string("/home/u/proj/half/") + path);
  }
  const BoxPlan plan = plan_of(with);
  CHECK(at(plan, "/home/u/proj/m/config") == "read_only");
  CHECK(at(plan, "/home/u/proj/m/hooks") == "absent");
  CHECK(at(plan, "/home/u/proj/m") == "pin");
  // What would make a repository of it.
  CHECK(at(plan, "/home/u/proj/half/refs") == "absent");
}

TEST_CASE("a link of a protected name is a place by itself") {
  Question with;
  with.eyes.link("/home/u/proj/.vscode", "src");
  with.eyes.link("/home/u/proj/plain", "src");
  const BoxPlan plan = plan_of(with);
  CHECK(at(plan, "/home/u/proj/.vscode") == "read_only");
  const auto place = std::ranges::find(plan.places, "/home/u/proj/.vscode", &BoxPlace::path);
  REQUIRE(place != plan.places.end());
  CHECK(place->type == FileType::kLink);
  CHECK(at(plan, "/home/u/proj/plain").empty());
}

TEST_CASE("grants that count are places, and no others") {
  Question with;
  with.eyes.file("/srv/data/secret.key");
  with.eyes.file("/srv/late/x");
  with.eyes.file("/srv/drop/x");
  with.permanent = {permanent(with.eyes, {.operations = {Op::kRead}, .target = "/srv/data/**"}),
                    permanent(with.eyes, {.operations = {Op::kRead}, .target = "/srv/late"}),
                    permanent(with.eyes, {.operations = kAllOps, .target = "~/.ssh/**"})};
  with.permanent[1].expires = kNow;
  with.granted = {for_session({.operations = kAllOps, .target = "/srv/drop"}),
                  for_session({.operations = {Op::kWrite}, .target = "/srv/x"})};
  const BoxPlan plan = plan_of(with);
  CHECK(at(plan, "/srv/data") == "read_only");
  CHECK(at(plan, "/srv/data/secret.key") == "hide");
  CHECK(at(plan, "/srv/late").empty());
  CHECK(at(plan, "/srv/drop") == "read_write");
  CHECK(at(plan, "/srv/drop/.mcp.json") == "absent");
  // To write in a directory is less than to change it.
  CHECK(at(plan, "/srv/x").empty());
  CHECK(at(plan, "/home/u/.ssh").empty());
}

TEST_CASE("what is asked for is denied, and a grant opens it again") {
  Question with;
  with.eyes.file("/home/u/proj/.github/workflows/ci.yml");
  const std::string file = "/home/u/proj/.github/workflows/ci.yml";
  CHECK(at(plan_of(with), "/home/u/proj/.github/workflows") == "read_only");
  with.granted = {for_session({.operations = kAllOps, .target = file})};
  const BoxPlan plan = plan_of(with);
  CHECK(at(plan, file) == "read_write");
  CHECK(at(plan, "/home/u/proj/.github/workflows") == "read_only");
}

TEST_CASE("a socket is there when it was granted, and hidden else") {
  Question with;
  with.eyes.file("/home/u/proj/a.sock").type = FileType::kSocket;
  with.eyes.file("/run/agent.sock").type = FileType::kSocket;
  with.eyes.file("/run/docker.sock").type = FileType::kSocket;
  CHECK(plan_of(with).sockets.empty());
  CHECK(at(plan_of(with), "/home/u/proj/a.sock").empty());
  for (const char* path : {"/run/agent.sock", "/run/docker.sock"}) {
    with.granted.push_back(for_session({.operations = {Op::kUnix}, .target = path}));
  }
  const BoxPlan plan = plan_of(with);
  CHECK(plan.sockets == std::vector<std::string>{"/run/agent.sock"});
  CHECK(at(plan, "/home/u/proj/a.sock") == "hide");
}

TEST_CASE("variables and addresses are those that the gate lets pass") {
  Question with;
  const std::vector<std::string> domains = {"example.org"};
  with.policy.egress = *EgressPolicy::create(domains, {});
  with.granted = {for_session({.operations = {Op::kConnect}, .target = "git.example.net:22"}),
                  for_session({.operations = {Op::kConnect}, .target = "10.0.0.7:5432"}),
                  for_session({.operations = {Op::kConnect}, .target = "169.254.169.254:80"}),
                  for_session({.operations = {Op::kEnv}, .target = "EDITOR"})};
  const BoxPlan plan =
      plan_of(with, {.host_variables = {"LANG", "EDITOR", "NPM_TOKEN", "LD_PRELOAD", "PATH"}});
  CHECK(plan.variables == std::vector<std::string>{"EDITOR", "LANG"});
  REQUIRE(plan.egress.has_value());
  CHECK(plan.egress->allowed_domains() ==
        std::vector<std::string>{"example.org", "git.example.net:22"});
  CHECK(plan.egress->allowed_networks() == std::vector<std::string>{"10.0.0.7/32:5432"});
}

TEST_CASE("a look that is not complete is no plan") {
  Question with;
  with.eyes.closed.insert("/home/u/proj");
  const auto plan = planned(with);
  REQUIRE(!plan.has_value());
  CHECK(plan.error().message.find("whole look") != std::string::npos);
}

TEST_CASE("a tree that was replaced, a session without a box and a gate that is off have no plan") {
  Question replaced;
  auto gate = gate_of(replaced);
  replaced.eyes.directory("/home/u/proj");
  const auto plan = gate.plan_box({}, replaced.eyes, kNow, {});
  REQUIRE(!plan.has_value());
  CHECK(plan.error().reason == "tree_replaced");
  Question unboxed;
  unboxed.box = false;
  CHECK(planned(unboxed).error().reason == "no_box");
  Question off;
  off.mode = PermissionMode::kOff;
  CHECK(planned(off).error().reason == "mode_off");
}

TEST_CASE("what is made by review or sweep is told with its exceptions") {
  const BoxPlan plan = plan_of({});
  const auto rule = std::ranges::find(plan.names, ".env.*", &BoxNameRule::pattern);
  REQUIRE(rule != plan.names.end());
  CHECK(rule->access == BoxAccess::kHide);
  const Question with;
  const gate::BoxView view(plan, with.eyes);
  CHECK(view.name_rule("/home/u/proj/new/.env.local", false) != nullptr);
  CHECK(view.name_rule("/home/u/proj/new/.env.example", false) == nullptr);
  CHECK(view.name_rule("/home/u/proj/new/.GIT/hooks/x", false) != nullptr);
  CHECK(view.name_rule("/home/u/proj/new/.git", true) == nullptr);
  CHECK(view.name_rule("/home/u/proj/new/AGENTS.md", false)->branch == GateBranch::kAsk);
}

TEST_CASE("a plan of too many places is refused") {
  Question with;
  for (std::size_t i = 0; i <= PermissionGate::kMaxPlaces; ++i) {
    with.eyes.file("/home/u/proj/keys/" + std::to_string(i) + ".pem");
  }
  const auto plan = planned(with);
  REQUIRE(!plan.has_value());
  CHECK(plan.error().code == ErrorCode::kTooLarge);
}
