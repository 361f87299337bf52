#pragma once

#include "sandboxkit/grant_store.h"

#include "agent/grant_log.h"
#include "tests/unit/gate/world.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

/// What the tests of the grants' store share: a state folder, a gate, and grants to give.
namespace sandboxkit::agent_test {

using gate_test::Op;

class StillClock final : public Clock {
 public:
  WallTime now() const override { return gate_test::kNow; }
};

struct World {
  StillClock clock;
  std::string base;
  gate_test::Question question{};

  World() {
    // In memory where that is there: these tests sync often.
    const bool in_memory = ::access("/dev/shm", W_OK) == 0;
    std::string name = (in_memory ? "/dev/shm" : std::filesystem::temp_directory_path().string()) +
                       "/sandboxkit-grants-XXXXXX";
    base = ::mkdtemp(name.data()) != nullptr ? name : std::string();
  }
  ~World() { std::filesystem::remove_all(base); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  std::string folder() const { return base + "/state/sandboxkit/gate"; }
  std::string file(const char* name = "grants.json") const { return folder() + "/" + name; }
  PermissionGate gate() const { return gate_test::gate_of(question); }

  /// A store as another process would open it.
  std::unique_ptr<GrantStore> open(GrantAudit& audit) const {
    auto opened = GrantStore::open({.folder = folder()}, audit, clock);
    REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message));
    return std::move(*opened);
  }

  NewGrant grant(const std::string& target = "/srv/data/**") const {
    NewGrant made{.use = {.operations = {Op::kRead}, .target = target},
                  .tree = gate_test::kTree,
                  .tree_identity = question.eyes.identity(gate_test::kTree),
                  .agent = "claude-code"};
    made.by = "test";
    return made;
  }

  KeptGrant add(GrantStore& store, const std::string& target = "/srv/data/**") const {
    auto made = store.add(gate(), grant(target));
    REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
    return *made;
  }

  /// What the gate says with the grants that count in a store.
  std::string told(const GrantStore& store, const GateItem& item) const {
    gate_test::Question with = question;
    for (const KeptGrant& kept : store.read().grants->grants) {
      with.permanent.push_back(kept.grant);
    }
    return gate_test::told(gate_test::decide(with, {item}));
  }
};

/// Why a store's file does not count; empty when it does.
inline std::string ignored(const GrantStore& store) {
  const auto view = store.read();
  if (!view.problem) {
    return {};
  }
  CHECK(view.problem->reason == "grants_ignored");
  CHECK(view.problem->message.starts_with("grants-ignored: "));
  return view.problem->field;
}

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// As somebody who is not the gate would write: another file of the same name.
inline void put(const std::string& path, const std::string& bytes, mode_t mode = 0600) {
  std::filesystem::remove_all(path);
  std::ofstream(path, std::ios::binary) << bytes;
  REQUIRE(::chmod(path.c_str(), mode) == 0);
}

}  // namespace sandboxkit::agent_test
