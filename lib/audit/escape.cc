#include "audit/escape.h"

#include "base/text.h"

#include <algorithm>

namespace sandboxkit::audit {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

/// Bytes of the character at the front; 1 where that is no UTF-8.
std::size_t width_of(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t width = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return is_utf8(text.substr(0, width)) ? width : 1;
}

void append_bytes(std::string& out, std::string_view bytes) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += "\\\\x";  // The JSON string says one backslash.
    out += kHexDigits[byte >> 4];
    out += kHexDigits[byte & 15];
  }
}

void append_character(std::string& out, std::string_view character) {
  if (character == "\\") {
    out += "\\\\\\\\";
  } else if (character == "\"") {
    out += "\\\"";
  } else if (!is_utf8(character) || has_control_characters(character)) {
    append_bytes(out, character);
  } else {
    out += character;
  }
}

}  // namespace

bool append_escaped(std::string& out, std::string_view text, std::size_t max_bytes) {
  const std::size_t begin = out.size();
  // Where a cut would go: the last place that leaves room for the mark.
  std::size_t cut = begin;
  while (!text.empty()) {
    const std::size_t width = width_of(text);
    append_character(out, text.substr(0, width));
    text.remove_prefix(width);
    if (out.size() - begin > max_bytes) {
      out.resize(cut);
      out += kCutMark.substr(0, std::min(kCutMark.size(), max_bytes - (cut - begin)));
      return false;
    }
    if (out.size() - begin + kCutMark.size() <= max_bytes) {
      cut = out.size();
    }
  }
  return true;
}

bool append_member(std::string& out, std::string_view name, std::string_view text,
                   std::size_t max_bytes) {
  if (text.empty()) {
    return true;
  }
  out += ",\"";
  out += name;
  out += "\":\"";
  const bool whole = append_escaped(out, text, max_bytes);
  out += '"';
  return whole;
}

}  // namespace sandboxkit::audit
