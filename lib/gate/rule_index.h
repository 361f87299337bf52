#pragma once

#include "gate/rules.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::gate {

/// A rule and the branch that it speaks for; kAsk is an exclusion.
struct Listed {
  const Rule* rule;
  GateBranch branch;
};

/// Rules by the last component of what they name, so that a walk compares few of them at each
/// entry, however many there are.
class RuleIndex {
 public:
  explicit RuleIndex(const PermissionGate::Rules& rules);

  /// The rules that name this very path, and not only one above it.
  std::vector<Listed> naming(const std::string& path, bool is_directory) const;
  /// The rules that name this directory or one above it.
  std::vector<Listed> covering(const std::string& directory) const;
  const std::vector<Listed>& all() const { return all_; }

 private:
  void add(const Rule& rule, GateBranch branch);

  std::vector<Listed> all_;
  std::map<std::string, std::vector<Listed>, std::less<>> by_leaf_;
  /// Those whose last component is a wildcard.
  std::vector<Listed> open_;
};

}  // namespace sandboxkit::gate
