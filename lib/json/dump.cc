#include "base/text.h"
#include "json/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace sandboxkit::json {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";
constexpr std::string_view kHexDigits = "0123456789abcdef";

/// Length of the well-formed UTF-8 sequence at the front, 0 when there is none.
std::size_t sequence_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return is_utf8(text.substr(0, length)) ? length : 0;
}

void write_ascii(char c, std::string& out) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const auto byte = static_cast<unsigned char>(c);
  if (byte < 0x20) {
    out += "\\u00";
    out.push_back(kHexDigits[byte >> 4]);
    out.push_back(kHexDigits[byte & 15]);
  } else {
    out.push_back(c);
  }
}

/// Stands for itself between quotes.
bool is_plain(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; }

void write_string(std::string_view text, std::string& out) {
  out.push_back('"');
  while (!text.empty()) {
    // Nearly all text is plain: it is taken in runs.
    const auto* const special = std::ranges::find_if_not(text, is_plain);
    const auto plain = static_cast<std::size_t>(special - text.begin());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) {
      break;
    }
    const std::size_t length = sequence_length(text);
    if (length == 1) {
      write_ascii(text.front(), out);
    } else {
      out += length == 0 ? kReplacement : text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out.push_back('"');
}

void write_double(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";  // JSON has no other way to say it.
    return;
  }
  std::array<char, 40> digits{};
  const auto [end, problem] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  const std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) {
    out += ".0";  // So that it reads back as what it was and not as an integer.
  }
}

void write(const Value& value, std::string& out);

void write_array(const Array& items, std::string& out) {
  out.push_back('[');
  for (std::size_t i = 0; i < items.size(); ++i) {
    out += i == 0 ? "" : ",";
    write(items[i], out);
  }
  out.push_back(']');
}

void write_object(const Object& members, std::string& out) {
  out.push_back('{');
  for (std::size_t i = 0; i < members.size(); ++i) {
    out += i == 0 ? "" : ",";
    write_string(members[i].first, out);
    out.push_back(':');
    write(members[i].second, out);
  }
  out.push_back('}');
}

void write(const Value& value, std::string& out) {
  if (const auto* flag = value.as_bool()) {
    out += *flag ? "true" : "false";
  } else if (const auto* integer = value.as_int()) {
    out += std::to_string(*integer);
  } else if (const auto* number = value.as_double()) {
    write_double(*number, out);
  } else if (const auto* text = value.as_string()) {
    write_string(*text, out);
  } else if (const auto* items = value.as_array()) {
    write_array(*items, out);
  } else if (const auto* members = value.as_object()) {
    write_object(*members, out);
  } else {
    out += "null";
  }
}

}  // namespace

std::string dump(const Value& value) {
  std::string out;
  write(value, out);
  return out;
}

}  // namespace sandboxkit::json
