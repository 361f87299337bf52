#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sandboxkit::guest {

struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t length = 0;
};

enum class RangeAnswer : std::uint8_t { kWhole, kPart, kUnsatisfiable };

struct RangeDecision {
  RangeAnswer answer = RangeAnswer::kWhole;
  ByteRange range{};
};

/// What a `Range` field asks of a file of `size` bytes. One range of bytes is served; several, or a
/// form that we do not know, are ignored as the RFC allows.
/// Source: RFC 9110, section 14.
RangeDecision decide_range(std::string_view field, std::uint64_t size);

}  // namespace sandboxkit::guest
