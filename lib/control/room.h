#pragma once

#include "sandboxkit/controller.h"

#include "policy/admission.h"
#include "store/store.h"

#include <optional>
#include <string>

namespace sandboxkit::control {

/// Whether one more sandbox may live. Inside of the transaction that lets it.

struct LimitCheck {
  /// What forbids it.
  std::optional<policy::Excess> excess{};
  /// The workspace's own limits; where it has none the deployment's count.
  policy::Budget own{};
};

/// The limits of the workspace, and of the credential that made or makes the sandbox.
Result<LimitCheck> check_limits(store::Tx& tx, const ControllerConfig& config,
                                const std::string& tenant, const std::string& credential,
                                const policy::Usage& wanted);

/// Whether a sandbox that was given up for lost may live again: by then others may have what it
/// had, its place on the worker or in its workspace's limits. (Its name is the store's to guard.)
Result<bool> may_return(store::Tx& tx, const ControllerConfig& config,
                        const store::SandboxRow& row);

}  // namespace sandboxkit::control
