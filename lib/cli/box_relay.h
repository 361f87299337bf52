#pragma once

#include "sandboxkit/box.h"

namespace sandboxkit::cli {

/// From here on the signals that a person sends are heard by `relay_box` alone. Before the box
/// starts, and before any thread.
void hold_signals();

/// Stands between a box and our standard descriptors until its command ended: passes signals, and
/// with a terminal keys, output and its size. A second signal that asks for the end kills the box.
Result<BoxEnd> relay_box(Box& box);

}  // namespace sandboxkit::cli
