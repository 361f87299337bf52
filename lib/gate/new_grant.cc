// Whether a person may be given a grant at all. A grant that can never count is an error when it is
// made, and not a dead rule that somebody trusts.

#include "sandboxkit/gate.h"

#include "base/text.h"
#include "gate/grants.h"
#include "gate/path_text.h"
#include "gate/rules.h"
#include "gate/unwrap.h"

#include <algorithm>
#include <utility>

namespace sandboxkit {
namespace {

using gate::PathName;

Error refuse(const char* reason, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), reason,
               std::string(reason) == "runner" ? "argv" : "target"};
}

Error shadowed(const std::string& target, const std::string& rule) {
  return refuse("shadowed", "a grant of " + quoted(target) + " would never count: " + quoted(rule) +
                                " is denied; an exception in the policy file is the way");
}

bool overlaps(const gate::Rule& rule, const std::set<GateOperation>& operations) {
  return std::ranges::any_of(
      operations, [&](GateOperation operation) { return rule.operations.has(operation); });
}

bool is_excepted(const PermissionGate::Rules& rules, const gate::Rule& rule, const PathName& place,
                 const std::set<GateOperation>& operations) {
  return !rule.is_hardlock &&
         std::ranges::any_of(rules.exceptions, [&](const gate::Exception& exception) {
           return (exception.lifts.empty() || exception.lifts == rule.pattern.text()) &&
                  exception.pattern.matches(place) &&
                  std::ranges::all_of(operations, [&](GateOperation operation) {
                    return exception.operations.has(operation);
                  });
         });
}

/// The rule that covers everything that the grant would.
const gate::Rule* shadow_of(const PermissionGate::Rules& rules, const gate::Grant& grant) {
  // A wildcard stands for itself here: a rule that covers the grant covers all of its names.
  const PathName place(grant.pattern->whole_text());
  for (const auto* list : {&rules.hardlocks, &rules.denials}) {
    for (const gate::Rule& rule : list->all()) {
      if (overlaps(rule, grant.use.operations) && rule.pattern.matches(place) &&
          !is_excepted(rules, rule, place, grant.use.operations)) {
        return &rule;
      }
    }
  }
  return nullptr;
}

Status check_place(const PermissionGate::Rules& rules, const gate::Grant& grant) {
  for (const std::string& root : rules.own_roots) {
    if (grant.pattern->matches(PathName(std::string(gate::parent_of(root))))) {
      return refuse("too_wide", "a grant of " + quoted(grant.use.target) +
                                    " covers the parent of " + quoted(root) +
                                    "; name a directory or a file");
    }
  }
  if (grant.pattern->matches(PathName(rules.session.home)) || grant.pattern->path().empty()) {
    return refuse("too_wide", "a grant of " + quoted(grant.use.target) +
                                  " covers the home or any place; name a directory or a file");
  }
  if (const gate::Rule* rule = shadow_of(rules, grant)) {
    return shadowed(grant.use.target, rule->pattern.text());
  }
  return {};
}

Status check_command(const GrantedUse& use) {
  if (use.argv_is_prefix && gate::runs_what_follows(use.argv)) {
    return refuse("runner", quoted(use.argv.front()) +
                                " runs whatever its words say: grant the exact words instead");
  }
  for (const gate::Started& started : gate::parts_of_words(use.argv).programs) {
    const std::string name =
        started.words.empty() ? "" : std::string(gate::base_name(started.words.front().text));
    if (gate::is_privilege_program(name)) {
      return shadowed(use.argv.front(), name);
    }
    for (const std::string& variable : started.variables) {
      if (gate::is_locked_variable(variable.substr(0, variable.find('=')))) {
        return shadowed(use.argv.front(), variable);
      }
    }
  }
  return {};
}

Status check_variable(const PermissionGate::Rules& rules, const std::string& name) {
  if (gate::is_locked_variable(name)) {
    return shadowed(name, name);
  }
  for (const std::string& pattern : rules.denied_variables) {
    if (gate::matches_name(ascii_lower(pattern), ascii_lower(name))) {
      return shadowed(name, pattern);
    }
  }
  return {};
}

Status check_address(const std::string& address) {
  const auto target = EgressTarget::from_authority(address);
  if (!target) {
    return refuse("", target.error().message);
  }
  return gate::is_metadata(*target) ? Status(shadowed(address, target->host())) : Status();
}

}  // namespace

Status PermissionGate::check_new(const GrantedUse& use) const {
  const auto grant = gate::read_use(use, rules_->anchors);
  if (!grant) {
    return grant.error();
  }
  using enum GateOperation;
  for (const GateOperation operation : {kSignal, kPtrace, kMount, kDevice}) {
    if (use.operations.contains(operation)) {
      return shadowed(name_of(operation), name_of(operation));
    }
  }
  if (use.operations.contains(kExec)) {
    return check_command(use);
  }
  if (use.operations.contains(kEnv)) {
    return check_variable(*rules_, use.target);
  }
  if (use.operations.contains(kConnect)) {
    return check_address(use.target);
  }
  return grant->pattern ? check_place(*rules_, *grant) : Status();
}

}  // namespace sandboxkit
