#pragma once

#include "sandboxkit/gate.h"

#include "gate/rules.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace sandboxkit {

namespace gate {

struct HashIdentity {
  std::size_t operator()(const FileIdentity& object) const {
    constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
    return std::hash<std::uint64_t>{}((object.inode ^ (object.device << 32U)) * kOdd);
  }
};

/// The rules whose one literal place is an object. Source: the inode rule, 4.2.
using Objects = std::unordered_map<FileIdentity, std::vector<const Rule*>, HashIdentity>;

/// Looks at every literal place of hardlocks and denials. What cannot be seen has no object that we
/// could tell; its name stays denied.
Objects look_at_objects(const PermissionGate::Rules& rules, const FileEyes& eyes);

/// Calls `visit` for every rule that denies something.
template <typename Visit>
void for_each_rule(const PermissionGate::Rules& rules, Visit visit) {
  for (const RuleList* list : {&rules.hardlocks, &rules.denials}) {
    for (const Rule& rule : list->all()) {
      visit(rule);
    }
  }
}

}  // namespace gate

struct ProtectedObjects::Seen {
  // Shared, because the objects point at them.
  std::shared_ptr<const PermissionGate::Rules> rules;
  gate::Objects objects;
};

}  // namespace sandboxkit
