#include "json/value.h"

#include <limits>
#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)
using json::parse;
using json::Value;

namespace {

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

std::string reason(const Result<Value>& result) {
  return result ? "taken" : reason_of(result.error());
}

}  // namespace

TEST_CASE("every kind of value reads back what was written") {
  const Value value = json::Object{
      {"null", nullptr},
      {"yes", true},
      {"least", std::numeric_limits<std::int64_t>::min()},
      {"most", std::numeric_limits<std::int64_t>::max()},
      {"half", 0.5},
      {"whole double", 2.0},
      {"minus zero", -0.0},
      {"tiny", 5e-324},
      {"huge", 1.7976931348623157e308},
      {"text", "a \"quote\", \\, \n\r\t\x01\x7f \xc3\xa9 \xf0\x9f\x98\x80"},
      {"nul", std::string("a\0b", 3)},
      {"list", json::Array{1, "two", json::Array{}, json::Object{}}},
  };
  const auto back = parse(json::dump(value));
  REQUIRE(back);
  CHECK(*back == value);
}

TEST_CASE("members keep the order in which they came") {
  const auto value = parse(R"({"z":1,"a":2})");
  REQUIRE(value);
  CHECK(json::dump(*value) == R"({"z":1,"a":2})");
}

TEST_CASE("an integer that fits stays one and a larger one becomes a double") {
  CHECK(*parse("9223372036854775807")->as_int() == std::numeric_limits<std::int64_t>::max());
  CHECK(*parse("-9223372036854775808")->as_int() == std::numeric_limits<std::int64_t>::min());
  CHECK(parse("9223372036854775808")->as_double() != nullptr);
  CHECK(parse("18446744073709551616")->as_double() != nullptr);
  CHECK(parse("1e2")->as_double() != nullptr);
}

TEST_CASE("what is not strict JSON is refused as invalid_json") {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[1,]",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{'a':1}",
                           "[1 2]",
                           "1 2",
                           "{} {}",
                           "nul",
                           "NaN",
                           "Infinity",
                           "-",
                           "+1",
                           "01",
                           "1.",
                           ".5",
                           "0x10",
                           "1e",
                           "1e400",
                           "-1e400",
                           "\"",
                           "\"\n\"",
                           "\"\t\"",
                           R"("\x")",
                           R"("\ud800")",
                           R"("\udc00")",
                           R"("\ud800A")",
                           "// c\n1",
                           "1/**/",
                           "\xef\xbb\xbf{}",
                           "\"\xff\"",
                           "\"\xc0\x80\"",
                           "\"\xed\xa0\x80\"",
                           "\xff",
                           "{\"a\"}",
                           "[}"}) {
    CAPTURE(text);
    CHECK(reason(parse(text)) == "invalid_json");
  }
}

TEST_CASE("a member that stands there twice is refused by name, however it is spelled") {
  const auto twice = parse(R"({"a":{"b":1,"\u0062":2}})");
  REQUIRE_FALSE(twice);
  CHECK(twice.error().reason == "invalid_json");
  CHECK(twice.error().message == "member `b` stands there twice");
  CHECK(parse(R"([{"a":1},{"a":2}])").has_value());
}

TEST_CASE("a NUL is refused in a member's name and in raw text") {
  CHECK(reason(parse(R"({"a\u0000":1})")) == "invalid_json");
  CHECK(reason(parse(std::string_view("1\0", 2))) == "invalid_json");
  CHECK(reason(parse(std::string_view("{}\0{\"role\":1}", 13))) == "invalid_json");
  CHECK(parse(R"("\u0000")").has_value());
}

TEST_CASE("a syntax error names the byte and does not repeat the input") {
  const auto broken = parse(R"({"key": "s3cret", })");
  REQUIRE_FALSE(broken);
  CHECK(broken.error().message.find("byte 19") != std::string::npos);
  CHECK(broken.error().message.find("s3cret") == std::string::npos);
}

TEST_CASE("depth is taken at its limit and refused one past it") {
  const json::Limits limits{.max_depth = 4};
  CHECK(parse(nested(4), limits).has_value());
  CHECK(reason(parse(nested(5), limits)) == "too_large");
  CHECK(reason(parse(std::string(1'000'000, '['))) == "too_large");
}

TEST_CASE("size and count of values are taken at their limits and refused one past them") {
  CHECK(parse("[1,2]", {.max_bytes = 5}).has_value());
  CHECK(reason(parse("[1,2] ", {.max_bytes = 5})) == "too_large");
  CHECK(parse("[1,2]", {.max_values = 3}).has_value());
  CHECK(reason(parse("[1,2,3]", {.max_values = 3})) == "too_large");
}

TEST_CASE("bad bytes and numbers that JSON cannot say are written as what it can") {
  CHECK(json::dump("a\xff"
                   "b") ==
        "\"a\xef\xbf\xbd"
        "b\"");
  CHECK(json::dump("\xe2\x82") == "\"\xef\xbf\xbd\xef\xbf\xbd\"");
  CHECK(json::dump(std::numeric_limits<double>::infinity()) == "null");
}

TEST_CASE("look-up by name answers for objects alone and falls back for another kind") {
  const auto value = parse(R"({"s":"x","n":3})");
  REQUIRE(value);
  CHECK(value->text("s") == "x");
  CHECK(value->integer("n") == 3);
  CHECK(value->text("n", "other") == "other");
  CHECK(value->integer("s", 9) == 9);
  CHECK(value->find("absent") == nullptr);
  CHECK(Value(1).find("s") == nullptr);
}
