#include "policy/egress_name.h"

#include "base/text.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

namespace sandboxkit::policy {
namespace {

constexpr std::string_view kPunycodePrefix = "xn--";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex_digit(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }
bool is_name_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_';
}

/// As the URL standard's "ends in a number": C libraries read such names as addresses.
bool is_numeric_label(std::string_view label) {
  if (label.starts_with("0x")) {
    return std::ranges::all_of(label.substr(2), is_hex_digit);
  }
  return std::ranges::all_of(label, is_digit);
}

Error bad_name(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Status check_label(std::string_view label, std::string_view name) {
  if (label.empty()) {
    return bad_name(quoted(name) + " has an empty label; write it without the extra dot");
  }
  if (label.size() > kMaxLabelBytes) {
    return bad_name(quoted(name) + " has a label of more than 63 bytes");
  }
  for (const char c : label) {
    if (static_cast<unsigned char>(c) >= 0x80) {
      return bad_name(quoted(name) + " is not ASCII; write each such label in its `xn--` form");
    }
    if (!is_name_character(c)) {
      return bad_name(quoted(name) + " has " + quoted(std::string_view(&c, 1)) +
                      ", which is no part of a DNS name");
    }
  }
  if (label.front() == '-' || label.back() == '-') {
    return bad_name(quoted(name) + " has a label that begins or ends with `-`");
  }
  if (label.starts_with(kPunycodePrefix) && !is_punycode_label(label)) {
    return bad_name(quoted(name) + " has an `xn--` label that decodes to nothing");
  }
  return {};
}

namespace punycode {

constexpr std::uint32_t kBase = 36;
constexpr std::uint32_t kTMin = 1;
constexpr std::uint32_t kTMax = 26;
constexpr std::uint32_t kSkew = 38;
constexpr std::uint32_t kDamp = 700;
constexpr std::uint32_t kInitialBias = 72;
constexpr std::uint32_t kInitialN = 0x80;
constexpr std::uint32_t kLastCodePoint = 0x10ffff;

std::optional<std::uint32_t> digit_value(char c) {
  if (c >= 'a' && c <= 'z') {
    return static_cast<std::uint32_t>(c - 'a');
  }
  if (is_digit(c)) {
    return static_cast<std::uint32_t>(c - '0' + 26);
  }
  return std::nullopt;
}

std::uint32_t adapted_bias(std::uint32_t delta, std::uint32_t points, bool first) {
  delta = first ? delta / kDamp : delta / 2;
  delta += delta / points;
  std::uint32_t k = 0;
  while (delta > ((kBase - kTMin) * kTMax) / 2) {
    delta /= kBase - kTMin;
    k += kBase;
  }
  return k + (kBase - kTMin + 1) * delta / (delta + kSkew);
}

/// Reads one generalized variable-length integer from the front of `digits`.
std::optional<std::uint32_t> take_integer(std::string_view& digits, std::uint32_t bias) {
  std::uint64_t value = 0;
  std::uint64_t weight = 1;
  for (std::uint32_t k = kBase;; k += kBase) {
    if (digits.empty()) {
      return std::nullopt;
    }
    const auto digit = digit_value(digits.front());
    digits.remove_prefix(1);
    if (!digit) {
      return std::nullopt;
    }
    value += *digit * weight;
    const std::uint32_t threshold = k <= bias ? kTMin : std::min(kTMax, k - bias);
    if (value > std::numeric_limits<std::uint32_t>::max() / 2) {
      return std::nullopt;
    }
    if (*digit < threshold) {
      return static_cast<std::uint32_t>(value);
    }
    weight *= kBase - threshold;
    if (weight > std::numeric_limits<std::uint32_t>::max()) {
      return std::nullopt;
    }
  }
}

}  // namespace punycode
}  // namespace

bool is_punycode_label(std::string_view label) {
  if (!label.starts_with(kPunycodePrefix)) {
    return false;
  }
  label.remove_prefix(kPunycodePrefix.size());
  const auto hyphen = label.rfind('-');
  std::uint32_t points = hyphen == std::string_view::npos ? 0 : static_cast<std::uint32_t>(hyphen);
  std::string_view digits = hyphen == std::string_view::npos ? label : label.substr(hyphen + 1);
  // Without a decoded character the name would have a plain spelling: not a canonical form.
  if (digits.empty() || hyphen == 0) {
    return false;
  }
  std::uint32_t n = punycode::kInitialN;
  std::uint32_t bias = punycode::kInitialBias;
  std::uint32_t at = 0;
  bool first = true;
  while (!digits.empty()) {
    const auto delta = punycode::take_integer(digits, bias);
    if (!delta) {
      return false;
    }
    ++points;
    bias = punycode::adapted_bias(*delta, points, first);
    first = false;
    const std::uint64_t moved = std::uint64_t{at} + *delta;
    const std::uint64_t code_point = n + moved / points;
    const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
    if (code_point > punycode::kLastCodePoint || surrogate) {
      return false;
    }
    n = static_cast<std::uint32_t>(code_point);
    at = static_cast<std::uint32_t>(moved % points) + 1;
  }
  return true;
}

Result<std::string> parse_name(std::string_view text) {
  if (text.empty()) {
    return bad_name("the name is empty");
  }
  if (text.size() > kMaxNameBytes) {
    return bad_name(quoted(text) + " is longer than 253 bytes");
  }
  std::string name = ascii_lower(text);
  const auto labels = split(name, '.');
  for (const std::string_view label : labels) {
    if (auto status = check_label(label, text); !status) {
      return status.error();
    }
  }
  if (is_numeric_label(labels.back())) {
    return bad_name(quoted(text) +
                    " ends in a number: neither a DNS name nor an address in its "
                    "plain spelling");
  }
  return name;
}

}  // namespace sandboxkit::policy
