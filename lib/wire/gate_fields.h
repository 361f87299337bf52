#pragma once

#include "sandboxkit/gate_request.h"
#include "sandboxkit/result.h"

#include "json/reader.h"

#include <cstddef>
#include <set>

namespace sandboxkit::wire {

/// What the owner's files of the gate have in common.
inline constexpr std::size_t kMaxGateText = 4096;

/// The member `op`: names of operations, and `all` and `changes` for many.
Result<std::set<GateOperation>> read_operations(json::Reader& reader);

/// The member `version`, which is 1.
Status check_version(json::Reader& reader);

}  // namespace sandboxkit::wire
