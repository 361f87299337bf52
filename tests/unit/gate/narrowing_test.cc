// Indexes and kept objects make a decision faster and no other: compared with the plain scan of
// every rule and grant.

#include "gate/grants.h"
#include "gate/path_index.h"
#include "gate/plain_scan.h"
#include "tests/unit/gate/world.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;             // NOLINT(google-build-using-namespace)
using namespace sandboxkit::gate_test;  // NOLINT(google-build-using-namespace)

namespace {

/// The same answers as other eyes, each asked for once: thousands of decisions are compared.
class MemoEyes final : public FileEyes {
 public:
  explicit MemoEyes(const FileEyes& eyes) : eyes_(eyes) {}
  Result<SeenPath> look(const LookAt& at) const override {
    const auto key = std::tuple(at.cwd, at.path, at.last);
    auto found = seen_.find(key);
    if (found == seen_.end()) {
      found = seen_.emplace(key, eyes_.look(at)).first;
    }
    return found->second;
  }
  Status walk(const WalkFrom& from, const WalkVisitor& visit) const override {
    return eyes_.walk(from, visit);
  }

 private:
  const FileEyes& eyes_;
  mutable std::map<std::tuple<std::string, std::string, LastLink>, Result<SeenPath>> seen_{};
};

/// Everything that a decision says.
std::string all_of(const GateDecision& decision) {
  std::string text = explain(decision);
  for (const GateItemDecision& item : decision.items) {
    GateDecision one;
    one.decisive = item;
    text += "\n" + explain(one);
  }
  return text;
}

FakeEyes crowded_machine() {
  FakeEyes eyes = machine();
  eyes.link(kTree + "/link", "/home/u/.ssh/id_rsa");
  eyes.link(kTree + "/linkdir", "/srv/x");
  eyes.link(kTree + "/in", "src/a.c");
  eyes.link("/home/u/.zshrc", "dotfiles/zshrc");
  eyes.file("/home/u/dotfiles/zshrc");
  eyes.hard_link("/home/u/.bashrc", kTree + "/hl");
  eyes.mount("/home/u/.aws", kTree + "/bound");
  eyes.file(kTree + "/bare/HEAD");
  eyes.directory(kTree + "/bare/objects");
  eyes.directory(kTree + "/bare/refs");
  return eyes;
}

const std::vector<std::string> kPaths = {"src/a.c",
                                         "new/dir/f",
                                         ".",
                                         "..",
                                         "link",
                                         "linkdir/f",
                                         "in",
                                         "hl",
                                         "bound/credentials",
                                         "bare/config",
                                         "bare/hooks/x",
                                         ".git",
                                         ".git/config",
                                         ".git/index",
                                         ".GIT/Hooks/x",
                                         "sub",
                                         "sub/.git/hooks/x",
                                         ".env",
                                         ".env.example",
                                         "deep/er/server.PEM",
                                         ".mcp.json",
                                         ".VSCode/x",
                                         ".\uff47it/hooks/x",
                                         ".github/workflows/ci.yml",
                                         "AGENTS.md",
                                         "docs/a/x.md",
                                         "keys/id_rsa_old",
                                         "/srv/data/x.csv",
                                         "/srv/data/set7/y",
                                         "/srv/x",
                                         "/srv/any/where/out.log",
                                         "/srv",
                                         "/home/u/.ssh/known_hosts",
                                         "/home/u/.bash_history",
                                         "/home/u/dotfiles/zshrc",
                                         "/home/u/x.kdbx",
                                         "/etc/shadow",
                                         "/usr/include/stdio.h",
                                         "/usr/bin/git",
                                         "/var/run/docker.sock",
                                         "/proc/1/environ",
                                         "/home/u/.local/state/sandboxkit/gate/grants.json",
                                         "/",
                                         ""};

const std::vector<std::string> kCommands = {
    "git status",          "git log -3 --all",  "git",
    "ls -l && git status", "cat ~/.ssh/id_rsa", "sudo ls",
    "LD_PRELOAD=x ls",     "bash -c 'git log'", "ls > /srv/data/out",
    "echo $(id)",          "./git status"};

const std::vector<std::string> kOthers = {
    "LANG", "EDITOR", "AWS_KEY", "x.com:443", "169.254.169.254:80", "127.0.0.1:3000"};

GatePolicy owners_policy() {
  GatePolicy policy = GatePolicy::shipped();
  const Ops all{Op::kRead, Op::kWrite, Op::kCreate, Op::kDelete, Op::kList};
  policy.denials.push_back({"/srv/**/out.log", all, "p: deny[0]"});
  policy.denials.push_back({"/srv/*/set7", all, "p: deny[1]"});
  policy.denials.push_back({"${tree}/do?s/**/*.md", {Op::kWrite}, "p: deny[2]"});
  policy.exceptions.push_back({"~/.ssh/known_hosts", {Op::kRead}, "p: except[0]"});
  policy.exceptions.push_back({"${tree}/.env", {Op::kRead, Op::kWrite}, "p: except[1]"});
  policy.exclusions.push_back({"/**/src", {Op::kWrite}, "p: exclude[0]"});
  policy.roots = {{"/srv/x", RootAccess::kReadOnly}};
  return policy;
}

/// Grants of every kind, and beside those that count others that do not any more.
void add_grants(Question& with) {
  const auto add = [&](GrantedUse use, const auto& change) {
    PermanentGrant grant = permanent(with.eyes, use);
    grant.id = "g_" + std::to_string(with.permanent.size());
    change(grant);
    with.permanent.push_back(grant);
    SessionGrant own = for_session(std::move(use));
    own.id = "s_" + std::to_string(with.granted.size());
    if (with.granted.size() % 2 == 0) {
      with.granted.push_back(own);
    }
  };
  const auto as_it_is = [](PermanentGrant&) {};
  const auto over = [](PermanentGrant& grant) { grant.expires = kNow; };
  const auto stale = [](PermanentGrant& grant) { grant.tree_identity.inode += 1; };
  const auto others = [](PermanentGrant& grant) { grant.agent = "aider"; };
  for (const auto& change :
       {std::function<void(PermanentGrant&)>(over), {stale}, {others}, {as_it_is}, {as_it_is}}) {
    add({.operations = {Op::kRead, Op::kList}, .target = "/srv/data/**"}, change);
    add({.operations = {Op::kWrite, Op::kCreate}, .target = "/srv/*/x.csv"}, change);
    add({.operations = {Op::kRead, Op::kRename}, .target = "/**/where"}, change);
    add({.operations = {Op::kRead, Op::kWrite}, .target = "${tree}/AGENTS.md"}, change);
    add({.operations = {Op::kExec}, .argv = {"git", "status"}}, change);
    add({.operations = {Op::kExec}, .argv = {"git", "log"}, .argv_is_prefix = true}, change);
    add({.operations = {Op::kEnv}, .target = "EDITOR"}, change);
    add({.operations = {Op::kConnect}, .target = "x.com:443"}, change);
    add({.operations = {Op::kUnix, Op::kRead}, .target = "/srv/x"}, change);
  }
}

std::vector<GateItem> every_item() {
  std::vector<GateItem> items;
  for (int i = 0; i <= static_cast<int>(Op::kUnknown); ++i) {
    const auto operation = static_cast<Op>(i);
    for (const std::string& path : kPaths) {
      const bool has_target = operation == Op::kRename || operation == Op::kLink;
      items.push_back(item(operation, path, has_target ? "src/moved" : ""));
      if (has_target) {
        items.push_back(item(operation, "src/a.c", path));
      }
    }
    for (const std::string& other : kOthers) {
      items.push_back(item(operation, other));
    }
  }
  for (const std::string& text : kCommands) {
    items.push_back(command(text));
  }
  return items;
}

/// Every decision of a gate by the three ways; returns how many were compared.
int compare(const Question& with, const std::vector<GateItem>& items) {
  const MemoEyes eyes(with.eyes);
  const PermissionGate gate = gate_of(with);
  const auto grants = gate.compile(with.permanent, with.granted);
  REQUIRE(grants.has_value());
  const ProtectedObjects objects = gate.look_at_protected(eyes);
  int compared = 0;
  for (const GateItem& asked : items) {
    const GateRequest request{.cwd = with.cwd, .items = {asked}};
    const auto plain = all_of(gate::PlainScan::decide(gate, request, *grants, eyes, kNow));
    REQUIRE(all_of(gate.decide(request, *grants, eyes, kNow)) == plain);
    REQUIRE(all_of(gate.decide(request, *grants, eyes, kNow, objects)) == plain);
    ++compared;
  }
  return compared;
}

}  // namespace

