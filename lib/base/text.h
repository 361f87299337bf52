#pragma once

#include "sandboxkit/clock.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit {

/// True when the time to compare does not depend on where the texts differ.
bool equal_constant_time(std::string_view a, std::string_view b);

std::string to_hex(std::span<const std::uint8_t> bytes);
std::string base64_encode(std::string_view bytes);
/// Standard alphabet with padding; nullopt for anything else.
std::optional<std::string> base64_decode(std::string_view text);

/// `%41` and, where asked for, `+`; nullopt for a broken escape.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space);

/// Well-formed UTF-8 (no surrogates, no overlong forms).
bool is_utf8(std::string_view text);
/// Has a byte below 0x20 or 0x7f, or a C1 control or bidirectional-override character in UTF-8.
bool has_control_characters(std::string_view text);

/// `text` in backticks, cut at 80 bytes, controls as \xNN: for error messages.
std::string quoted(std::string_view text);

std::string ascii_lower(std::string_view text);
bool equal_ignoring_case(std::string_view a, std::string_view b);
std::string_view trim(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);

/// Decimal digits only, no sign, no leading zeros but "0" itself; nullopt above `max`.
std::optional<std::uint64_t> parse_decimal(std::string_view text, std::uint64_t max);

/// `2026-11-29T12:00:00.000Z`.
std::string to_rfc3339(WallTime time);
std::optional<WallTime> parse_rfc3339(std::string_view text);

}  // namespace sandboxkit
