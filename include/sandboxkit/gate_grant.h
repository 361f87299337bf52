#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/file_eyes.h"
#include "sandboxkit/gate_request.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sandboxkit {

/// What a grant allows. A grant can allow only; nothing in it can lift a denial.
struct GrantedUse {
  std::set<GateOperation> operations{};
  /// A pattern with a `/` (see GateRule), a variable's name, or `host:port`. Of an exec: the
  /// program's path, or empty for the one that `argv[0]` finds in the session's program folders.
  std::string target{};
  /// Of an exec: all words, the program's name first.
  std::vector<std::string> argv{};
  /// Of an exec: more words may follow. Refused for programs that run other programs.
  bool argv_is_prefix = false;
};

/// An allowance that outlives the session, for one tree and one agent.
struct PermanentGrant {
  std::string id;
  GrantedUse use;
  /// The tree by path and by object: one that was replaced has no grants.
  std::string tree;
  FileIdentity tree_identity;
  std::string agent;
  /// Counts while a box is active only.
  bool needs_box;
  /// Absent: never, which a person has to say.
  std::optional<WallTime> expires;
};

/// An allowance for one session of one agent. Sub-agents have agents' names of their own.
struct SessionGrant {
  std::string id;
  GrantedUse use;
  std::string session;
  std::string agent;
  std::optional<WallTime> expires;
};

}  // namespace sandboxkit
