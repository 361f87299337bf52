#pragma once

#include "sandboxkit/gate.h"

#include "gate/access.h"
#include "gate/grant_index.h"
#include "gate/operations.h"
#include "gate/pattern.h"
#include "gate/rules.h"
#include "gate/sight.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sandboxkit {

namespace gate {

/// A grant whose target was read.
struct Grant {
  std::string id;
  OperationMask operations;
  /// Of a path.
  std::optional<PathPattern> pattern{};
  GrantedUse use{};
  /// Of a permanent one.
  std::string tree{};
  FileIdentity tree_identity{};
  bool needs_box = false;
  /// Of a session's.
  std::string session{};
  std::string agent{};
  std::optional<WallTime> expires{};
};

/// Errors: kInvalidArgument, field `target`, `argv` or `op`.
Result<Grant> read_use(const GrantedUse& use, const Anchors& anchors);

/// What the search for a grant came to.
struct GrantSearch {
  const Grant* found = nullptr;
  /// One that would have been it, and does not count any more: `grant_expired`, `grant_stale`.
  const char* reason = nullptr;
  const Grant* dead = nullptr;
};

struct GrantQuestion {
  const PermissionGate::Rules& rules;
  const Access& access;
  const Sight& sight;
  WallTime now;
};

/// Whether a grant counts now, for whom this session is, whatever it allows.
bool counts_permanent(const Grant& grant, const GateSession& session, WallTime now);
bool counts_session(const Grant& grant, const GateSession& session, WallTime now);

/// Grants in the order of their list, and what narrows them to those that may be meant.
struct GrantList {
  std::vector<Grant> grants{};
  GrantIndex index{};
};

GrantSearch find_permanent(const GrantList& list, const GrantQuestion& question);
GrantSearch find_session(const GrantList& list, const GrantQuestion& question);

/// Whether a place is in a root that allows the operation.
bool in_root(const PermissionGate::Rules& rules, const std::string& path, GateOperation operation);

}  // namespace gate

struct GateGrants::Compiled {
  gate::GrantList permanent{};
  gate::GrantList session{};
};

}  // namespace sandboxkit
