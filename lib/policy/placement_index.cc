#include "sandboxkit/fleet_index.h"

#include <map>
#include <utility>
#include <vector>

namespace sandboxkit {

struct FleetIndex::Impl {
  PlacementPolicy policy;
  std::map<WorkerId, WorkerView> workers{};
};

FleetIndex::FleetIndex(PlacementPolicy policy) : impl_(new Impl{.policy = policy}) {}
FleetIndex::~FleetIndex() = default;
FleetIndex::FleetIndex(FleetIndex&&) noexcept = default;
FleetIndex& FleetIndex::operator=(FleetIndex&&) noexcept = default;

void FleetIndex::put(WorkerView worker) {
  WorkerId id = worker.id;
  impl_->workers.insert_or_assign(std::move(id), std::move(worker));
}

bool FleetIndex::erase(const WorkerId& id) { return impl_->workers.erase(id) > 0; }

const WorkerView* FleetIndex::find(const WorkerId& id) const {
  const auto found = impl_->workers.find(id);
  return found != impl_->workers.end() ? &found->second : nullptr;
}

std::size_t FleetIndex::size() const { return impl_->workers.size(); }

const PlacementPolicy& FleetIndex::policy() const { return impl_->policy; }

Decision Scheduler::schedule(const PlacementRequest& request, const FleetIndex& fleet,
                             std::uint64_t seed) const {
  std::vector<const WorkerView*> usable;
  for (const auto& [id, worker] : fleet.impl_->workers) {
    if (worker.scope.serves(request.tenant)) {
      usable.push_back(&worker);
    }
  }
  return schedule_among(request, usable, seed);
}

}  // namespace sandboxkit
