#include "guest/byte_range.h"

#include "base/text.h"

#include <algorithm>
#include <limits>

namespace sandboxkit::guest {
namespace {

std::optional<std::uint64_t> digits(std::string_view text) {
  // A number may have leading zeros here.
  while (text.size() > 1 && text.front() == '0') {
    text.remove_prefix(1);
  }
  return parse_decimal(text, std::numeric_limits<std::int64_t>::max());
}

}  // namespace

RangeDecision decide_range(std::string_view field, std::uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  const auto dash = field.find('-');
  if (!field.starts_with(kUnit) || dash == std::string_view::npos ||
      field.find(',') != std::string_view::npos) {
    return {};
  }
  const auto from = trim(field.substr(kUnit.size(), dash - kUnit.size()));
  const auto to = trim(field.substr(dash + 1));
  const auto first = digits(from);
  const auto last = digits(to);
  if (from.empty() && last) {  // the last n bytes
    const std::uint64_t length = std::min(*last, size);
    return length == 0 ? RangeDecision{RangeAnswer::kUnsatisfiable, {}}
                       : RangeDecision{RangeAnswer::kPart, {size - length, length}};
  }
  if (!first || (!to.empty() && !last) || (last && *last < *first)) {
    return {};
  }
  if (*first >= size) {
    return {RangeAnswer::kUnsatisfiable, {}};
  }
  const std::uint64_t end = last ? std::min(*last + 1, size) : size;
  return {RangeAnswer::kPart, {*first, end - *first}};
}

}  // namespace sandboxkit::guest
