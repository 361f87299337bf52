#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sandboxkit::config {

/// Decimal digits with an optional minus; no plus, no leading zero, no separators, so that nothing
/// reads as octal or as something that the writer did not mean.
std::optional<std::int64_t> parse_integer(std::string_view text);
/// As an integer, with an optional fraction; no exponent, no infinity.
std::optional<double> parse_amount(std::string_view text);
/// The shortest decimal form without an exponent that reads back the same.
std::string to_text(double value);

}  // namespace sandboxkit::config
