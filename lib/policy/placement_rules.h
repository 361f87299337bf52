#pragma once

#include "sandboxkit/placement.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::policy {

/// What a `Refusal::missing` starts with when a toleration is missing.
inline constexpr std::string_view kTolerationPrefix = "toleration:";

/// The placement policy with the request's own strategy in place: what one decision goes by.
struct Rules {
  Rules(const PlacementPolicy& policy, const PlacementRequest& request);

  /// The first filter, in the order of the enumerators, that passes the worker over.
  std::optional<Filter> first_refusal(const WorkerView& worker,
                                      const PlacementRequest& request) const;
  /// The first filter that no waiting can change; `kTenant` included.
  std::optional<Filter> lasting_refusal(const WorkerView& worker,
                                        const PlacementRequest& request) const;
  /// The largest of the shares of cores, memory and sandbox slots that would be in use: 0..1 of
  /// what the policy lets this worker give.
  double load_with(const WorkerView& worker, const PlacementRequest& request) const;

  double cpu_limit(const WorkerView& worker) const { return worker.cpu_cores * cpu_overcommit; }
  double memory_limit(const WorkerView& worker) const {
    return static_cast<double>(worker.memory_mb) * memory_overcommit;
  }

  double cpu_overcommit;
  double memory_overcommit;
  PlacementStrategy strategy;
  std::size_t candidates;
  std::chrono::seconds retry_after;
};

/// Which refusal it is when none of `usable`, the workers that the tenant may use, passed: by the
/// counts of the filters that refused them.
Refusal refuse(const Rules& rules, const PlacementRequest& request,
               std::span<const WorkerView* const> usable, std::map<Filter, std::int64_t> counts);

}  // namespace sandboxkit::policy
