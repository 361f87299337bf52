#pragma once

#include "sandboxkit/placement.h"

#include <string>

#include <doctest/doctest.h>

namespace sandboxkit::policy_test {

inline TenantId tenant(const std::string& id) { return *TenantId::parse(id); }

/// A ready worker of a tenant ("" for the unscoped fleet) with room for a few small sandboxes.
inline WorkerView worker(const std::string& id, const std::string& owner) {
  WorkerView view{
      .id = *WorkerId::parse(id),
      .scope = owner.empty() ? WorkerScope::every_tenant() : WorkerScope::only(tenant(owner))};
  view.cpu_cores = 4;
  view.memory_mb = 4096;
  return view;
}

inline PlacementRequest request(const std::string& owner) {
  return PlacementRequest{.tenant = tenant(owner), .image = "base"};
}

inline const Placement* placed(const Decision& decision) {
  return std::get_if<Placement>(&decision);
}

inline const Refusal* refused(const Decision& decision) { return std::get_if<Refusal>(&decision); }

inline std::string worker_of(const Decision& decision) {
  const auto* placement = placed(decision);
  return placement != nullptr ? placement->worker().str() : "refused";
}

/// What a placement takes from its worker.
inline void apply(WorkerView& view, const PlacementRequest& wanted) {
  view.sandboxes += 1;
  view.starting += 1;
  view.used_cpu_cores += wanted.cpu_cores;
  view.used_memory_mb += wanted.memory_mb;
  const auto warm = view.warm.find(wanted.image);
  if (warm != view.warm.end() && warm->second > 0) {
    warm->second -= 1;
  }
}

}  // namespace sandboxkit::policy_test
