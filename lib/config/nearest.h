#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sandboxkit::config {

/// Insertions, deletions, replacements and swaps of neighbours that lead from one to the other.
std::size_t edit_distance(std::string_view from, std::string_view to);

/// The known name that was probably meant, or "" when none is near: more than one slip in three
/// characters is another word. The first of equals.
std::string nearest(std::string_view name, std::span<const std::string> known);

/// `; did you mean X?` for the nearest, or "".
std::string did_you_mean(std::string_view name, std::span<const std::string> known);

}  // namespace sandboxkit::config
