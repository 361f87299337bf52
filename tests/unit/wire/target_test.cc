#include "wire/http.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)
using wire::parse_target;

TEST_CASE("a NUL in a query value names the parameter") {
  const auto target = parse_target("/x?user=a&path=%2Ftmp%00b");
  REQUIRE_FALSE(target);
  CHECK(target.error().field == "path");
  CHECK(target.error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("a target is taken apart and decoded") {
  const auto target = parse_target("/v1/a%20b+c?path=%2Ftmp%2Fx&name=a+b&flag&&empty=");
  REQUIRE(target);
  CHECK(target->path == "/v1/a b+c");
  CHECK(target->raw_path == "/v1/a%20b+c");
  CHECK(target->raw_query == "path=%2Ftmp%2Fx&name=a+b&flag&&empty=");
  CHECK(target->query.size() == 4);
  CHECK(target->query_value("path") == "/tmp/x");
  CHECK(target->query_value("name") == "a b");
  CHECK(target->query_value("flag") == "");
  CHECK_FALSE(target->query_value("absent").has_value());
}

TEST_CASE("a target with two readings or none is refused") {
  for (const char* text : {"",         "*",         "x",        "http://ok.test/",
                           "//a/../b", "/..",       "/../etc",  "/a/./b",
                           "/a/..",    "/%2e%2e/x", "/a/%2E",   "/a%2fb",
                           "/a%2Fb",   "/a%00b",    "/%",       "/%4",
                           "/%zz",     "/x#y",      "/a b",     "/\xc3\xa9",
                           "/x?%",     "/x?a=%0",   "/x?a=%00", "/x?%00=a",
                           "/x?a=b#c"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_target(text).has_value());
  }
}

TEST_CASE("dots that are no whole segment are plain characters") {
  for (const char* text : {"/", "/...", "/.a", "/a..b", "/process.Process/Start", "/a?x=../.."}) {
    CAPTURE(text);
    CHECK(parse_target(text).has_value());
  }
}

TEST_CASE("a hundred parameters are taken and one more is refused") {
  std::string text = "/?";
  for (int i = 0; i < 100; ++i) {
    text += "a=b&";
  }
  CHECK(parse_target(text).has_value());
  CHECK_FALSE(parse_target(text + "a=b").has_value());
}
