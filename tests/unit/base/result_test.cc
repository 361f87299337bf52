#include "sandboxkit/result.h"

#include "sandboxkit/ids.h"

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

TEST_CASE("a result holds its value or its error") {
  const Result<int> good = 7;
  CHECK(good.has_value());
  CHECK(*good == 7);
  const Result<int> bad = Error{ErrorCode::kNotFound, "no such thing"};
  REQUIRE_FALSE(bad);
  CHECK(bad.error().code == ErrorCode::kNotFound);
  CHECK(bad.value_or(3) == 3);
}

TEST_CASE("an error without a reason of its own is known by its code's name") {
  CHECK(reason_of(Error{ErrorCode::kTooLarge, "x"}) == "too_large");
  CHECK(reason_of(Error{ErrorCode::kTooLarge, "x", "body_too_large"}) == "body_too_large");
}

TEST_CASE("an id of 64 bytes is taken and one of 65 is refused") {
  CHECK(SandboxId::parse(std::string(64, 'a')).has_value());
  CHECK_FALSE(SandboxId::parse(std::string(65, 'a')).has_value());
}

TEST_CASE("an id with a slash, a control character, a leading dot or no bytes is refused") {
  for (const char* text : {"", "a/b", "a\n", ".a", "-a", "a b", "\xc3\xa9"}) {
    CAPTURE(text);
    const auto id = TenantId::parse(text);
    REQUIRE_FALSE(id);
    CHECK(id.error().field == "tenant");
  }
}
