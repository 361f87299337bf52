#pragma once

#include "sandboxkit/sandbox_spec.h"

namespace sandboxkit::policy {

/// Whether each secret of the spec can be lent to that sandbox: its policy allows the domain, and
/// no two secrets, nor a secret and a variable of `env`, want one place.
/// Errors: kInvalidArgument, `field` as `secrets[2].domain`; no message holds a value.
Status check_secrets(const SandboxSpec& spec);

}  // namespace sandboxkit::policy
