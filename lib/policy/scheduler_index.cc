#include "sandboxkit/fleet_index.h"

#include "base/check.h"
#include "policy/placement_choice.h"
#include "policy/placement_index.h"
#include "policy/placement_search.h"

#include <vector>

namespace sandboxkit {
namespace {

std::vector<const WorkerView*> workers_of(const std::vector<const policy::Scope*>& scopes) {
  std::vector<const WorkerView*> workers;
  for (const policy::Scope* scope : scopes) {
    for (const auto& [traits, its_class] : scope->classes) {
      for (const auto& block : its_class.all.by_hash().blocks()) {
        for (const policy::Entry& entry : block.entries) {
          workers.push_back(entry.view);
        }
      }
    }
  }
  return workers;
}

}  // namespace

Decision Scheduler::schedule(const PlacementRequest& request, const FleetIndex& fleet,
                             std::uint64_t seed) const {
  SANDBOXKIT_CHECK(fleet.policy().cpu_overcommit == policy_.cpu_overcommit &&
                       fleet.policy().memory_overcommit == policy_.memory_overcommit,
                   "an index is asked by a scheduler with its own overcommit");
  // The own ones first: they are placed on before the unscoped.
  std::vector<const policy::Scope*> scopes;
  std::size_t workers = 0;
  for (const std::string& tenant : {request.tenant.str(), std::string()}) {
    if (const policy::Scope* scope = fleet.impl_->scope_of(tenant)) {
      scopes.push_back(scope);
      workers += scope->workers;
    }
  }
  if (workers <= FleetIndex::kLookedAtWhole) {
    return schedule_among(request, workers_of(scopes), seed);
  }
  const PlacementPolicy rules = policy::policy_for(policy_, request);
  const policy::Search search(rules, request, seed);
  for (const policy::Scope* scope : scopes) {
    const auto candidates = search.candidates_in(*scope);
    if (!candidates.empty()) {
      return placement_of(policy::scores_of(rules, request, candidates, seed));
    }
  }
  return search.refusal_by(scopes);
}

}  // namespace sandboxkit
