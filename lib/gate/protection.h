#pragma once

#include "gate/access.h"
#include "gate/rules.h"
#include "gate/sight.h"

#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::gate {

/// A denial that speaks, and by what.
struct Denied {
  std::string rule;
  std::string source;
  std::string reason;
  /// The name or object that it spoke about, where that is not the canonical one.
  std::string via{};
};

/// Whether an owner's exception lifts this rule for one operation at a canonical path.
bool is_excepted(const PermissionGate::Rules& all, const Rule& rule, GateOperation operation,
                 const PathName& canonical);

/// The rules whose place is the accessed object or a directory above it, whatever they are called.
std::vector<const Rule*> rules_of_objects(const Access& access, Sight& sight);

/// One access, and the rules that know its object.
struct Protection {
  const PermissionGate::Rules& all;
  const Access& access;
  const std::vector<const Rule*>& of_objects;
  Narrowing narrowing;
};

/// The first of `rules` that denies the access: by any of its names, by its object, or because it
/// takes away what is protected (the ancestor rule).
std::optional<Denied> first_denial(const RuleList& rules, const Protection& protection);

/// Whether it would delete or move a root, or a directory above one.
std::optional<Denied> takes_root_away(const PermissionGate::Rules& all, const Access& access);

/// Whether the path is a configuration or hook of what is, or would now become, a bare repository.
/// Source: bypass B11, case 26.
std::optional<Denied> in_bare_repository(const Access& access, Sight& sight);

}  // namespace sandboxkit::gate
