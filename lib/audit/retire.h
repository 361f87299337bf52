#pragma once

#include "sandboxkit/clock.h"

#include "audit/line.h"

#include <cstddef>
#include <vector>

namespace sandboxkit::audit {

/// More go with the next day.
inline constexpr std::size_t kMaxRetiredAtOnce = 256;

/// The sealed segments whose seal is older than `before`, from the beginning of each chain on, of
/// this writer and of others. A segment that somebody may still write never is one.
Result<std::vector<Retirement>> retirable(int folder, WallTime before);

/// Removes what a record on the disk names; a chain that has ended loses its head with its last
/// segment. What cannot be removed stays, and harms nothing.
void remove_retired(int folder, const std::vector<Retirement>& retired);

}  // namespace sandboxkit::audit
