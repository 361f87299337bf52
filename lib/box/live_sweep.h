#pragma once

#include "sandboxkit/box_changes.h"
#include "sandboxkit/box_plan.h"
#include "sandboxkit/gate.h"

#include <cstdint>

namespace sandboxkit::box {

/// What a box was planned with.
struct JudgedBy {
  const BoxPlan& plan;
  const PermissionGate& gate;
  const GateGrants& grants;
  const FileEyes& eyes;
  WallTime now;
};

/// Looks through the places that a live run could write, and sets apart what came to be under names
/// that the gate denies. Errors: as sweep_box_places. Source: case 92 of the gate's design.
Result<BoxSweep> sweep_live_run(const JudgedBy& by, std::int64_t began_ns);

}  // namespace sandboxkit::box
