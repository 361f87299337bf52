#include "sandboxkit/ids.h"

#include <algorithm>

namespace sandboxkit::detail {
namespace {

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

const char* id_problem(std::string_view text) {
  if (text.empty()) {
    return "id is empty";
  }
  if (text.size() > 64) {
    return "id is longer than 64 bytes";
  }
  if (!is_alphanumeric(text.front())) {
    return "id must start with a letter or a digit";
  }
  const bool plain = std::ranges::all_of(
      text, [](char c) { return is_alphanumeric(c) || c == '.' || c == '_' || c == '-'; });
  return plain ? nullptr : "id may hold letters, digits, `.`, `_` and `-` only";
}

}  // namespace sandboxkit::detail
