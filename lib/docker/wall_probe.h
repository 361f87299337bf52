#pragma once

#include "sandboxkit/docker_driver.h"

#include "docker/engine_client.h"
#include "docker/fleet.h"

namespace sandboxkit::docker {

/// What this engine is and can do. `egress` is listed only after a throw-away walled sandbox was
/// built on it, its guest and its proxy answered, and what the engine then said about it was right:
/// internal network without IPv6, no address of the host in the wall's subnet, sandbox on that
/// network alone.
/// Blocking: a walled create and a removal (some seconds).
Result<DriverCapabilities> probe_engine(EngineClient& engine, Fleet& fleet,
                                        const DockerDriverConfig& config);

}  // namespace sandboxkit::docker
