#include "json/reader.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)
using json::Reader;
using json::Value;

namespace {

Value read(std::string_view text) {
  const auto value = json::parse(text);
  REQUIRE(value);
  return *value;
}

}  // namespace

TEST_CASE("every kind of member is read, and a null reads as an absent one") {
  const Value value =
      read(R"({"s":"text","b":true,"i":7,"d":1.5,"l":["a","b"],"m":{"k":"v"},"n":null})");
  Reader reader(value, "");
  CHECK(reader.required_string("s", 4) == "text");
  CHECK(reader.optional_bool("b") == true);
  CHECK(reader.required_int("i", 0, 7) == 7);
  CHECK(reader.optional_number("d", 0, 2) == 1.5);
  CHECK(reader.optional_strings("l", 2, 1)->size() == 2);
  CHECK(reader.optional_string_map("m", 1, 1, 1)->at("k") == "v");
  CHECK_FALSE(reader.optional_string("n", 9).has_value());
  CHECK(reader.has("n"));
  CHECK_FALSE(reader.has("absent"));
  CHECK(reader.finish().has_value());
}

TEST_CASE("a member that nobody read is refused by its path") {
  const Value value = read(R"({"a":1,"memory":2})");
  Reader reader(value, "spec");
  reader.optional_int("a", 0, 9);
  const Status status = reader.finish();
  REQUIRE_FALSE(status);
  CHECK(status.error().reason == "unknown_field");
  CHECK(status.error().field == "spec.memory");
}

TEST_CASE("the first problem is kept and what follows reads as empty") {
  const Value value = read(R"({"a":"x","b":"y","c":5})");
  Reader reader(value, "");
  reader.optional_int("a", 0, 9);
  reader.optional_int("b", 0, 9);
  CHECK_FALSE(reader.optional_int("c", 0, 9).has_value());
  const Status status = reader.finish();
  REQUIRE_FALSE(status);
  CHECK(status.error().field == "a");
  CHECK(status.error().message == "a must be a whole number from 0 to 9");
}

TEST_CASE("a required member that is absent or null is refused") {
  const Value value = read(R"({"s":null})");
  for (const char* name : {"s", "absent"}) {
    Reader reader(value, "");
    CHECK(reader.required_string(name, 9).empty());
    const Status status = reader.finish();
    REQUIRE_FALSE(status);
    CHECK(status.error().field == name);
    CHECK(status.error().message == std::string(name) + " is required");
  }
}

TEST_CASE("numbers and texts are taken at their limits and refused one past them") {
  const Value value = read(R"({"low":1,"high":10,"text":"abc","f":2.5})");
  const auto good = [&](auto&& look) {
    Reader reader(value, "");
    look(reader);
    return reader.ok();
  };
  CHECK(good([](Reader& r) { r.required_int("low", 1, 1); }));
  CHECK_FALSE(good([](Reader& r) { r.required_int("low", 2, 9); }));
  CHECK_FALSE(good([](Reader& r) { r.required_int("high", 0, 9); }));
  CHECK_FALSE(good([](Reader& r) { r.required_int("f", 0, 9); }));
  CHECK(good([](Reader& r) { r.optional_number("f", 2.5, 2.5); }));
  CHECK_FALSE(good([](Reader& r) { r.optional_number("f", 2.6, 3); }));
  CHECK_FALSE(good([](Reader& r) { r.optional_number("text", 0, 3); }));
  CHECK(good([](Reader& r) { r.required_string("text", 3); }));
  CHECK_FALSE(good([](Reader& r) { r.required_string("text", 2); }));
  CHECK_FALSE(good([](Reader& r) { r.optional_bool("low"); }));
}

TEST_CASE("lists and maps are bounded, and the faulty entry is named") {
  const Value value = read(R"({"l":["a","bb",3],"m":{"k":"v","kk":1}})");
  const auto field = [&](auto&& look) {
    Reader reader(value, "p");
    look(reader);
    const Status status = reader.finish();
    return status ? std::string("taken") : status.error().field;
  };
  CHECK(field([](Reader& r) { r.optional_strings("l", 2, 9); }) == "p.l");
  CHECK(field([](Reader& r) { r.optional_strings("l", 3, 1); }) == "p.l[1]");
  CHECK(field([](Reader& r) { r.optional_strings("l", 3, 2); }) == "p.l[2]");
  CHECK(field([](Reader& r) { r.optional_strings("m", 3, 2); }) == "p.m");
  CHECK(field([](Reader& r) { r.optional_string_map("m", 1, 9, 9); }) == "p.m");
  CHECK(field([](Reader& r) { r.optional_string_map("m", 2, 1, 9); }) == "p.m.k");
  CHECK(field([](Reader& r) { r.optional_string_map("m", 2, 2, 9); }) == "p.m.kk");
  CHECK(field([](Reader& r) { r.optional_string_map("l", 2, 2, 9); }) == "p.l");
}

TEST_CASE("a NUL in a text is refused wherever it stands") {
  const Value value = read(R"({"s":"a\u0000b","l":["\u0000"],"m":{"k":"\u0000"}})");
  for (const char* name : {"s", "l", "m"}) {
    CAPTURE(name);
    Reader reader(value, "");
    if (*name == 's') {
      reader.optional_string("s", 9);
    } else if (*name == 'l') {
      reader.optional_strings("l", 9, 9);
    } else {
      reader.optional_string_map("m", 9, 9, 9);
    }
    const Status status = reader.finish();
    REQUIRE_FALSE(status);
    CHECK(status.error().message.find("NUL") != std::string::npos);
  }
}

TEST_CASE("a value that is no object is a problem and nothing else is read from it") {
  const Value value = read("[1]");
  Reader reader(value, "");
  CHECK(reader.member("a") == nullptr);
  CHECK_FALSE(reader.has("a"));
  const Status status = reader.finish();
  REQUIRE_FALSE(status);
  CHECK(status.error().message == "body must be an object");
}
