#include "tests/unit/agent/grants_world.h"

#include <filesystem>
#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;              // NOLINT(google-build-using-namespace)
using namespace sandboxkit::agent_test;  // NOLINT(google-build-using-namespace)

namespace {

struct Tree : World {
  std::string tree = base + "/proj";
  Tree() { std::filesystem::create_directories(tree); }
  std::string first() const {
    const auto warnings = warnings_of_tree(tree);
    return warnings.empty() ? "" : warnings.front();
  }
};

}  // namespace

TEST_CASE("case 54, B21: a policy or grants in the tree are ignored, and that is said") {
  for (const char* name : {"policy.json", "grants.json"}) {
    const Tree at;
    CHECK(at.first().empty());
    std::filesystem::create_directories(at.tree + "/.sandboxkit");
    put(at.tree + "/.sandboxkit/" + name, "{}");
    CHECK(at.first().find("is ignored") != std::string::npos);
    CHECK(at.first().find(name) != std::string::npos);
  }
}

TEST_CASE("case 28, B12: a `.git` file or link that points out of the tree is told") {
  const Tree at;
  std::filesystem::create_directories(at.base + "/.ssh");
  put(at.tree + "/.git", "gitdir: ../.ssh\n");
  CHECK(at.first().find(at.base + "/.ssh") != std::string::npos);
  put(at.tree + "/.git", "gitdir: " + at.base + "/elsewhere/.git/worktrees/w\n");
  CHECK(at.first().find("/elsewhere/") != std::string::npos);
  put(at.tree + "/.git", "nonsense");
  CHECK(at.first().find("points to nothing") != std::string::npos);
  std::filesystem::remove(at.tree + "/.git");
  std::filesystem::create_symlink("../.ssh", at.tree + "/.git");
  CHECK(at.first().find(at.base + "/.ssh") != std::string::npos);
}

TEST_CASE("a repository, and a pointer that stays in the tree, are no matter") {
  const Tree at;
  std::filesystem::create_directories(at.tree + "/.git");
  CHECK(at.first().empty());
  std::filesystem::create_directories(at.tree + "/meta");
  std::filesystem::remove(at.tree + "/.git");
  put(at.tree + "/.git", "gitdir: meta\n");
  CHECK(at.first().empty());
}

TEST_CASE("letters of the tree cannot paint on the terminal that shows the warning") {
  const Tree at;
  put(at.tree + "/.git", "gitdir: ../\x1b[2Jx\n");
  CHECK_FALSE(at.first().empty());
  CHECK(at.first().find('\x1b') == std::string::npos);
}
