#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

namespace sandboxkit {
namespace {

constexpr std::string_view kBase64Alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kHexDigits = "0123456789abcdef";

int base64_value(char c) {
  const auto at = kBase64Alphabet.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t bytes = 0;  // 0: not UTF-8
};

/// Decodes the code point at the front; refuses overlong forms, surrogates and what is past
/// U+10FFFF.
CodePoint decode_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) {
    return {lead, 1};
  }
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) {
    return {};
  }
  std::uint32_t value = lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      return {};
    }
    value = (value << 6) | (byte(i) & 0x3fU);
  }
  constexpr std::array<std::uint32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < kSmallest[length] || value > 0x10ffff || surrogate) {
    return {};
  }
  return {value, length};
}

bool is_control(std::uint32_t c) {
  const bool c0_or_c1 = c < 0x20 || (c >= 0x7f && c <= 0x9f);
  const bool bidirectional = c == 0x061c || c == 0x200e || c == 0x200f ||
                             (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
  return c0_or_c1 || bidirectional || c == 0x2028 || c == 0x2029;
}

}  // namespace

bool equal_constant_time(std::string_view a, std::string_view b) {
  // The lengths are public; only the bytes are secret.
  if (a.size() != b.size()) {
    return false;
  }
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const std::uint8_t byte : bytes) {
    out.push_back(kHexDigits[byte >> 4]);
    out.push_back(kHexDigits[byte & 15]);
  }
  return out;
}

std::string base64_encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = (group << 8) | (k < left ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out.push_back(k <= left ? kBase64Alphabet[(group >> (18 - 6 * k)) & 63] : '=');
    }
  }
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) {
    return std::nullopt;
  }
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    std::size_t padding = 0;
    if (last && text[i + 3] == '=') {
      padding = text[i + 2] == '=' ? 2 : 1;
    }
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const int value = k >= 4 - padding ? 0 : base64_value(text[i + k]);
      if (value < 0) {
        return std::nullopt;
      }
      group = (group << 6) | static_cast<std::uint32_t>(value);
    }
    for (std::size_t k = 0; k < 3 - padding; ++k) {
      out.push_back(static_cast<char>(group >> (16 - 8 * k)));
    }
  }
  return out;
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return std::nullopt;
      }
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      out.push_back(plus_is_space && text[i] == '+' ? ' ' : text[i]);
    }
  }
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint point = decode_utf8(text);
    if (point.bytes == 0) {
      return false;
    }
    text.remove_prefix(point.bytes);
  }
  return true;
}

bool has_control_characters(std::string_view text) {
  while (!text.empty()) {
    const CodePoint point = decode_utf8(text);
    if (point.bytes != 0 && is_control(point.value)) {
      return true;
    }
    text.remove_prefix(std::max<std::size_t>(point.bytes, 1));
  }
  return false;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 80;
  std::string out = "`";
  std::string_view left = text.substr(0, kShown);
  while (!left.empty()) {
    const CodePoint point = decode_utf8(left);
    const std::size_t bytes = std::max<std::size_t>(point.bytes, 1);
    if (point.bytes == 0 || is_control(point.value)) {
      for (std::size_t i = 0; i < bytes; ++i) {
        const auto byte = static_cast<unsigned char>(left[i]);
        out += "\\x";
        out.push_back(kHexDigits[byte >> 4]);
        out.push_back(kHexDigits[byte & 15]);
      }
    } else {
      out += left.substr(0, bytes);
    }
    left.remove_prefix(bytes);
  }
  return out + (text.size() > kShown ? "...`" : "`");
}

std::string ascii_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c + ('a' - 'A'));
    }
  }
  return out;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ascii_lower(a) == ascii_lower(b);
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(at + 1);
  }
}

std::optional<std::uint64_t> parse_decimal(std::string_view text, std::uint64_t max) {
  const bool leading_zero = text.size() > 1 && text.front() == '0';
  if (text.empty() || leading_zero || text.find_first_not_of("0123456789") != text.npos) {
    return std::nullopt;
  }
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size() || value > max) {
    return std::nullopt;
  }
  return value;
}

std::string to_rfc3339(WallTime time) {
  using namespace std::chrono;  // NOLINT(google-build-using-namespace): calendar names only
  const auto day = floor<days>(time);
  const year_month_day date{day};
  const auto since = time - day;
  const auto h = duration_cast<hours>(since);
  const auto m = duration_cast<minutes>(since - h);
  const auto s = duration_cast<seconds>(since - h - m);
  const auto ms = duration_cast<milliseconds>(since - h - m - s);
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(h.count()),
                static_cast<int>(m.count()), static_cast<int>(s.count()),
                static_cast<int>(ms.count()));
  return text.data();
}

std::optional<WallTime> parse_rfc3339(std::string_view text) {
  using namespace std::chrono;  // NOLINT(google-build-using-namespace): calendar names only
  // Only what we write ourselves and its form without a fraction: UTC, upper case.
  const auto number = [&](std::size_t at, std::size_t digits) -> int {
    int value = 0;
    for (std::size_t i = at; i < at + digits; ++i) {
      if (text[i] < '0' || text[i] > '9') {
        return -1;
      }
      value = value * 10 + (text[i] - '0');
    }
    return value;
  };
  if (text.size() < 20 || text.size() > 30 || text[4] != '-' || text[7] != '-' || text[10] != 'T' ||
      text[13] != ':' || text[16] != ':' || text.back() != 'Z') {
    return std::nullopt;
  }
  const int y = number(0, 4), mo = number(5, 2), d = number(8, 2);
  const int h = number(11, 2), mi = number(14, 2), s = number(17, 2);
  if (y < 0 || mo < 0 || d < 0 || h < 0 || h > 23 || mi < 0 || mi > 59 || s < 0 || s > 60) {
    return std::nullopt;
  }
  int ms = 0;
  if (text[19] == '.') {
    int scale = 100;
    for (std::size_t i = 20; i + 1 < text.size(); ++i, scale /= 10) {
      if (text[i] < '0' || text[i] > '9') {
        return std::nullopt;
      }
      ms += (text[i] - '0') * scale;
    }
  } else if (text.size() != 20) {
    return std::nullopt;
  }
  const year_month_day date{year{y}, month{static_cast<unsigned>(mo)},
                            day{static_cast<unsigned>(d)}};
  if (!date.ok()) {
    return std::nullopt;
  }
  return WallTime{sys_days{date}} + hours{h} + minutes{mi} + seconds{s} + milliseconds{ms};
}

}  // namespace sandboxkit