TEST_CASE("B23: narrowed and plain say the same of every operation, place, policy and grant") {
  const std::vector<GateItem> items = every_item();
  int compared = 0;
  for (const bool has_grants : {false, true}) {
    for (const bool box : {false, true}) {
      for (const bool owners : {false, true}) {
        Question with{.item = {}, .eyes = crowded_machine()};
        with.box = box;
        with.policy = owners ? owners_policy() : GatePolicy::shipped();
        if (has_grants) {
          add_grants(with);
        }
        compared += compare(with, items);
      }
    }
  }
  CHECK(compared == 8 * static_cast<int>(items.size()));
}

TEST_CASE("what grants allow in the compared worlds is not nothing") {
  Question with{.item = {}, .eyes = crowded_machine()};
  with.box = false;
  add_grants(with);
  int granted = 0;
  for (const GateItem& asked : every_item()) {
    const auto decision = decide(with, {asked});
    granted += decision.decisive.reason == "granted" ? 1 : 0;
  }
  CHECK(granted > 15);
}

TEST_CASE("an index passes over no pattern that matches, of all small ones") {
  const std::vector<std::string> parts = {"a", "b", "*", "**", "?", "b*", "*b", "[a-b]", "\\a"};
  std::vector<std::string> texts;
  std::vector<std::string> longer = {""};
  for (int depth = 0; depth < 3; ++depth) {
    std::vector<std::string> next;
    for (const std::string& before : longer) {
      for (const std::string& part : parts) {
        next.push_back(before + "/" + part);
      }
    }
    texts.insert(texts.end(), next.begin(), next.end());
    longer = std::move(next);
  }
  texts.insert(texts.end(), {"a", "b*", "*b", "ba", "[a-b]", "?"});
  for (const auto matching : {gate::Matching::kFolded, gate::Matching::kExact}) {
    gate::PathIndex index(matching);
    std::vector<gate::PathPattern> patterns;
    for (const std::string& text : texts) {
      if (auto pattern = gate::PathPattern::compile(text, {}, matching)) {
        index.add(*pattern, static_cast<std::uint32_t>(patterns.size()));
        patterns.push_back(std::move(*pattern));
      }
    }
    std::size_t passed_over = 0;
    for (const char* path : {"/", "/a", "/b", "/A", "/ba", "/ab", "/a/b", "/b/a", "/c", "/c/ba",
                             "/a/c/b", "/c/c/a", "/ba/ab/a/b", "/a/A/a"}) {
      const gate::PathName name(path);
      gate::Numbers found;
      index.find(name, found);
      gate::put_in_order(found);
      passed_over += patterns.size() - found.size();
      for (std::uint32_t i = 0; i < patterns.size(); ++i) {
        CAPTURE(patterns[i].text());
        REQUIRE((!patterns[i].matches(name) || std::ranges::binary_search(found, i)));
      }
    }
    CHECK(passed_over > patterns.size());
  }
}

