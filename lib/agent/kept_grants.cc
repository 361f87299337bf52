#include "agent/kept_grants.h"

#include <utility>

namespace sandboxkit::agent {

GrantSnapshot StoredGrants::snapshot() {
  const GrantsView view = store_.read();
  return seen_.with([&](Seen& seen) {
    if (seen.kept != view.grants) {
      std::vector<PermanentGrant> grants;
      for (const KeptGrant& kept : view.grants->grants) {
        grants.push_back(kept.grant);
      }
      seen.kept = view.grants;
      seen.grants = std::make_shared<const std::vector<PermanentGrant>>(std::move(grants));
    }
    return GrantSnapshot{seen.grants, view.problem ? view.problem->message : std::string()};
  });
}

Result<std::string> StoredGrants::add(const PermissionGate& gate, const GrantToKeep& grant) {
  auto kept = store_.add(gate, {.use = grant.use,
                                .tree = grant.tree,
                                .tree_identity = grant.tree_identity,
                                .agent = grant.agent,
                                .by = grant.by,
                                .request = grant.request});
  return kept ? Result<std::string>(std::move(kept->grant.id)) : kept.error();
}

}  // namespace sandboxkit::agent
