#pragma once

#include "sandboxkit/gate.h"

#include "gate/access.h"
#include "gate/grants.h"
#include "gate/rules.h"
#include "gate/sight.h"

#include <string>
#include <vector>

namespace sandboxkit::gate {

/// Everything that a request is judged by.
struct Judge {
  const PermissionGate::Rules& rules;
  const GateGrants::Compiled& grants;
  PermissionMode mode;
  WallTime now;
  Sight& sight;
};

/// The six branches, in the order of the document.
GateItemDecision judge_access(const Judge& judge, const Access& access);

/// A denial by the built-in rules, before any other question.
GateItemDecision refused(GateOperation operation, const std::string& requested,
                         const std::string& reason, const std::string& words = {});

/// What a path is, by everything that the gate looks at; or the refusal of one that cannot be told.
struct PathQuestion {
  GateOperation operation;
  GateOperation asked;
  const std::string& cwd;
  const std::string& path;
};
struct PathLook {
  Access access;
  std::optional<GateItemDecision> refusal{};
};
PathLook look_at_path(const Judge& judge, const PathQuestion& question);

/// One item that is no exec.
GateItemDecision judge_item(const Judge& judge, const GateRequest& request, const GateItem& item);

/// An exec: its programs, its variables and redirections, and whatever else in it is denied.
std::vector<GateItemDecision> judge_command(const Judge& judge, const GateRequest& request,
                                            const GateItem& item);

}  // namespace sandboxkit::gate
