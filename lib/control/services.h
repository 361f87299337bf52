#pragma once

#include "control/audit_keeper.h"
#include "control/auth.h"
#include "control/context.h"
#include "control/deliverer.h"
#include "control/fleet.h"
#include "control/rows.h"
#include "control/waiters.h"

namespace sandboxkit::control {

/// The parts that routes work with. All live as long as the controller.
struct Services {
  Context& context;
  Authenticator& authenticator;
  Waiters& waiters;
  Fleet& fleet;
  Deliverer& deliverer;
  AuditKeeper& audit;
};

/// A line of the audit log, written in the action's own transaction.
inline store::AuditRow audit_row(const Context& context, const Caller& caller, const char* action,
                                 const std::string& target) {
  return {0,      context.clock.now(), caller.tenant,          caller.credential, action, target,
          "done", caller.address,      caller.trace.request_id};
}

}  // namespace sandboxkit::control
