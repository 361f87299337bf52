#include "gate/seatbelt_regex.h"

#include "gate/path_text.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace sandboxkit::gate {
namespace {

constexpr std::string_view kAnyDepth = "**";
constexpr const char* kAnyLetter = "[^/]";
// A character of several bytes, for engines that know bytes only.
constexpr const char* kAnyCharacter = "[^/]+";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_plain(char c) {
  return is_letter(c) || is_digit(c) ||
         std::string_view("/_-,:@%~#=!&;<>").find(c) != std::string_view::npos;
}
/// Letters that an expression can hold in brackets; no quote, backslash or control among them.
bool is_bracketed(char c) {
  return std::string_view(".*?+(){}|$ '`").find(c) != std::string_view::npos;
}

char other_case(char c) { return static_cast<char>(c ^ 0x20); }

/// One letter of a denial: any letter where it cannot be told safely.
void append_folded(std::string& out, char c) {
  if (is_letter(c)) {
    out.append("[").append(1, c).append(1, other_case(c)).append("]");
  } else if (is_plain(c)) {
    out.push_back(c);
  } else if (is_bracketed(c)) {
    out.append("[").append(1, c).append("]");
  } else {
    out.append(kAnyLetter);
  }
}

/// `[...]` of a pattern, which has no negation: each letter with its other case.
void append_class(std::string& out, std::string_view inside) {
  std::string letters;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    const bool is_range = i + 2 < inside.size() && inside[i + 1] == '-';
    const auto last = static_cast<unsigned char>(is_range ? inside[i + 2] : inside[i]);
    for (unsigned c = static_cast<unsigned char>(inside[i]); c <= last; ++c) {
      const char letter = static_cast<char>(c);
      if (is_letter(letter)) {
        letters.append(1, letter).append(1, other_case(letter));
      } else if (is_digit(letter) || letter == '_' || letter == '.') {
        letters.push_back(letter);
      } else {
        out.append(kAnyLetter);
        return;
      }
    }
    i += is_range ? 2 : 0;
  }
  out.append("[").append(letters).append("]");
}

void append_folded_part(std::string& out, std::string_view part) {
  for (std::size_t i = 0; i < part.size(); ++i) {
    const char c = part[i];
    if (c == '*') {
      out.append("[^/]*");
    } else if (c == '?') {
      out.append(kAnyCharacter);
    } else if (c == '[') {
      const auto end = part.find(']', i + 2);
      append_class(out, part.substr(i + 1, end - i - 1));
      i = end;
    } else if (c == '\\' && i + 1 < part.size()) {
      append_folded(out, part[++i]);
    } else {
      append_folded(out, c);
    }
  }
}

bool append_exact_part(std::string& out, std::string_view part) {
  for (std::size_t i = 0; i < part.size(); ++i) {
    char c = part[i];
    if (c == '*') {
      out.append("[^/]*");
      continue;
    }
    if (c == '\\' && i + 1 < part.size()) {
      c = part[++i];
    } else if (c == '?' || c == '[') {
      return false;
    }
    if (is_plain(c)) {
      out.push_back(c);
    } else if (is_bracketed(c)) {
      out.append("[").append(1, c).append("]");
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string folded_regex(const PathPattern& pattern, bool whole) {
  std::string out = "^";
  for (const std::string& part : pattern.parts()) {
    if (part == kAnyDepth) {
      out.append("(/[^/]+)*");
    } else {
      out.push_back('/');
      append_folded_part(out, part);
    }
  }
  return out + (whole ? "$" : "(/.*)?$");
}

std::optional<std::string> exact_regex(const PathPattern& pattern, const std::string& root) {
  std::string out = "^";
  if (!append_exact_part(out, escape_pattern(root))) {
    return std::nullopt;
  }
  for (const std::string& part : pattern.parts()) {
    if (part == kAnyDepth) {
      out.append("(/[^/]+)*");
      continue;
    }
    out.push_back('/');
    if (!append_exact_part(out, part)) {
      return std::nullopt;
    }
  }
  return out + "(/.*)?$";
}

}  // namespace sandboxkit::gate
