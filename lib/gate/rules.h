#pragma once

#include "sandboxkit/gate.h"

#include "gate/operations.h"
#include "gate/pattern.h"

#include <string>
#include <vector>

namespace sandboxkit {

namespace gate {

/// A rule whose pattern was read.
struct Rule {
  PathPattern pattern;
  OperationMask operations;
  std::string source;
  bool spares_directories = false;
  /// A directory below it that may be read all the same; empty: none.
  std::string spared_for_reading{};
};

struct Exception {
  PathPattern pattern;
  OperationMask operations;
  std::string lifts;
};

/// Built-in protection of the gate itself and of the ways around it. Source: H1, H2, H5, H6.
Result<std::vector<Rule>> hardlocks_of(const GateSession& session, const Anchors& anchors);

/// Whether a variable would take over a program's loading in the box, or the gate itself.
/// Source: H12, H13.
bool is_locked_variable(std::string_view name);

/// Whether a program is one that changes who one is, or what is mounted where. Source: H7, H9.
bool is_privilege_program(std::string_view name);

/// The socket that a program is the client of (`docker`), or "". Source: H6.
std::string_view control_socket_of(std::string_view program);

/// Whether a host is one of a cloud's metadata addresses or names. Source: H10.
bool is_metadata(const EgressTarget& target);

}  // namespace gate

/// Everything of a gate that was compiled.
struct PermissionGate::Rules {
  GateSession session;
  gate::Anchors anchors;
  std::vector<gate::Rule> hardlocks;
  std::vector<gate::Rule> denials;
  std::vector<gate::Exception> exceptions;
  std::vector<gate::Rule> exclusions;
  /// The work tree, the owner's roots and what every program reads.
  std::vector<GateRoot> roots;
  /// Those of them that somebody chose: they cannot be deleted or moved.
  std::vector<std::string> own_roots;
  std::vector<std::string> denied_variables;
  std::vector<std::string> allowed_variables;
  std::optional<EgressPolicy> egress;
};

}  // namespace sandboxkit
