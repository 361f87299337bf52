#pragma once

#include "sandboxkit/gate.h"

#include "gate/access.h"

namespace sandboxkit::gate {

/// The gate's decision read off plainly: every rule and every grant is compared, and each denied
/// place is looked at anew. What tests and benchmarks compare the narrowed one with.
struct PlainScan {
  static GateDecision decide(const PermissionGate& gate, const GateRequest& request,
                             const GateGrants& grants, const FileEyes& eyes, WallTime now);
};

}  // namespace sandboxkit::gate
