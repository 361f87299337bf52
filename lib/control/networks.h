#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sandboxkit::control {

/// A block as `ADDRESS/BITS` with nothing after its bits; an address alone is a block of one.
/// nullopt: it is none.
std::optional<std::string> canonical_network(std::string_view text);

/// Whether a peer's address lies in one of the blocks of a JSON array; "" as list holds everything.
/// A list or an address that cannot be read holds nothing.
bool in_networks(const std::string& list, std::string_view address);

}  // namespace sandboxkit::control
