#pragma once

#include "sandboxkit/sandbox_spec.h"

#include <span>
#include <string_view>

namespace sandboxkit::policy {

/// What a profile is in a container. One table: what a driver orders is what the card says.
struct Hardening {
  std::string_view user;  ///< `uid:gid` of the first process.
  bool no_new_privileges;
  std::span<const std::string_view> capabilities;  ///< All others are dropped.
};

/// Pure.
Hardening hardening_of(HardeningProfile profile);

/// Whether a runtime of that name runs its containers on the kernel of their host; false also for
/// one that we do not know, and for "": the engine's default. Pure.
bool shares_kernel(std::string_view runtime);

}  // namespace sandboxkit::policy
