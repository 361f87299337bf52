#pragma once

#include "sandboxkit/placement.h"

#include "policy/placement_blocks.h"
#include "policy/placement_rules.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace sandboxkit::policy {

/// How many workers each filter refused.
using Tally = std::array<std::int64_t, static_cast<std::size_t>(Filter::kStartSlots) + 1>;

inline std::int64_t& of(Tally& tally, Filter filter) {
  return tally[static_cast<std::size_t>(filter)];
}

/// One worker in a pool: the numbers that decide, side by side, so that most workers are passed
/// over without a look at their views.
struct Entry {
  double load = 0;
  std::uint64_t hash = 0;  ///< Of the id.
  const WorkerView* view = nullptr;
  Room room{};
};

/// `view` must stay where it is while the entry is in use.
Entry entry_of(const PlacementPolicy& policy, const WorkerView& view);

struct ByHash {
  bool operator()(const Entry& a, const Entry& b) const {
    return a.hash != b.hash ? a.hash < b.hash : a.view->id < b.view->id;
  }
};

/// The fullest first.
struct ByLoad {
  bool operator()(const Entry& a, const Entry& b) const {
    return a.load != b.load ? a.load > b.load : ByHash{}(a, b);
  }
};

/// What a demand can be held against without a look at the entries. Bounds, not values: a sum of
/// doubles is not exact, and a worker with room must never be passed over.
class Summary {
 public:
  void add(const Entry& entry);

  std::int64_t open() const { return at(Room::Gate::kOpen); }
  std::int64_t at(Room::Gate gate) const { return gates_[static_cast<std::size_t>(gate)]; }
  /// False only when no entry can take the demand now.
  bool may_fit(const Demand& demand) const;
  /// Counts the entries' refusals when the demand is refused by all of them and each gate's have
  /// one reason. False, and nothing counted, when that cannot be told from here.
  bool count_refusals(const Demand& demand, Tally& tally) const;
  double most_cpu_limit() const { return most_cpu_limit_; }
  double most_memory_limit() const { return most_memory_limit_; }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  std::array<std::int64_t, Room::kGates> gates_{};
  double least_cpu_limit_ = kInfinity;
  double most_cpu_limit_ = 0;
  double least_memory_limit_ = kInfinity;
  double most_memory_limit_ = 0;
  // Of open entries. `shapes_` holds one bit for each pair of a level of free cores and a level of
  // free memory: apart, the two maxima may belong to two workers of which neither fits.
  double open_cpu_ = -kInfinity;
  double open_memory_ = -kInfinity;
  std::uint64_t shapes_ = 0;
  // Of entries that only cores, memory or start slots can refuse.
  double least_cpu_ = kInfinity;
  double most_cpu_ = -kInfinity;
  double most_memory_ = -kInfinity;
};

using HashList = BlockList<Entry, ByHash, Summary>;
using LoadList = BlockList<Entry, ByLoad, Summary>;

/// Workers that the same requests may use, found by draw and by load.
class Pool {
 public:
  void insert(const Entry& entry);
  void erase(const Entry& entry);
  /// `before` and `after` are of the same worker.
  void change(const Entry& before, const Entry& after);

  std::size_t size() const { return by_hash_.size(); }
  bool empty() const { return by_hash_.empty(); }
  std::int64_t open() const;
  const HashList& by_hash() const { return by_hash_; }
  const LoadList& by_load() const { return by_load_; }

 private:
  HashList by_hash_;
  LoadList by_load_;
};

}  // namespace sandboxkit::policy
