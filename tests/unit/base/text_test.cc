#include "base/text.h"

#include "base/percent.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

TEST_CASE("base64 reads back what it wrote for every length and every byte") {
  std::string bytes;
  for (int i = 0; i < 260; ++i) {
    CAPTURE(i);
    CHECK(base64_decode(base64_encode(bytes)) == bytes);
    bytes.push_back(static_cast<char>(i));
  }
}

TEST_CASE("base64 that is not standard is refused") {
  for (const char* text : {"A", "AA", "AAA", "A===", "AA=A", "AA-_", "AAAA=", "AA==AAAA"}) {
    CAPTURE(text);
    CHECK_FALSE(base64_decode(text).has_value());
  }
}

TEST_CASE("a broken percent escape is refused, a whole one is read") {
  CHECK(percent_decode("a%20b+c", false) == "a b+c");
  CHECK(percent_decode("a%20b+c", true) == "a b c");
  CHECK(percent_decode("%41", false) == "A");
  for (const char* text : {"%", "%4", "%zz", "a%4"}) {
    CAPTURE(text);
    CHECK_FALSE(percent_decode(text, false).has_value());
  }
}

TEST_CASE("overlong forms, surrogates and cut sequences are not UTF-8") {
  CHECK(is_utf8("plain, \xc3\xa9, \xe2\x82\xac, \xf0\x9f\x98\x80"));
  for (const char* text :
       {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xff", "\x80"}) {
    CAPTURE(text);
    CHECK_FALSE(is_utf8(text));
  }
}

TEST_CASE("controls and bidirectional overrides are seen and are shown escaped") {
  CHECK(has_control_characters("a\x1b[31m"));
  CHECK(has_control_characters("a\xe2\x80\xae"));
  CHECK_FALSE(has_control_characters("na\xc3\xafve caf\xc3\xa9"));
  CHECK(quoted("a\nb") == "`a\\x0ab`");
  CHECK(quoted("\xe2\x80\xae") == "`\\xe2\\x80\\xae`");
  CHECK(quoted(std::string(100, 'x')).size() == 80 + 5);
}

TEST_CASE("decimals have no sign, no blank, no leading zero and stay below their limit") {
  CHECK(parse_decimal("0", 10) == 0U);
  CHECK(parse_decimal("65535", 65535) == 65535U);
  for (const char* text :
       {"", "65536", "+1", "-1", " 1", "1 ", "01", "0x1", "99999999999999999999999"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_decimal(text, 65535).has_value());
  }
}

TEST_CASE("a time reads back what it wrote, and an odd spelling is refused") {
  const WallTime time{std::chrono::milliseconds{1764417600123}};
  CHECK(to_rfc3339(time) == "2025-11-29T12:00:00.123Z");
  CHECK(parse_rfc3339(to_rfc3339(time)) == time);
  CHECK(parse_rfc3339("2025-11-29T12:00:00Z").has_value());
  for (const char* text : {"2025-11-29", "2025-13-29T12:00:00Z", "2025-11-29T25:00:00Z",
                           "2025-11-29T12:00:00+01:00", "2025-02-30T12:00:00Z", "x"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_rfc3339(text).has_value());
  }
}

// Complaint 55: secrets are compared by a plain comparison.
TEST_CASE("texts of one length are compared whole") {
  CHECK(equal_constant_time("secret", "secret"));
  CHECK_FALSE(equal_constant_time("secret", "secreT"));
  CHECK_FALSE(equal_constant_time("secret", "secret2"));
}

TEST_CASE("all but unreserved characters of a text are escaped") {
  CHECK(percent_encoded("aZ09-._~") == "aZ09-._~");
  CHECK(percent_encoded("a b&c=\xff/") == "a%20b%26c%3D%FF%2F");
}
