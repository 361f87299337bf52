#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace sandboxkit::guest {

/// SHA-256 of a short text: the guest is static and links no cryptographic library for one digest.
/// Source: FIPS 180-4.
std::array<std::uint8_t, 32> sha256(std::string_view text);

}  // namespace sandboxkit::guest
