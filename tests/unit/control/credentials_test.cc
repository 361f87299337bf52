#include "store/credentials.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;
using namespace sandboxkit::store;

TEST_CASE("a credential that was made is read back and matches its hash") {
  const NewCredential made = make_credential("sk", system_random());
  const auto name = parse_credential(made.text);
  REQUIRE(name);
  CHECK(name->kind == "sk");
  CHECK(name->id == made.name.id);
  CHECK(matches_hash(made.text, made.secret_hash));
  CHECK(made.text.size() == 2 + 1 + 8 + 1 + 32 + 6);
}

TEST_CASE("a credential with any one character changed is malformed") {
  const NewCredential made = make_credential("op", system_random());
  for (std::size_t i = 0; i < made.text.size(); ++i) {
    std::string text = made.text;
    text[i] = text[i] == 'x' ? 'y' : 'x';
    CAPTURE(text);
    CHECK_FALSE(parse_credential(text));
  }
}

TEST_CASE("text that is no credential is refused without a look-up") {
  for (const char* text : {"", "sk", "sk_", "sk__", "xx_12345678_", "e2b_0123456789", "Bearer x"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_credential(text));
  }
}

TEST_CASE("sha256 agrees with the published example") {
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
