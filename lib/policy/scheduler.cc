#include "sandboxkit/placement.h"

#include "policy/placement_rules.h"

#include <algorithm>
#include <string_view>

namespace sandboxkit {
namespace {

using policy::Rules;

/// A worker that can take the request now. `tier` orders what is never traded against load:
/// own before unscoped, then a warm entry, then the image.
struct Candidate {
  const WorkerView* worker;
  int tier;
  std::uint64_t draw;
};

constexpr int kOwnWeight = 8;
constexpr int kWarmWeight = 4;
constexpr int kImageWeight = 2;

/// A number that the seed and the worker's id alone decide, so that the fleet's order cannot.
std::uint64_t draw_for(std::uint64_t seed, std::string_view id) {
  std::uint64_t hash = 0xcbf29ce484222325U ^ seed;
  for (const char c : id) {
    hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3U;
  }
  // The finish of splitmix64: neighbours in ids or seeds end far apart.
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9U;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebU;
  return hash ^ (hash >> 31);
}

bool has_warm(const WorkerView& worker, const std::string& image) {
  const auto entry = worker.warm.find(image);
  return entry != worker.warm.end() && entry->second > 0;
}

Score score_of(const PlacementRequest& request, const Rules& rules, const WorkerView& worker) {
  Score score{.worker = worker.id};
  score.own = !worker.scope.is_unscoped();
  score.warm = has_warm(worker, request.image);
  score.image_present = score.warm || worker.images.contains(request.image);
  score.load = rules.load_with(worker, request);
  const double fill = rules.strategy == PlacementStrategy::kPack ? score.load : 1 - score.load;
  score.total = (score.own ? kOwnWeight : 0) + (score.warm ? kWarmWeight : 0) +
                (score.image_present ? kImageWeight : 0) + fill;
  return score;
}

Candidate candidate_of(const PlacementRequest& request, const WorkerView& worker,
                       std::uint64_t seed) {
  const bool warm = has_warm(worker, request.image);
  const bool image = warm || worker.images.contains(request.image);
  const int tier = (worker.scope.is_unscoped() ? 0 : kOwnWeight) + (warm ? kWarmWeight : 0) +
                   (image ? kImageWeight : 0);
  return Candidate{&worker, tier, draw_for(seed, worker.id.str())};
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
void keep_drawn(std::vector<Candidate>& candidates, const Rules& rules) {
  const bool all = rules.strategy == PlacementStrategy::kPack || rules.candidates == 0;
  const std::size_t kept = all ? candidates.size() : std::min(candidates.size(), rules.candidates);
  const auto middle = candidates.begin() + static_cast<std::ptrdiff_t>(kept);
  std::partial_sort(candidates.begin(), middle, candidates.end(), comes_before);
  candidates.erase(middle, candidates.end());
}

}  // namespace

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
  const Rules rules(policy_, request);
  std::vector<Candidate> candidates;
  std::map<Filter, std::int64_t> counts;
  for (const WorkerView* worker : usable) {
    if (const auto refused_by = rules.first_refusal(*worker, request)) {
      ++counts[*refused_by];
    } else {
      candidates.push_back(candidate_of(request, *worker, seed));
    }
  }
  if (candidates.empty()) {
    return policy::refuse(rules, request, usable, std::move(counts));
  }

  keep_drawn(candidates, rules);
  std::vector<Score> scores;
  scores.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    scores.push_back(score_of(request, rules, *candidate.worker));
  }
  // Stable: among equals the draw decides.
  std::ranges::stable_sort(scores, std::ranges::greater{}, &Score::total);
  WorkerId chosen = scores.front().worker;
  return Placement(std::move(chosen), std::move(scores));
}

std::optional<Filter> Scheduler::refusal_of(const PlacementRequest& request,
                                            const WorkerView& worker) const {
  return Rules(policy_, request).first_refusal(worker, request);
}

}  // namespace sandboxkit
