#pragma once

namespace sandboxkit {

/// Weakening: the sandbox may reach whatever its worker's network reaches.
/// A header of its own, so that `grep -r sandboxkit/relax` lists every weakening in a program.
struct UnwalledEgress {
  explicit UnwalledEgress() = default;
};

}  // namespace sandboxkit
