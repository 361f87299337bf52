#include "policy/placement_search.h"

#include "policy/placement_choice.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::policy {
namespace {

void add_once(std::vector<const WorkerView*>& found, const WorkerView* worker) {
  if (std::ranges::find(found, worker) == found.end()) {
    found.push_back(worker);
  }
}

FilterCounts counts_of(const Tally& tally) {
  FilterCounts counts;
  for (std::size_t i = 0; i < tally.size(); ++i) {
    if (tally[i] > 0) {
      counts.emplace(static_cast<Filter>(i), tally[i]);
    }
  }
  return counts;
}

}  // namespace

const Pool* Search::pool_of(const WorkerClass& its_class) const {
  const Pool* rarest = &its_class.all;
  for (const auto& label : request_.labels) {
    const auto found = its_class.by_label.find(Label(label));
    if (found == its_class.by_label.end()) {
      return nullptr;
    }
    if (found->second.size() <= rarest->size()) {
      rarest = &found->second;
    }
  }
  return rarest;
}

std::vector<Search::Match> Search::matches_in(const Scope& scope) const {
  std::vector<Match> matches;
  for (const auto& [traits, its_class] : scope.classes) {
    if (!traits_refusal(traits, request_)) {
      if (const Pool* pool = pool_of(its_class)) {
        matches.push_back({pool, pool->open()});
      }
    }
  }
  return matches;
}

bool Search::has_other_labels(const Entry& entry) const {
  return request_.labels.size() <= 1 || has_labels(*entry.view, request_);
}

bool Search::takes(const Entry& entry) const {
  return !room_refusal(entry.room, demand_) && has_other_labels(entry);
}

std::uint64_t Search::draw(std::uint64_t step, std::uint64_t below) const {
  return mix(mix(seed_) + step * 0x9e3779b97f4a7c15U) % below;
}

std::vector<const WorkerView*> Search::candidates_in(const Scope& scope) const {
  const std::vector<Match> matches = matches_in(scope);
  std::int64_t open = 0;
  for (const Match& match : matches) {
    open += match.open;
  }
  Found found;
  if (policy_.candidates == 0 || open <= static_cast<std::int64_t>(FleetIndex::kLookedAtWhole)) {
    take_all(matches, found);
    return found;
  }
  if (policy_.strategy == PlacementStrategy::kPack) {
    take_fullest(matches, found);
  } else {
    take_drawn(matches, found);
  }
  if (!found.empty()) {
    take_holders(scope.warm, found);
    take_holders(scope.images, found);
  }
  return found;
}

void Search::take_all(const std::vector<Match>& matches, Found& found) const {
  for (const Match& match : matches) {
    for (const auto& block : match.pool->by_hash().blocks()) {
      if (!block.summary.may_fit(demand_)) {
        continue;
      }
      for (const Entry& entry : block.entries) {
        if (takes(entry)) {
          found.push_back(entry.view);
        }
      }
    }
  }
}

/// Each draw takes an open worker of all the pools, and from there the next one that fits. A pool
/// where none does takes part no longer.
void Search::take_drawn(std::vector<Match> matches, Found& found) const {
  std::int64_t open = 0;
  for (const Match& match : matches) {
    open += match.open;
  }
  std::size_t taken = 0;
  for (std::uint64_t step = 0; taken < policy_.candidates && open > 0; ++step) {
    auto rank = static_cast<std::int64_t>(draw(step, static_cast<std::uint64_t>(open)));
    auto match = matches.begin();
    for (; rank >= match->open; ++match) {
      rank -= match->open;
    }
    if (const Entry* entry = first_fit(match->pool->by_hash(), static_cast<std::uint64_t>(rank))) {
      add_once(found, entry->view);
      ++taken;
    } else {
      open -= std::exchange(match->open, 0);
    }
  }
}

/// The first that fits from the open entry of that rank on, cyclic in the order of the hashes.
const Entry* Search::first_fit(const HashList& list, std::uint64_t rank) const {
  const auto& blocks = list.blocks();
  std::size_t start = 0;
  auto left = static_cast<std::int64_t>(rank);
  for (; left >= blocks[start].summary.open(); ++start) {
    left -= blocks[start].summary.open();
  }
  // The first block comes twice: from the drawn entry on, and whole at the end.
  for (std::size_t step = 0; step <= blocks.size(); ++step) {
    const auto& block = blocks[(start + step) % blocks.size()];
    if (!block.summary.may_fit(demand_)) {
      continue;
    }
    for (const Entry& entry : block.entries) {
      const bool passed = step == 0 && left > 0;
      if (passed) {
        left -= entry.room.gate == Room::Gate::kOpen ? 1 : 0;
      } else if (takes(entry)) {
        return &entry;
      }
    }
  }
  return nullptr;
}

