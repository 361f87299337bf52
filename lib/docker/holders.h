#pragma once

#include "docker/engine_client.h"
#include "docker/labels.h"
#include "docker/ready_pool.h"

#include <functional>
#include <string>

namespace sandboxkit::docker {

/// The body that creates a holder. Pure.
json::Value holder_body(const Owner& owner, const std::string& image);

/// Makes holders: containers without a network that wait, each to lend its network namespace to one
/// sandbox, because the engine takes most of a start's time to make one. A holder is removed as
/// soon as the sandbox runs in its namespace; the engine then lets nobody connect that namespace to
/// a network any more.
/// Ownership: borrows the engine.
ReadyPool::Maker holder_maker(EngineClient& engine, const Owner& owner,
                              std::function<Result<std::string>()> image);

}  // namespace sandboxkit::docker