TEST_CASE("a command's words are found by what follows the program, at any length") {
  std::vector<gate::Grant> grants;
  const auto add = [&](std::vector<std::string> words, bool is_prefix) {
    grants.push_back({.id = {}, .operations = gate::OperationMask({Op::kExec})});
    grants.back().use = {
        .operations = {Op::kExec}, .argv = std::move(words), .argv_is_prefix = is_prefix};
  };
  add({"git"}, false);
  add({"git"}, true);
  add({"git", "log"}, false);
  add({"git", "log"}, true);
  add({"git", "", ""}, true);
  const gate::GrantIndex index(grants);
  const auto found = [&](std::vector<std::string> words) {
    gate::Access access{.operation = Op::kExec, .asked = Op::kExec, .requested = {}};
    access.words = std::move(words);
    return index.find(access);
  };
  CHECK(found({"/usr/bin/git"}) == gate::Numbers{0, 1});
  CHECK(found({"git", "log"}) == gate::Numbers{1, 2, 3});
  CHECK(found({"git", "log", "-1"}) == gate::Numbers{1, 3});
  CHECK(found({"git", ""}) == gate::Numbers{1});
  CHECK(found({"git", "", "", ""}) == gate::Numbers{1, 4});
  CHECK(found({}).empty());
}

TEST_CASE("kept objects miss what came later under another name, and never a denied name") {
  Question with;
  const PermissionGate gate = gate_of(with);
  const ProtectedObjects before = gate.look_at_protected(with.eyes);
  with.eyes.file("/home/u/dotfiles/netrc");
  with.eyes.link("/home/u/.netrc", "dotfiles/netrc");
  const auto says = [&](const std::string& path, const ProtectedObjects& objects) {
    return told(gate.decide({.cwd = kTree, .items = {item(Op::kRead, path)}}, {}, with.eyes, kNow,
                            objects));
  };
  CHECK(says("/home/u/dotfiles/netrc", before) == "ask ask not_granted");
  CHECK(says("/home/u/.netrc", before) == "deny mandatory_denial denied");
  CHECK(says("/home/u/dotfiles/netrc", {}) == "deny mandatory_denial same_object");
  CHECK(says("/home/u/dotfiles/netrc", gate.look_at_protected(with.eyes)) ==
        "deny mandatory_denial same_object");
}

TEST_CASE("objects of another gate count as none, and are looked at anew") {
  Question with;
  with.eyes.mount("/home/u/.aws", kTree + "/bound");
  const PermissionGate gate = gate_of(with);
  Question other;
  other.policy.denials.clear();
  const ProtectedObjects objects = gate_of(other).look_at_protected(with.eyes);
  CHECK(told(gate.decide({.cwd = kTree, .items = {item(Op::kWrite, "bound/x")}}, {}, with.eyes,
                         kNow, objects)) == "deny mandatory_denial same_object");
}
