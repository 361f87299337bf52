#pragma once

#include "sandboxkit/result.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace sandboxkit::policy {

inline constexpr std::size_t kMaxNameBytes = 253;
inline constexpr std::size_t kMaxLabelBytes = 63;

/// A DNS name in lower case, without a final dot. Letters, digits, `-` (not at a label's ends) and
/// `_` only; the last label is no number, so the odd spellings of addresses never pass as names.
/// Errors: kInvalidArgument, whose message says what is wrong and how to write it.
Result<std::string> parse_name(std::string_view text);

/// Whether `label` (lower case, `xn--...`) decodes to a text with a character outside of ASCII.
/// Source: RFC 3492.
bool is_punycode_label(std::string_view label);

}  // namespace sandboxkit::policy
