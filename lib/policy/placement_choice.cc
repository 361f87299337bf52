#include "policy/placement_choice.h"

#include <algorithm>
#include <cstddef>

namespace sandboxkit::policy {
namespace {

constexpr int kOwnWeight = 8;
constexpr int kWarmWeight = 4;
constexpr int kImageWeight = 2;

/// A worker that can take the request now. `tier` orders what is never traded against load: own
/// before unscoped, then a warm entry, then the image.
struct Candidate {
  const WorkerView* worker;
  bool warm;
  bool image;
  int tier;
  std::uint64_t draw;
};

Candidate candidate_of(const PlacementRequest& request, const WorkerView& worker,
                       std::uint64_t seed) {
  const auto entry = worker.warm.find(request.image);
  const bool warm = entry != worker.warm.end() && entry->second > 0;
  const bool image = warm || worker.images.contains(request.image);
  const int tier = (worker.scope.is_unscoped() ? 0 : kOwnWeight) + (warm ? kWarmWeight : 0) +
                   (image ? kImageWeight : 0);
  return Candidate{&worker, warm, image, tier, draw_for(seed, worker.id.str())};
}

/// Best tier first; in a tier the draw decides.
bool comes_before(const Candidate& a, const Candidate& b) {
  if (a.tier != b.tier) {
    return a.tier > b.tier;
  }
  return a.draw != b.draw ? a.draw < b.draw : a.worker->id < b.worker->id;
}

/// Keeps the candidates that are scored. Packing looks at all of them: the fullest worker that fits
/// is worth a look at each, while spreading needs a few draws only (the power of K choices).
void keep_drawn(std::vector<Candidate>& candidates, const PlacementPolicy& policy) {
  const bool all = policy.strategy == PlacementStrategy::kPack || policy.candidates == 0;
  const std::size_t kept = all ? candidates.size() : std::min(candidates.size(), policy.candidates);
  const auto middle = candidates.begin() + static_cast<std::ptrdiff_t>(kept);
  std::partial_sort(candidates.begin(), middle, candidates.end(), comes_before);
  candidates.erase(middle, candidates.end());
}

Score score_of(const PlacementPolicy& policy, const PlacementRequest& request,
               const Candidate& candidate) {
  Score score{.worker = candidate.worker->id};
  score.own = !candidate.worker->scope.is_unscoped();
  score.warm = candidate.warm;
  score.image_present = candidate.image;
  score.load = load_with(policy, *candidate.worker, demand_of(request), 1);
  const double fill = policy.strategy == PlacementStrategy::kPack ? score.load : 1 - score.load;
  score.total = candidate.tier + fill;
  return score;
}

}  // namespace

std::uint64_t draw_for(std::uint64_t seed, std::string_view id) {
  std::uint64_t hash = 0xcbf29ce484222325U ^ seed;
  for (const char c : id) {
    hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3U;
  }
  return mix(hash);
}

std::vector<Score> scores_of(const PlacementPolicy& policy, const PlacementRequest& request,
                             const std::vector<const WorkerView*>& feasible, std::uint64_t seed) {
  std::vector<Candidate> candidates;
  candidates.reserve(feasible.size());
  for (const WorkerView* worker : feasible) {
    candidates.push_back(candidate_of(request, *worker, seed));
  }
  keep_drawn(candidates, policy);
  std::vector<Score> scores;
  scores.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    scores.push_back(score_of(policy, request, candidate));
  }
  std::ranges::stable_sort(scores, std::ranges::greater{}, &Score::total);
  return scores;
}

}  // namespace sandboxkit::policy
