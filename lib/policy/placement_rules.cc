#include "policy/placement_rules.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace sandboxkit::policy {
namespace {

/// Sums of decimal fractions (0.1 + 0.2) must not cost the last core.
constexpr double kRoundingSlack = 1e-9;

constexpr const char* kEgressCapability = "egress";

bool has_capabilities(const WorkerView& worker, const PlacementRequest& request) {
  return (!request.needs_egress_wall || worker.capabilities.contains(kEgressCapability)) &&
         std::includes(worker.capabilities.begin(), worker.capabilities.end(),
                       request.capabilities.begin(), request.capabilities.end());
}

bool has_labels(const WorkerView& worker, const PlacementRequest& request) {
  return std::ranges::all_of(request.labels, [&](const auto& label) {
    const auto found = worker.labels.find(label.first);
    return found != worker.labels.end() && found->second == label.second;
  });
}

bool tolerates(const PlacementRequest& request, const WorkerView& worker) {
  return std::includes(request.tolerations.begin(), request.tolerations.end(),
                       worker.taints.begin(), worker.taints.end());
}

/// One thing that a request asks for and how to see whether a worker offers it.
struct Need {
  std::string name;
  std::function<bool(const WorkerView&)> offered_by;
};

std::vector<Need> needs_of(const PlacementRequest& request) {
  std::vector<Need> needs;
  const auto need_capability = [&](const std::string& name) {
    needs.push_back({name, [name](const WorkerView& w) { return w.capabilities.contains(name); }});
  };
  if (request.needs_egress_wall) {
    need_capability(kEgressCapability);
  }
  std::ranges::for_each(request.capabilities, need_capability);
  if (!request.runtime.empty()) {
    needs.push_back({"runtime:" + request.runtime,
                     [&](const WorkerView& w) { return w.runtimes.contains(request.runtime); }});
  }
  if (!request.arch.empty()) {
    needs.push_back(
        {"arch:" + request.arch, [&](const WorkerView& w) { return w.arch == request.arch; }});
  }
  for (const auto& label : request.labels) {
    needs.push_back({"label:" + label.first + "=" + label.second, [&label](const WorkerView& w) {
                       const auto found = w.labels.find(label.first);
                       return found != w.labels.end() && found->second == label.second;
                     }});
  }
  return needs;
}

/// The first need that none of the workers offers, or "".
std::string missing_everywhere(const Rules& rules, const PlacementRequest& request,
                               std::span<const WorkerView* const> usable) {
  const auto nobody = [&](const auto& offers) {
    return std::ranges::none_of(usable, [&](const WorkerView* w) { return offers(*w); });
  };
  for (const Need& need : needs_of(request)) {
    if (nobody(need.offered_by)) {
      return need.name;
    }
  }
  if (usable.empty()) {
    return {};
  }
  for (const std::string& taint : usable.front()->taints) {
    if (!request.tolerations.contains(taint) &&
        nobody([&](const WorkerView& w) { return !w.taints.contains(taint); })) {
      return std::string(kTolerationPrefix) + taint;
    }
  }
  if (nobody([&](const WorkerView& w) {
        return request.cpu_cores <= rules.cpu_limit(w) + kRoundingSlack;
      })) {
    return "cpu_cores";
  }
  if (nobody([&](const WorkerView& w) {
        return static_cast<double>(request.memory_mb) <= rules.memory_limit(w) + kRoundingSlack;
      })) {
    return "memory_mb";
  }
  return {};
}

}  // namespace

Rules::Rules(const PlacementPolicy& policy, const PlacementRequest& request)
    : cpu_overcommit(policy.cpu_overcommit),
      memory_overcommit(policy.memory_overcommit),
      strategy(request.strategy.value_or(policy.strategy)),
      candidates(policy.candidates),
      retry_after(policy.retry_after) {}

std::optional<Filter> Rules::lasting_refusal(const WorkerView& worker,
                                             const PlacementRequest& request) const {
  if (!worker.scope.serves(request.tenant)) {
    return Filter::kTenant;
  }
  if (!has_capabilities(worker, request)) {
    return Filter::kCapability;
  }
  if (!request.runtime.empty() && !worker.runtimes.contains(request.runtime)) {
    return Filter::kRuntime;
  }
  if (!request.arch.empty() && worker.arch != request.arch) {
    return Filter::kArch;
  }
  if (!tolerates(request, worker)) {
    return Filter::kTaint;
  }
  if (!has_labels(worker, request)) {
    return Filter::kLabels;
  }
  // Negated, so that a NaN never fits.
  if (!(request.cpu_cores <= cpu_limit(worker) + kRoundingSlack) ||
      !(static_cast<double>(request.memory_mb) <= memory_limit(worker) + kRoundingSlack)) {
    return Filter::kSize;
  }
  return std::nullopt;
}

std::optional<Filter> Rules::first_refusal(const WorkerView& worker,
                                           const PlacementRequest& request) const {
  if (const auto lasting = lasting_refusal(worker, request)) {
    return lasting;
  }
  if (worker.state != WorkerState::kReady) {
    return Filter::kState;
  }
  if (worker.sandboxes >= worker.max_sandboxes) {
    return Filter::kSandboxCap;
  }
  if (!(worker.used_cpu_cores + request.cpu_cores <= cpu_limit(worker) + kRoundingSlack)) {
    return Filter::kCpu;
  }
  if (!(static_cast<double>(worker.used_memory_mb) + static_cast<double>(request.memory_mb) <=
        memory_limit(worker) + kRoundingSlack)) {
    return Filter::kMemory;
  }
  if (worker.starting >= worker.max_starting) {
    return Filter::kStartSlots;
  }
  return std::nullopt;
}

double Rules::load_with(const WorkerView& worker, const PlacementRequest& request) const {
  const auto share = [](double used, double limit) {
    return limit > 0 ? std::clamp(used / limit, 0.0, 1.0) : 1.0;
  };
  return std::max(
      {share(worker.used_cpu_cores + request.cpu_cores, cpu_limit(worker)),
       share(static_cast<double>(worker.used_memory_mb + request.memory_mb), memory_limit(worker)),
       share(static_cast<double>(worker.sandboxes + 1),
             static_cast<double>(worker.max_sandboxes))});
}

Refusal refuse(const Rules& rules, const PlacementRequest& request,
               std::span<const WorkerView* const> usable, std::map<Filter, std::int64_t> counts) {
  // A worker that a later filter refused passed all the lasting ones.
  const bool some_could = !counts.empty() && counts.rbegin()->first > Filter::kSize;
  std::string missing = some_could ? "" : missing_everywhere(rules, request, usable);
  // Without any worker, a request that asks for nothing special waits for one to join; one that
  // asks for something is told what nobody offers.
  if (some_could || (usable.empty() && missing.empty())) {
    return Refusal{RefusalCode::kNoCapacity, std::move(counts), rules.retry_after};
  }
  return Refusal{RefusalCode::kCapabilityUnavailable, std::move(counts), std::nullopt,
                 std::move(missing)};
}

}  // namespace sandboxkit::policy
