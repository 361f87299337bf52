#include "wire/unicode_names.h"

#include "json/value.h"
#include "wire/messages.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

TEST_CASE("an entry that an owner wrote in letters is kept in its xn-- form") {
  const struct {
    const char* entry;
    const char* ascii;
  } rows[] = {
      {"bücher.example", "xn--bcher-kva.example"},
      {"Bücher.Example", "xn--bcher-kva.Example"},  // ASCII case is folded later, as ever
      {"*.bücher.example", "*.xn--bcher-kva.example"},
      {"*.bücher.example:8443", "*.xn--bcher-kva.example:8443"},
      {"a.b_c.bücher.example", "a.b_c.xn--bcher-kva.example"},
      {"straße.example", "xn--strae-oqa.example"},  // not `strasse`: another owner's name
      {"пример.испытание", "xn--e1afmkfd.xn--80akhbyknj4f"},
      {"例え.テスト", "xn--r8jz45g.xn--zckzah"},
      {"ok.test", "ok.test"},
      {"OK.test:443", "OK.test:443"},
      {"xn--bcher-kva.example", "xn--bcher-kva.example"},
      {"", ""},
      {"*", "*"},
      {"a b/c", "a b/c"},  // The policy's grammar says what is wrong with it.
  };
  for (const auto& row : rows) {
    CAPTURE(row.entry);
    const auto ascii = wire::ascii_entry(row.entry);
    REQUIRE(ascii.has_value());
    CHECK(*ascii == row.ascii);
    CHECK(wire::ascii_entry(*ascii).value() == row.ascii);
  }
}

TEST_CASE("letters that stand for others are no entry, and the message names what to write") {
  const struct {
    const char* entry;
    const char* words;
  } rows[] = {
      {"ｏk.test", "write `ok`"},                      // full-width
      {"o\xe2\x84\xaa.test", "write `ok`"},            // Kelvin sign
      {"\xef\xac\x81le.test", "write `file`"},         // ligature
      {"o\xc2\xadk.test", "write `ok`"},               // soft hyphen
      {"ok\xe3\x80\x82test.test", "write `ok.test`"},  // ideographic full stop
      {"BÜCHER.example", "write `xn--bcher-kva`"},
      {"bu\xcc\x88"
       "cher.example",
       "write `xn--bcher-kva`"},  // u and a combining diaeresis
      {"\xe2\x80\xae"
       "a.example",
       "xn--"},  // right-to-left override
      {"a\xe2\x98\x83\xef\xb8\x8e.example", "xn--"},
      {"\xcc\x88x.example", "xn--"},  // begins with a combining mark
      {"a\xff.example", "UTF-8"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.entry);
    const auto ascii = wire::ascii_entry(row.entry);
    REQUIRE_FALSE(ascii.has_value());
    CHECK(ascii.error().code == ErrorCode::kInvalidArgument);
    CAPTURE(ascii.error().message);
    CHECK(ascii.error().message.find(row.words) != std::string::npos);
  }
}

TEST_CASE("a body's allow-list is mapped entry by entry and nothing else is touched") {
  const auto mapped = [](std::string_view text) {
    return wire::with_ascii_egress(json::parse(text).value());
  };
  const auto body = mapped(
      R"({"image": "a", "egress": {"allowed_domains": ["bücher.example"], "allowed_networks": []}})");
  REQUIRE(body.has_value());
  CHECK(json::dump(*body) ==
        R"({"image":"a","egress":{"allowed_domains":["xn--bcher-kva.example"],)"
        R"("allowed_networks":[]}})");
  CHECK(wire::spec_from_json(*body).value().egress.policy()->allowed_domains()[0] ==
        "xn--bcher-kva.example");
  for (const char* text :
       {R"({"image":"a"})", R"({"egress":null})", R"({"egress":{"allowed_domains":null}})",
        R"({"egress":{"allowed_domains":"ü"}})", R"({"egress":{"allowed_domains":[1,null]}})",
        R"(["egress"])", R"({"egress":[1]})"}) {
    CAPTURE(text);
    CHECK(json::dump(mapped(text).value()) == text);
  }
  const auto wrong = mapped(R"({"egress": {"allowed_domains": ["ok.test", "ｏk.test"]}})");
  REQUIRE_FALSE(wrong.has_value());
  CHECK(wrong.error().field == "egress.allowed_domains[1]");
}
