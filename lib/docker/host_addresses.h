#pragma once

#include "sandboxkit/result.h"

#include "docker/subnets.h"

#include <vector>

namespace sandboxkit::docker {

/// The IPv4 addresses of this machine but loopback, each as a block of its own.
/// Errors: kUnavailable.
Result<std::vector<Subnet>> host_addresses();

}  // namespace sandboxkit::docker
