#include "box/live_sweep.h"

#include "gate/path_text.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace sandboxkit::box {
namespace {

/// The outermost of the places that may be written.
std::vector<std::string> live_places(const BoxPlan& plan) {
  std::vector<std::string> out;
  for (const BoxPlace& place : plan.places) {
    const bool is_inner = std::ranges::any_of(
        out, [&](const std::string& outer) { return gate::covers(outer, place.path); });
    if (place.access == BoxAccess::kReadWrite && !is_inner) {
      out.push_back(place.path);
    }
  }
  return out;
}

/// Whether mounts kept it while the box ran: who changed it was not the box. The nearest place
/// above it says so, and it comes last.
bool was_kept(const BoxPlan& plan, const std::string& path) {
  const auto nearest =
      std::find_if(plan.places.rbegin(), plan.places.rend(),
                   [&](const BoxPlace& place) { return gate::covers(place.path, path); });
  return nearest != plan.places.rend() &&
         (nearest->access == BoxAccess::kReadOnly || nearest->access == BoxAccess::kHide ||
          nearest->access == BoxAccess::kAbsent);
}

}  // namespace

Result<BoxSweep> sweep_live_run(const JudgedBy& by, std::int64_t began_ns) {
  return sweep_box_places(live_places(by.plan), began_ns, [&](const BoxChange& change) {
    if (was_kept(by.plan, change.path)) {
      return std::string();
    }
    // As if it were made now, whatever was done to it.
    GateItem made{.operation = GateOperation::kCreate, .target = change.path};
    if (change.type == FileType::kLink) {
      made.operation = GateOperation::kSymlink;
      made.to = change.link;
    }
    const GateRequest request{.cwd = "/", .items = {std::move(made)}};
    const GateItemDecision decision = by.gate.decide(request, by.grants, by.eyes, by.now).decisive;
    return decision.answer == GateAnswer::kDeny ? "denied (" + decision.rule + ")" : std::string();
  });
}

}  // namespace sandboxkit::box
