#pragma once

#include "sandboxkit/docker_driver.h"

#include "docker/engine_client.h"
#include "docker/fleet.h"

namespace sandboxkit::docker {

/// What this engine is and can do. `egress.internal-net` is listed only after a throw-away walled
/// sandbox was built on it, the engine said the right things about its network (internal, no IPv6,
/// no address of this machine in it), and a program inside of it tried to get out and could not:
/// this machine's addresses, the wall's gateway, the engine's resolver, a raw packet socket. Not
/// tried: multicast and broadcast, which engine 20.10 lets through to this machine one way.
/// `egress.isolated-ns` likewise, after only loopback was seen and only its own proxy reached.
/// `egress` stands for either. Only what `wanted` allows is tried, side by side; the fleet learns
/// what stood. Blocking: a walled create, some seconds of tries, and a removal.
Result<DriverCapabilities> probe_engine(EngineClient& engine, Fleet& fleet, EgressStructure wanted);

}  // namespace sandboxkit::docker
