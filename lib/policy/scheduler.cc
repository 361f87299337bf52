#include "sandboxkit/placement.h"

#include "policy/placement_choice.h"
#include "policy/placement_rules.h"

#include <utility>

namespace sandboxkit {

Decision Scheduler::schedule(const PlacementRequest& request, std::span<const WorkerView> fleet,
                             std::uint64_t seed) const {
  std::vector<const WorkerView*> usable;
  for (const WorkerView& worker : fleet) {
    if (worker.scope.serves(request.tenant)) {
      usable.push_back(&worker);
    }
  }
  return schedule_among(request, usable, seed);
}

Decision Scheduler::schedule_among(const PlacementRequest& request,
                                   std::span<const WorkerView* const> usable,
                                   std::uint64_t seed) const {
  const PlacementPolicy rules = policy::policy_for(policy_, request);
  std::vector<const WorkerView*> feasible;
  policy::FilterCounts counts;
  for (const WorkerView* worker : usable) {
    if (const auto refused_by = policy::first_refusal(rules, request, *worker)) {
      ++counts[*refused_by];
    } else {
      feasible.push_back(worker);
    }
  }
  if (!feasible.empty()) {
    return placement_of(policy::scores_of(rules, request, feasible, seed));
  }
  policy::Offers offers(request);
  if (!policy::some_could(counts)) {
    for (const WorkerView* worker : usable) {
      offers.note_worker(rules, *worker);
    }
  }
  return policy::refuse(rules, std::move(counts), offers);
}

Placement Scheduler::placement_of(std::vector<Score> scores) {
  WorkerId chosen = scores.front().worker;
  return Placement(std::move(chosen), std::move(scores));
}

std::optional<Filter> Scheduler::refusal_of(const PlacementRequest& request,
                                            const WorkerView& worker) const {
  return policy::first_refusal(policy_, request, worker);
}

}  // namespace sandboxkit
