#include "config/values.h"

#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <system_error>

namespace sandboxkit::config {
namespace {

/// Beyond this many digits a fraction says nothing more, and a number is out of each range.
constexpr std::size_t kMaxDigits = 15;

bool are_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) {
    text.remove_prefix(1);
  }
  const auto value = parse_decimal(text, std::numeric_limits<std::int64_t>::max());
  if (!value || (negative && *value == 0)) {
    return std::nullopt;
  }
  const auto magnitude = static_cast<std::int64_t>(*value);
  return negative ? -magnitude : magnitude;
}

std::optional<double> parse_amount(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::string_view whole = digits.substr(0, point);
  const bool leading_zero = whole.size() > 1 && whole.front() == '0';
  if (!are_digits(whole) || leading_zero || text.size() > kMaxDigits ||
      (point < digits.size() && !are_digits(digits.substr(point + 1)))) {
    return std::nullopt;
  }
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::string to_text(double value) {
  std::array<char, 400> buffer{};
  const auto [end, problem] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  return problem == std::errc{} ? std::string(buffer.data(), end) : "?";
}

}  // namespace sandboxkit::config
