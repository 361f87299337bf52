#pragma once

#include "policy/placement_index.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sandboxkit::policy {

/// One request's look into an index.
class Search {
 public:
  Search(const PlacementPolicy& policy, const PlacementRequest& request, std::uint64_t seed)
      : policy_(policy), request_(request), demand_(demand_of(request)), seed_(seed) {}

  /// Workers of the scope that can take the request now, to be scored. Empty only when none can.
  std::vector<const WorkerView*> candidates_in(const Scope& scope) const;

  /// Why none of the scopes' workers can.
  Refusal refusal_by(const std::vector<const Scope*>& scopes) const;

 private:
  using Found = std::vector<const WorkerView*>;

  /// The workers of one class that may have the request's labels: those of the rarest one.
  struct Match {
    const Pool* pool;
    std::int64_t open;
  };

  const Pool* pool_of(const WorkerClass& its_class) const;
  std::vector<Match> matches_in(const Scope& scope) const;
  bool takes(const Entry& entry) const;
  /// Of the pool that the request's rarest label chose: whether the others are there too.
  bool has_other_labels(const Entry& entry) const;

  void take_all(const std::vector<Match>& matches, Found& found) const;
  void take_drawn(std::vector<Match> matches, Found& found) const;
  void take_fullest(const std::vector<Match>& matches, Found& found) const;
  void take_holders(const Holders& holders, Found& found) const;
  const Entry* first_fit(const HashList& list, std::uint64_t rank) const;
  void append_fullest(const LoadList& list, std::vector<Entry>& out) const;
  std::uint64_t draw(std::uint64_t step, std::uint64_t below) const;

  void count_class(const Traits& traits, const WorkerClass& its_class, Tally& tally) const;
  std::int64_t count_pool(const Pool& pool, Tally& tally) const;
  void note(const Scope& scope, Offers& offers) const;

  const PlacementPolicy& policy_;
  const PlacementRequest& request_;
  Demand demand_;
  std::uint64_t seed_;
};

}  // namespace sandboxkit::policy
