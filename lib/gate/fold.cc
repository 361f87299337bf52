#include "gate/fold.h"

#include "base/text.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace sandboxkit::gate {
namespace {

#include "gate/fold_table.inc"

static_assert(std::size(kFoldFrom) == std::size(kFoldAt));
static_assert(std::size(kFoldFrom) == std::size(kFoldSize));

// Unicode, section 3.12: a syllable is a leading, a vowel and perhaps a trailing letter.
constexpr std::uint32_t kSyllables = 0xAC00;
constexpr std::uint32_t kSyllableCount = 11172;
constexpr std::uint32_t kLeading = 0x1100;
constexpr std::uint32_t kVowel = 0x1161;
constexpr std::uint32_t kTrailing = 0x11A7;
constexpr std::uint32_t kVowelCount = 21;
constexpr std::uint32_t kTrailingCount = 28;

// Tags and variation selectors, all of them ignored.
constexpr std::uint32_t kIgnoredPlaneFirst = 0xE0000;
constexpr std::uint32_t kIgnoredPlaneLast = 0xE0FFF;

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

void append_syllable(std::string& out, std::uint32_t index) {
  append_utf8(out, kLeading + index / (kVowelCount * kTrailingCount));
  append_utf8(out, kVowel + index % (kVowelCount * kTrailingCount) / kTrailingCount);
  if (index % kTrailingCount != 0) {
    append_utf8(out, kTrailing + index % kTrailingCount);
  }
}

void append_folded(std::string& out, std::uint32_t code) {
  if (code >= kSyllables && code < kSyllables + kSyllableCount) {
    append_syllable(out, code - kSyllables);
    return;
  }
  if (code >= kIgnoredPlaneFirst && code <= kIgnoredPlaneLast) {
    return;
  }
  const auto* found = std::lower_bound(std::begin(kFoldFrom), std::end(kFoldFrom), code);
  if (found == std::end(kFoldFrom) || *found != code) {
    append_utf8(out, code);
    return;
  }
  const auto entry = static_cast<std::size_t>(found - std::begin(kFoldFrom));
  for (std::size_t i = 0; i < kFoldSize[entry]; ++i) {
    append_utf8(out, kFoldTo[kFoldAt[entry] + i]);
  }
}

/// The next character of well-formed UTF-8, which is taken off.
std::uint32_t take_character(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t size = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  std::uint32_t code = size == 1 ? first : first & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    code = (code << 6) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  text.remove_prefix(size);
  return code;
}

}  // namespace

std::string fold(std::string_view name) {
  if (is_ascii(name) || !is_utf8(name)) {
    return ascii_lower(name);
  }
  std::string out;
  while (!name.empty()) {
    append_folded(out, take_character(name));
  }
  // What a compatibility form became may be an ASCII capital.
  return ascii_lower(out);
}

}  // namespace sandboxkit::gate
