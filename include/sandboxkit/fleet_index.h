#pragma once

#include "sandboxkit/ids.h"
#include "sandboxkit/placement.h"

#include <cstddef>
#include <memory>

namespace sandboxkit {

/// A fleet that is kept from decision to decision, so that one need not look at every worker.
///
/// A decision over it places when and only when the decision over all the views does, and refuses
/// with the same code, counts and missing need. Where the tenant may use at most `kLookedAtWhole`
/// workers, it is the same decision. In larger fleets the candidates are drawn (spreading: from the
/// workers with a free start slot, each draw taking the next one that fits) or the fullest that fit
/// (packing), `PlacementPolicy::candidates` of them, and with them those that fit among
/// `kMaxHolders` workers that have a warm sandbox of the image, and as many that have the image. An
/// own worker comes before an unscoped one always.
///
/// Which worker is chosen follows from the set of views and the seed alone, whatever the order of
/// the calls that led to the set.
/// Blocking: never. Thread-safety: like a container: const members, and `Scheduler::schedule` over
/// it, may run side by side; a change must be alone.
class SANDBOXKIT_API FleetIndex final {
 public:
  static constexpr std::size_t kLookedAtWhole = 64;
  static constexpr std::size_t kMaxHolders = 64;

  /// `policy`: of the scheduler that will decide over it; its overcommit is part of the index.
  explicit FleetIndex(PlacementPolicy policy);
  ~FleetIndex();
  FleetIndex(FleetIndex&&) noexcept;
  FleetIndex& operator=(FleetIndex&&) noexcept;

  /// Inserts the worker, or replaces what is known about it.
  void put(WorkerView worker);
  /// False when there is none of that id.
  bool erase(const WorkerId& id);

  /// Valid until that worker is next put or erased.
  const WorkerView* find(const WorkerId& id) const;
  std::size_t size() const;
  const PlacementPolicy& policy() const;

 private:
  friend class Scheduler;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandboxkit
