#include "base/text.h"
#include "wire/http.h"
#include "wire/http_text.h"

#include <algorithm>

namespace sandboxkit::wire {
namespace detail {

bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

bool is_field_value(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
  });
}

bool is_target_text(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; });
}

std::string_view trim_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace detail

void Headers::set(std::string_view name, std::string value) {
  remove(name);
  add(std::string(name), std::move(value));
}

void Headers::remove(std::string_view name) {
  std::erase_if(fields_, [&](const auto& field) { return equal_ignoring_case(field.first, name); });
}

const std::string* Headers::find(std::string_view name) const {
  const auto at = std::ranges::find_if(
      fields_, [&](const auto& field) { return equal_ignoring_case(field.first, name); });
  return at == fields_.end() ? nullptr : &at->second;
}

std::size_t Headers::count(std::string_view name) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      fields_, [&](const auto& field) { return equal_ignoring_case(field.first, name); }));
}

bool Headers::has_token(std::string_view name, std::string_view token) const {
  return std::ranges::any_of(fields_, [&](const auto& field) {
    return equal_ignoring_case(field.first, name) &&
           std::ranges::any_of(split(field.second, ','), [&](std::string_view part) {
             return equal_ignoring_case(detail::trim_blanks(part), token);
           });
  });
}

}  // namespace sandboxkit::wire
