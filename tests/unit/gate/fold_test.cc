#include "gate/fold.h"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using sandboxkit::gate::fold;

TEST_CASE("names that a file system may take for one fold to one") {
  const std::vector<std::pair<std::string, std::string>> same = {
      {".GIT", ".git"},
      {".g\u200cit", ".git"},       // zero width non-joiner
      {".git\ufeff", ".git"},       // byte order mark
      {".gi\u00adt", ".git"},       // soft hyphen
      {".git\U000e0067", ".git"},   // a tag of plane 14
      {"\uff0e\uff47it", ".git"},   // full width
      {".\u24d6it", ".git"},        // circled
      {"\U0001d5c0it", "git"},      // mathematical
      {"\u212aey", "key"},          // Kelvin
      {"\u017fecret", "secret"},    // long s
      {"\ufb01le", "file"},         // ligature
      {"STRASSE", "stra\u00dfe"},   // sharp s
      {"caf\u00e9", "cafe\u0301"},  // composed and decomposed
      {"\u1e9b\u0323", "\u1e61\u0323"},
      {"\uac01", "\u1100\u1161\u11a8"},  // a syllable and its letters
      {"\uac00", "\u1100\u1161"},
      {"\u03a3", "\u03c2"},  // sigma, final sigma
      {"\u0416", "\u0436"},
  };
  for (const auto& pair : same) {
    CAPTURE(pair.first);
    CHECK(fold(pair.first) == fold(pair.second));
  }
}

TEST_CASE("names that differ stay apart, and what is no UTF-8 keeps its bytes") {
  CHECK(fold(".git") != fold(".gitx"));
  CHECK(fold("\u0436") != fold("\u0437"));
  CHECK(fold("\uac00") != fold("\uac01"));
  CHECK(fold("A\xff") == "a\xff");
  CHECK(fold("") == "");
}

TEST_CASE("folding twice is folding once") {
  for (const char* name : {"\u0390", "\ufb03", "\u1fb3", "\u0130", "\uac01\u0301", "\u3392"}) {
    CAPTURE(std::string(name));
    CHECK(fold(fold(name)) == fold(name));
  }
}
