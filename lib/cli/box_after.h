#pragma once

#include "sandboxkit/box_changes.h"
#include "sandboxkit/gate.h"

#include <string>

namespace sandboxkit::cli {

/// What a run is judged by when it has ended.
struct BoxAfter {
  const BoxPlan& plan;
  const PermissionGate& gate;
  const GateGrants& grants;
  /// A person looks at the changes before they are made.
  bool review;
};

/// Tells the changes of a staged run, makes those that the gate allows, and says which not. What
/// was refused stays in the run's folder, which is named then.
void finish_staged(const BoxAfter& after, const BoxStaged& staged);

/// Sets apart what a live run made under names that nobody may make, and tells what changed.
void finish_live(const BoxAfter& after, std::int64_t began_ns);

}  // namespace sandboxkit::cli
