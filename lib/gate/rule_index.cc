#include "gate/rule_index.h"

#include "gate/fold.h"
#include "gate/path_text.h"

#include <algorithm>

namespace sandboxkit::gate {
namespace {

constexpr std::string_view kAnyDepth = "**";

}  // namespace

RuleIndex::RuleIndex(const PermissionGate::Rules& rules) {
  for (const Rule& rule : rules.hardlocks.all()) {
    add(rule, GateBranch::kHardlock);
  }
  for (const Rule& rule : rules.denials.all()) {
    add(rule, GateBranch::kMandatoryDenial);
  }
  for (const Rule& rule : rules.exclusions.all()) {
    add(rule, GateBranch::kAsk);
  }
}

void RuleIndex::add(const Rule& rule, GateBranch branch) {
  const Listed listed{&rule, branch};
  all_.push_back(listed);
  const std::string& last = rule.pattern.parts().back();
  if (!PathPattern::is_text(last)) {
    open_.push_back(listed);
  } else {
    by_leaf_[last].push_back(listed);
  }
}

std::vector<Listed> RuleIndex::naming(const std::string& path, bool is_directory) const {
  const std::string leaf = fold(leaf_of(path));
  std::vector<Listed> likely;
  if (const auto found = by_leaf_.find(leaf); found != by_leaf_.end()) {
    likely = found->second;
  }
  for (const Listed& listed : open_) {
    const std::string& last = listed.rule->pattern.parts().back();
    if (last == kAnyDepth || matches_name(last, leaf)) {
      likely.push_back(listed);
    }
  }
  if (likely.empty()) {
    return likely;
  }
  const PathName name(path);
  std::erase_if(likely, [&](const Listed& listed) {
    return (listed.rule->spares_directories && is_directory) ||
           !listed.rule->pattern.matches_whole(name);
  });
  return likely;
}

std::vector<Listed> RuleIndex::covering(const std::string& directory) const {
  const PathName name(directory);
  std::vector<Listed> found;
  std::ranges::copy_if(all_, std::back_inserter(found), [&](const Listed& listed) {
    return !listed.rule->spares_directories && listed.rule->pattern.matches(name);
  });
  return found;
}

}  // namespace sandboxkit::gate
