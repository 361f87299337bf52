#pragma once

#include "policy/placement_rules.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace sandboxkit::policy {

/// The finish of splitmix64: neighbours in ids or seeds end far apart.
inline std::uint64_t mix(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31);
}

/// A number that the seed and the worker's id alone decide, so that no order can.
std::uint64_t draw_for(std::uint64_t seed, std::string_view id);

/// The candidates that are scored, scored, the best first; among equals the draw decides. Spreading
/// keeps `policy.candidates` of them, those of the better tier (own, warm, image) first and then
/// those with the lowest draw; packing keeps all.
std::vector<Score> scores_of(const PlacementPolicy& policy, const PlacementRequest& request,
                             const std::vector<const WorkerView*>& feasible, std::uint64_t seed);

}  // namespace sandboxkit::policy
