#include "gate/shown_text.h"

#include "base/text.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace sandboxkit::gate {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

/// What is not seen, moves other letters, or looks like a blank or an end of line and is none.
constexpr Range kUnseen[] = {
    {0x00, 0x1f},       {0x7f, 0xa0},       {0xad, 0xad},       {0x034f, 0x034f}, {0x061c, 0x061c},
    {0x115f, 0x1160},   {0x1680, 0x1680},   {0x17b4, 0x17b5},   {0x180b, 0x180f}, {0x2000, 0x200f},
    {0x2028, 0x202f},   {0x205f, 0x206f},   {0x2800, 0x2800},   {0x3000, 0x3000}, {0x3164, 0x3164},
    {0xe000, 0xf8ff},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0}, {0xfff0, 0xfffb},
    {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}, {0xf0000, 0x10ffff}};

bool is_unseen(std::uint32_t code) {
  return std::any_of(std::begin(kUnseen), std::end(kUnseen),
                     [&](const Range& range) { return range.first <= code && code <= range.last; });
}

struct Character {
  std::string_view bytes;
  std::uint32_t code;
  bool is_utf8;
};

Character front_of(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t width = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  const std::string_view bytes = text.substr(0, width);
  if (!is_utf8(bytes)) {
    return {text.substr(0, 1), lead, false};
  }
  std::uint32_t code = width == 1 ? lead : lead & (0xffU >> (width + 1));
  for (const char c : bytes.substr(1)) {
    code = (code << 6) | (static_cast<unsigned char>(c) & 0x3fU);
  }
  return {bytes, code, true};
}

std::string hex(std::uint32_t code) {
  std::string digits;
  for (; code != 0 || digits.size() < 2; code >>= 4) {
    digits.insert(digits.begin(), kHexDigits[code & 15]);
  }
  return digits;
}

}  // namespace

std::string shown_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Character next = front_of(text);
    if (next.bytes == "\\") {
      out += "\\\\";
    } else if (!next.is_utf8 || (next.code < 0x80 && is_unseen(next.code))) {
      out += "\\x" + hex(next.code);
    } else if (is_unseen(next.code)) {
      out += "\\u{" + hex(next.code) + "}";
    } else {
      out += next.bytes;
    }
    text.remove_prefix(next.bytes.size());
  }
  return out;
}

bool is_shown_text(std::string_view text) {
  while (!text.empty()) {
    const Character next = front_of(text);
    if (!next.is_utf8 || is_unseen(next.code)) {
      return false;
    }
    text.remove_prefix(next.bytes.size());
  }
  return true;
}

}  // namespace sandboxkit::gate
