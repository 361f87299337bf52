#pragma once

#include "sandboxkit/gate.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace sandboxkit::box_test {

enum class Kind : std::uint8_t { kFile, kProgram, kDirectory, kLink, kHardLink };

struct Entry {
  Kind kind;
  std::string path;
  /// Of a link its text, of a hard link the other name.
  std::string to{};
};

/// A machine with a home full of secrets, a repository with another one in it, and what attackers
/// prepare. It is made of values, so that a fake and a real file system can be built alike.
struct World {
  /// Stands before every path: "" or a temporary folder.
  std::string base;
  std::vector<Entry> entries{};

  std::string home() const { return base + "/home/u"; }
  std::string tree() const { return home() + "/proj"; }
  std::string shared() const { return base + "/srv"; }
  std::string state() const { return home() + "/.local/state/sandboxkit/gate"; }
};

World world_at(const std::string& base);

/// The policy, grants and owner's wishes that one run is made with.
struct Setting {
  std::string name;
  GatePolicy policy;
  std::vector<PermanentGrant> permanent{};
  std::vector<SessionGrant> granted{};
};

inline constexpr WallTime kTestNow{std::chrono::milliseconds{1'000'000}};

std::vector<Setting> settings_of(const World& world, const FileIdentity& tree);
GateSession session_of(const World& world, const FileIdentity& tree);

/// `count` questions from the world's own names and the policy's vocabulary, with mutations: case,
/// ignored letters, links, hard links, moved parents, names that are not there, repositories in
/// repositories, spellings. All are absolute.
std::vector<GateItem> questions(const World& world, std::uint32_t seed, std::size_t count);

}  // namespace sandboxkit::box_test
