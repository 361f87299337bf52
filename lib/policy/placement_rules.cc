#include "policy/placement_rules.h"

#include <iterator>
#include <limits>
#include <utility>

namespace sandboxkit::policy {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Room::Gate gate_of(const WorkerView& worker) {
  if (worker.state != WorkerState::kReady) {
    return Room::Gate::kState;
  }
  if (worker.sandboxes >= worker.max_sandboxes) {
    return Room::Gate::kSandboxCap;
  }
  return worker.starting >= worker.max_starting ? Room::Gate::kStartSlots : Room::Gate::kOpen;
}

}  // namespace

PlacementPolicy policy_for(const PlacementPolicy& policy, const PlacementRequest& request) {
  PlacementPolicy own = policy;
  own.strategy = request.strategy.value_or(policy.strategy);
  return own;
}

Traits traits_of(const WorkerView& worker) {
  return {worker.capabilities, worker.runtimes, worker.arch, worker.taints};
}

Room room_of(const PlacementPolicy& policy, const WorkerView& worker) {
  // A NaN has no order: it becomes what nothing fits into, which bounds of many workers can hold.
  const double cpu_limit = worker.cpu_cores * policy.cpu_overcommit;
  return {.cpu_limit = is_nan(cpu_limit) ? -kInfinity : cpu_limit,
          .used_cpu = is_nan(worker.used_cpu_cores) ? kInfinity : worker.used_cpu_cores,
          .memory_limit = static_cast<double>(worker.memory_mb) * policy.memory_overcommit,
          .used_memory = static_cast<double>(worker.used_memory_mb),
          .gate = gate_of(worker)};
}

bool has_labels(const WorkerView& worker, const PlacementRequest& request) {
  return std::ranges::all_of(request.labels, [&](const auto& label) {
    const auto found = worker.labels.find(label.first);
    return found != worker.labels.end() && found->second == label.second;
  });
}

std::optional<Filter> first_refusal(const PlacementPolicy& policy, const PlacementRequest& request,
                                    const WorkerView& worker) {
  if (!worker.scope.serves(request.tenant)) {
    return Filter::kTenant;
  }
  if (const auto refused_by = traits_refusal(worker, request)) {
    return refused_by;
  }
  if (!has_labels(worker, request)) {
    return Filter::kLabels;
  }
  return room_refusal(room_of(policy, worker), demand_of(request));
}

double load_with(const PlacementPolicy& policy, const WorkerView& worker, const Demand& demand,
                 std::int64_t more_sandboxes) {
  const Room room = room_of(policy, worker);
  const auto share = [](double used, double limit) {
    return limit > 0 ? std::clamp(used / limit, 0.0, 1.0) : 1.0;
  };
  return std::max({share(room.used_cpu + demand.cpu_cores, room.cpu_limit),
                   share(room.used_memory + demand.memory_mb, room.memory_limit),
                   share(static_cast<double>(worker.sandboxes + more_sandboxes),
                         static_cast<double>(worker.max_sandboxes))});
}

void Offers::note(const std::set<std::string>& capabilities, const std::set<std::string>& runtimes,
                  const std::string& arch, const std::set<std::string>& taints) {
  if (capabilities.contains(kEgressCapability)) {
    capabilities_.insert(kEgressCapability);
  }
  std::ranges::set_intersection(request_.capabilities, capabilities,
                                std::inserter(capabilities_, capabilities_.end()));
  runtime_ = runtime_ || runtimes.contains(request_.runtime);
  arch_ = arch_ || arch == request_.arch;
  if (!any_) {
    std::ranges::set_difference(taints, request_.tolerations,
                                std::inserter(taints_, taints_.end()));
  } else {
    std::erase_if(taints_, [&](const std::string& taint) { return !taints.contains(taint); });
  }
  any_ = true;
}

void Offers::note_limits(double cpu_limit, double memory_limit) {
  cpu_limit_ = std::max(cpu_limit_, cpu_limit);
  memory_limit_ = std::max(memory_limit_, memory_limit);
}

void Offers::note_worker(const PlacementPolicy& policy, const WorkerView& worker) {
  note_traits(worker);
  for (const auto& [name, value] : request_.labels) {
    const auto found = worker.labels.find(name);
    if (found != worker.labels.end() && found->second == value) {
      note_label(name);
    }
  }
  const Room room = room_of(policy, worker);
  note_limits(room.cpu_limit, room.memory_limit);
}

std::string Offers::missing_trait() const {
  if (request_.needs_egress_wall && !capabilities_.contains(kEgressCapability)) {
    return kEgressCapability;
  }
  for (const std::string& capability : request_.capabilities) {
    if (!capabilities_.contains(capability)) {
      return capability;
    }
  }
  if (!request_.runtime.empty() && !runtime_) {
    return "runtime:" + request_.runtime;
  }
  if (!request_.arch.empty() && !arch_) {
    return "arch:" + request_.arch;
  }
  return taints_.empty() ? "" : std::string(kTolerationPrefix) + *taints_.begin();
}

std::string Offers::missing() const {
  if (std::string trait = missing_trait(); !trait.empty()) {
    return trait;
  }
  for (const auto& [name, value] : request_.labels) {
    if (!labels_.contains(name)) {
      return "label:" + name + "=" + value;
    }
  }
  const Demand demand = demand_of(request_);
  if (any_ && !fits(0, demand.cpu_cores, cpu_limit_)) {
    return "cpu_cores";
  }
  return any_ && !fits(0, demand.memory_mb, memory_limit_) ? "memory_mb" : "";
}

bool some_could(const FilterCounts& counts) {
  return !counts.empty() && counts.rbegin()->first > Filter::kSize;
}

Refusal refuse(const PlacementPolicy& policy, FilterCounts counts, const Offers& offers) {
  std::string missing = some_could(counts) ? "" : offers.missing();
  // Without any worker, a request that asks for nothing special waits for one to join; one that
  // asks for something is told what nobody offers.
  if (some_could(counts) || (offers.empty() && missing.empty())) {
    return Refusal{RefusalCode::kNoCapacity, std::move(counts), policy.retry_after};
  }
  return Refusal{RefusalCode::kCapabilityUnavailable, std::move(counts), std::nullopt,
                 std::move(missing)};
}

}  // namespace sandboxkit::policy
