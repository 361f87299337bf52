#pragma once

#include "sandboxkit/placement.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

/// The filters and the score, for one worker at a time. Both ways to find a worker, the scan and
/// the index, go by these.
namespace sandboxkit::policy {

inline constexpr const char* kEgressCapability = "egress";
/// What a `Refusal::missing` starts with when a toleration is missing.
inline constexpr std::string_view kTolerationPrefix = "toleration:";

/// Sums of decimal fractions (0.1 + 0.2) must not cost the last core.
inline constexpr double kRoundingSlack = 1e-9;

/// The policy with the request's own strategy in place.
PlacementPolicy policy_for(const PlacementPolicy& policy, const PlacementRequest& request);

/// What many workers have in common: what decides the lasting filters but labels and size.
struct Traits {
  std::set<std::string> capabilities{};
  std::set<std::string> runtimes{};
  std::string arch{};
  std::set<std::string> taints{};

  auto operator<=>(const Traits&) const = default;
};

Traits traits_of(const WorkerView& worker);

/// What a request takes from its worker.
struct Demand {
  double cpu_cores = 0;
  double memory_mb = 0;
};

inline Demand demand_of(const PlacementRequest& request) {
  return {request.cpu_cores, static_cast<double>(request.memory_mb)};
}

/// The numbers of a worker that size and all the filters after it go by.
struct Room {
  /// What keeps a worker from starting anything, the earliest filter's last.
  enum class Gate : std::uint8_t { kOpen, kStartSlots, kSandboxCap, kState };
  static constexpr std::size_t kGates = 4;

  double cpu_limit = 0;
  double used_cpu = 0;
  double memory_limit = 0;
  double used_memory = 0;
  Gate gate = Gate::kState;
};

Room room_of(const PlacementPolicy& policy, const WorkerView& worker);

inline bool is_nan(double number) { return number != number; }

/// False for a NaN on any side.
inline bool fits(double used, double asked, double limit) {
  return used + asked <= limit + kRoundingSlack;
}

/// The first of the filters from `kSize` on that refuses.
inline std::optional<Filter> room_refusal(const Room& room, const Demand& demand) {
  if (!fits(0, demand.cpu_cores, room.cpu_limit) || !fits(0, demand.memory_mb, room.memory_limit)) {
    return Filter::kSize;
  }
  if (room.gate == Room::Gate::kState) {
    return Filter::kState;
  }
  if (room.gate == Room::Gate::kSandboxCap) {
    return Filter::kSandboxCap;
  }
  if (!fits(room.used_cpu, demand.cpu_cores, room.cpu_limit)) {
    return Filter::kCpu;
  }
  if (!fits(room.used_memory, demand.memory_mb, room.memory_limit)) {
    return Filter::kMemory;
  }
  return room.gate == Room::Gate::kOpen ? std::nullopt : std::optional(Filter::kStartSlots);
}

/// The first of the filters before `kLabels` that refuses, the tenant rule apart.
template <typename WorkerOrTraits>
std::optional<Filter> traits_refusal(const WorkerOrTraits& traits,
                                     const PlacementRequest& request) {
  const auto holds_all = [](const std::set<std::string>& all, const std::set<std::string>& part) {
    return std::includes(all.begin(), all.end(), part.begin(), part.end());
  };
  if ((request.needs_egress_wall && !traits.capabilities.contains(kEgressCapability)) ||
      !holds_all(traits.capabilities, request.capabilities)) {
    return Filter::kCapability;
  }
  if (!request.runtime.empty() && !traits.runtimes.contains(request.runtime)) {
    return Filter::kRuntime;
  }
  if (!request.arch.empty() && traits.arch != request.arch) {
    return Filter::kArch;
  }
  return holds_all(request.tolerations, traits.taints) ? std::nullopt
                                                       : std::optional(Filter::kTaint);
}

bool has_labels(const WorkerView& worker, const PlacementRequest& request);

/// The first filter, in the order of the enumerators, that passes the worker over.
std::optional<Filter> first_refusal(const PlacementPolicy& policy, const PlacementRequest& request,
                                    const WorkerView& worker);

/// The largest of the shares of cores, memory and sandbox slots that are in use once `demand` and
/// so many more sandboxes are there: 0..1 of what the policy lets this worker give.
double load_with(const PlacementPolicy& policy, const WorkerView& worker, const Demand& demand,
                 std::int64_t more_sandboxes);

/// What the workers that a tenant may use offer, of what one request asks for.
class Offers {
 public:
  explicit Offers(const PlacementRequest& request) : request_(request) {}

  template <typename WorkerOrTraits>
  void note_traits(const WorkerOrTraits& traits) {
    note(traits.capabilities, traits.runtimes, traits.arch, traits.taints);
  }
  /// A label that the request asks for and some worker has.
  void note_label(const std::string& name) { labels_.insert(name); }
  void note_limits(double cpu_limit, double memory_limit);
  /// All of the above, of one worker.
  void note_worker(const PlacementPolicy& policy, const WorkerView& worker);

  /// The first thing, in the order of the filters, that none of them offers, or "".
  std::string missing() const;
  /// True when nobody was noted.
  bool empty() const { return !any_; }

 private:
  void note(const std::set<std::string>& capabilities, const std::set<std::string>& runtimes,
            const std::string& arch, const std::set<std::string>& taints);
  std::string missing_trait() const;

  const PlacementRequest& request_;
  bool any_ = false;
  std::set<std::string> capabilities_{};
  bool runtime_ = false;
  bool arch_ = false;
  /// Taints that are not tolerated and that all of them carry.
  std::set<std::string> taints_{};
  std::set<std::string> labels_{};
  double cpu_limit_ = 0;
  double memory_limit_ = 0;
};

using FilterCounts = std::map<Filter, std::int64_t>;

/// True when a worker was refused by a filter that is not a lasting one: it passed all of those.
bool some_could(const FilterCounts& counts);

/// Which refusal it is when no worker passed. `offers` matters only when none ever could.
Refusal refuse(const PlacementPolicy& policy, FilterCounts counts, const Offers& offers);

}  // namespace sandboxkit::policy
