#pragma once

#include "sandboxkit/ids.h"
#include "sandboxkit/placement.h"

#include <cstddef>
#include <memory>

namespace sandboxkit {

/// A fleet that is kept from decision to decision, so that one need not look at every worker.
///
/// Which worker is chosen follows from the set of views and the seed alone, whatever the order of
/// the calls that led to the set.
/// Blocking: never. Thread-safety: like a container: const members, and `Scheduler::schedule` over
/// it, may run side by side; a change must be alone.
class SANDBOXKIT_API FleetIndex final {
 public:
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
