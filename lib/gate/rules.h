#pragma once

#include "sandboxkit/gate.h"

#include "gate/operations.h"
#include "gate/path_index.h"
#include "gate/pattern.h"

#include <cstdint>
#include <optional>
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
  /// No exception of an owner lifts it.
  bool is_hardlock = false;
};

/// Rules in the order in which they are asked, and what narrows them to those that may match a
/// name.
class RuleList {
 public:
  explicit RuleList(std::vector<Rule> rules);
  RuleList(const RuleList&) = delete;
  RuleList& operator=(const RuleList&) = delete;
  // Others point at the rules, which stay where they are.
  RuleList(RuleList&&) = default;
  RuleList& operator=(RuleList&&) = default;

  const std::vector<Rule>& all() const { return rules_; }
  const PathIndex& index() const { return index_; }
  /// The number of a rule in the list; nullopt for another list's.
  std::optional<std::uint32_t> number_of(const Rule* rule) const;

 private:
  std::vector<Rule> rules_;
  PathIndex index_{Matching::kFolded};
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
  gate::RuleList hardlocks;
  gate::RuleList denials;
  std::vector<gate::Exception> exceptions;
  gate::RuleList exclusions;
  /// The work tree, the owner's roots and what every program reads.
  std::vector<GateRoot> roots;
  /// Those of them that somebody chose: they cannot be deleted or moved.
  std::vector<std::string> own_roots;
  std::vector<std::string> denied_variables;
  std::vector<std::string> allowed_variables;
  std::optional<EgressPolicy> egress;
};

}  // namespace sandboxkit
