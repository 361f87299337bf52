#pragma once

#include "sandboxkit/clock.h"

#include "json/value.h"

#include <cstddef>
#include <string>

namespace sandboxkit::cli {

/// The isolation card for people: a block a topic, each statement with how it is known. Lines are
/// broken at `width` columns; 0: not at all.
std::string card_text(const json::Value& card, WallTime now, std::size_t width);

}  // namespace sandboxkit::cli
