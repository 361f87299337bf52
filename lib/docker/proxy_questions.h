#pragma once

#include "sandboxkit/driver.h"
#include "sandboxkit/result.h"

#include "docker/helper_link.h"
#include "egress/config.h"

#include <vector>

namespace sandboxkit::docker {

/// What a sandbox's proxy refused so far. Errors: kUnavailable, and what the link says.
Result<std::vector<DeniedEgress>> ask_denied(HelperLink& proxy);

/// Has a proxy narrow its policy; its file is written before. Errors: kConflict `policy_widens`
/// when a narrower one is in force; kUnavailable, and what the link says.
Status tell_narrowed(HelperLink& proxy, const egress::NarrowedPolicy& narrowed);

}  // namespace sandboxkit::docker