void Search::take_fullest(const std::vector<Match>& matches, Found& found) const {
  std::vector<Entry> fullest;
  for (const Match& match : matches) {
    append_fullest(match.pool->by_load(), fullest);
  }
  std::ranges::sort(fullest, ByLoad{});
  for (const Entry& entry : fullest) {
    if (found.size() < policy_.candidates) {
      found.push_back(entry.view);
    }
  }
}

void Search::append_fullest(const LoadList& list, std::vector<Entry>& out) const {
  const std::size_t wanted = out.size() + policy_.candidates;
  for (const auto& block : list.blocks()) {
    if (!block.summary.may_fit(demand_)) {
      continue;
    }
    for (const Entry& entry : block.entries) {
      if (takes(entry)) {
        out.push_back(entry);
        if (out.size() == wanted) {
          return;
        }
      }
    }
  }
}

/// From a drawn holder on, so that not the same ones are looked at each time.
void Search::take_holders(const Holders& holders, Found& found) const {
  const auto of_image = holders.find(request_.image);
  if (of_image == holders.end()) {
    return;
  }
  const auto& blocks = of_image->second.blocks();
  std::size_t rank = draw(0, of_image->second.size());
  std::size_t at = 0;
  for (; rank >= blocks[at].entries.size(); ++at) {
    rank -= blocks[at].entries.size();
  }
  std::size_t looks = std::min(of_image->second.size(), FleetIndex::kMaxHolders);
  for (std::size_t taken = 0; looks > 0 && taken < policy_.candidates; --looks) {
    const Node& node = *blocks[at].entries[rank].node;
    // The numbers first: they lie closer than the view.
    if (takes(node.entry) && !first_refusal(policy_, request_, node.view)) {
      add_once(found, &node.view);
      ++taken;
    }
    if (++rank == blocks[at].entries.size()) {
      rank = 0;
      at = (at + 1) % blocks.size();
    }
  }
}

Refusal Search::refusal_by(const std::vector<const Scope*>& scopes) const {
  Tally tally{};
  for (const Scope* scope : scopes) {
    for (const auto& [traits, its_class] : scope->classes) {
      count_class(traits, its_class, tally);
    }
  }
  FilterCounts counts = counts_of(tally);
  Offers offers(request_);
  if (!some_could(counts)) {
    for (const Scope* scope : scopes) {
      note(*scope, offers);
    }
  }
  return refuse(policy_, std::move(counts), offers);
}

void Search::count_class(const Traits& traits, const WorkerClass& its_class, Tally& tally) const {
  const auto workers = static_cast<std::int64_t>(its_class.all.size());
  if (const auto refused_by = traits_refusal(traits, request_)) {
    of(tally, *refused_by) += workers;
    return;
  }
  const Pool* pool = pool_of(its_class);
  of(tally, Filter::kLabels) += workers - (pool != nullptr ? count_pool(*pool, tally) : 0);
}

/// How many have the labels; they are counted.
std::int64_t Search::count_pool(const Pool& pool, Tally& tally) const {
  std::int64_t labelled = 0;
  // By load: workers of one block are full of the same more often than workers of one hash.
  for (const auto& block : pool.by_load().blocks()) {
    if (request_.labels.size() <= 1 && block.summary.count_refusals(demand_, tally)) {
      labelled += static_cast<std::int64_t>(block.entries.size());
      continue;
    }
    for (const Entry& entry : block.entries) {
      if (has_other_labels(entry)) {
        ++labelled;
        if (const auto refused_by = room_refusal(entry.room, demand_)) {
          ++of(tally, *refused_by);
        }
      }
    }
  }
  return labelled;
}

void Search::note(const Scope& scope, Offers& offers) const {
  for (const auto& [traits, its_class] : scope.classes) {
    offers.note_traits(traits);
    for (const auto& label : request_.labels) {
      if (its_class.by_label.contains(Label(label))) {
        offers.note_label(label.first);
      }
    }
    for (const auto& block : its_class.all.by_load().blocks()) {
      offers.note_limits(block.summary.most_cpu_limit(), block.summary.most_memory_limit());
    }
  }
}

}  // namespace sandboxkit::policy
