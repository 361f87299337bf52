#pragma once

#include "sandboxkit/placement.h"
#include "sandboxkit/result.h"

#include "json/value.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::wire {

/// A fleet at one moment, as a document: what a decision can be replayed from.
struct FleetDocument {
  std::vector<WorkerView> workers{};
  PlacementPolicy policy{};
  std::uint64_t seed = 1;
};

inline constexpr std::size_t kMaxFleetWorkers = 200'000;

/// Reads `{"workers": [{"id", "workspace", "state", "capabilities", "labels", "taints", "runtimes",
/// "arch", "cpu_cores", "memory_mb", "used_cpu_cores", "used_memory_mb", "sandboxes",
/// "max_sandboxes", "starting", "max_starting", "images", "warm"}], "overcommit": {"cpu",
/// "memory"}, "seed"}`.
///
/// `id` and `workspace` are required: a lost workspace must not read as "everyone". What else is
/// absent has WorkerView's and PlacementPolicy's defaults; the seed is 1.
/// Errors: kInvalidArgument with the field's path, `unknown_field`, `invalid_json`.
Result<FleetDocument> parse_fleet(std::string_view text);

/// Reads `{"tenant", "image", "cpu_cores", "memory_mb", "egress", "runtime", "labels",
/// "tolerations", "policy"}`. `tenant` is required; the defaults are those of a create. A null or
/// absent `egress` needs no wall; an object is read as a policy. Errors: as above.
Result<PlacementRequest> parse_placement_request(std::string_view text);

/// `{"placement": {"worker": ID}, "scores": [...]}` or
/// `{"refusal": {"error": NAME, "code": STATUS, "counts": {FILTER: N}, "retry_after": S|null}}`.
json::Value to_json(const Decision& decision);

}  // namespace sandboxkit::wire
