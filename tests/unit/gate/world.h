#pragma once

#include "sandboxkit/gate.h"

#include "tests/unit/gate/fake_eyes.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace sandboxkit::gate_test {

using Op = GateOperation;
using Ops = std::set<GateOperation>;

inline constexpr WallTime kNow{std::chrono::milliseconds{1'000'000}};
inline constexpr WallTime kLater{std::chrono::milliseconds{2'000'000}};
inline const std::string kHome = "/home/u";
inline const std::string kTree = "/home/u/proj";

/// The machine of the document's cases: a home with secrets, and a git repository with another
/// one inside.
inline FakeEyes machine() {
  FakeEyes eyes;
  for (const char* path :
       {"/home/u/.ssh/id_rsa", "/home/u/.ssh/known_hosts", "/home/u/.bashrc",
        "/home/u/.aws/credentials", "/home/u/proj/src/a.c", "/home/u/proj/a", "/home/u/proj/tmp",
        "/home/u/proj/.git/config", "/home/u/proj/.git/HEAD", "/home/u/proj/.git/index",
        "/home/u/proj/.git/config.lock", "/home/u/proj/sub/.git/config", "/home/u/proj/.env",
        "/home/u/proj/.env.example", "/srv/data/x.csv", "/etc/shadow", "/etc/hosts",
        "/usr/include/stdio.h", "/home/u/proj/git"}) {
    eyes.file(path);
  }
  for (const char* path :
       {"/home/u/proj/.git/hooks", "/home/u/proj/.git/objects", "/home/u/proj/.git/refs",
        "/home/u/proj/sub/.git/hooks", "/srv/x", "/home/u/.local/state/sandboxkit/gate"}) {
    eyes.directory(path);
  }
  for (const char* program : {"git", "rm", "ls", "cat", "find", "python3", "env", "timeout", "bash",
                              "sudo", "docker", "xargs", "curl", "tee", "echo"}) {
    eyes.file(std::string("/usr/bin/") + program).mode = 0755;
  }
  eyes.file("/usr/bin/passwd").mode = 04755;
  eyes.facts("/home/u/proj/git").mode = 0755;
  return eyes;
}

inline GateSession session(const FakeEyes& eyes, bool box = true) {
  return GateSession{.tree = kTree,
                     .tree_identity = eyes.identity(kTree),
                     .home = kHome,
                     .agent = "claude-code",
                     .session = "s_1",
                     .state_dirs = {"/home/u/.local/state/sandboxkit/gate"},
                     .own_files = {"/usr/bin/sandboxkit*"},
                     .program_dirs = {"/usr/local/bin", "/usr/bin"},
                     .box_is_active = box};
}

/// One question to a gate, with what differs from the document's defaults.
struct Question {
  GateItem item;
  FakeEyes eyes = machine();
  GatePolicy policy = GatePolicy::shipped();
  std::vector<PermanentGrant> permanent{};
  std::vector<SessionGrant> granted{};
  PermissionMode mode = PermissionMode::kPrompt;
  bool box = true;
  std::string cwd = kTree;
};

inline PermissionGate gate_of(const Question& question) {
  auto gate =
      PermissionGate::create(session(question.eyes, question.box), question.policy, question.mode);
  REQUIRE_MESSAGE(gate.has_value(), gate.error().message);
  return std::move(*gate);
}

inline GateDecision decide(const Question& question, std::vector<GateItem> items) {
  const PermissionGate gate = gate_of(question);
  const auto grants = gate.compile(question.permanent, question.granted);
  REQUIRE_MESSAGE(grants.has_value(), grants.error().message);
  return gate.decide(GateRequest{.cwd = question.cwd, .items = std::move(items)}, *grants,
                     question.eyes, kNow);
}

inline GateDecision decide(const Question& question) { return decide(question, {question.item}); }

inline GateItem item(Op operation, const std::string& target, const std::string& to = {}) {
  return GateItem{.operation = operation, .target = target, .to = to};
}

inline GateItem command(const std::string& text) {
  return GateItem{.operation = Op::kExec, .command = text};
}

/// A grant for the session's tree and agent, on the machine above.
inline PermanentGrant permanent(const FakeEyes& eyes, GrantedUse use) {
  return PermanentGrant{.id = "g_1",
                        .use = std::move(use),
                        .tree = kTree,
                        .tree_identity = eyes.identity(kTree),
                        .agent = "claude-code",
                        .needs_box = false,
                        .expires = kLater};
}

inline SessionGrant for_session(GrantedUse use) {
  return SessionGrant{.id = "s_g",
                      .use = std::move(use),
                      .session = "s_1",
                      .agent = "claude-code",
                      .expires = kLater};
}

/// `deny mandatory_denial denied`: short enough for a table.
inline std::string told(const GateDecision& decision) {
  return std::string(name_of(decision.answer)) + " " + name_of(decision.decisive.branch) + " " +
         decision.decisive.reason;
}

}  // namespace sandboxkit::gate_test
