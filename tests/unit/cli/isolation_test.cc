#include "cli/isolation.h"

#include "base/text.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit;       // NOLINT(google-build-using-namespace)
using namespace sandboxkit::cli;  // NOLINT(google-build-using-namespace)

namespace {

json::Value line(const char* topic, const char* statement, const char* known) {
  return json::Object{{"topic", topic}, {"statement", statement}, {"known", known}};
}

json::Value card(json::Array lines) {
  return json::Object{
      {"sandbox", "i1"}, {"state", "running"}, {"worker", "w-1"}, {"lines", std::move(lines)}};
}

WallTime noon() { return *parse_rfc3339("2030-01-01T12:00:00.000Z"); }

}  // namespace

TEST_CASE("a card names each topic once, and with each statement how it is known") {
  CHECK(card_text(
            card({line("root", "Not root.", "declared"), line("wall", "It stands.", "structural"),
                  line("wall", "It was tried.", "probed")}),
            noon(), 0) ==
        "i1, running, on w-1\n"
        "root       declared    Not root.\n"
        "wall       structural  It stands.\n"
        "           probed      It was tried.\n");
}

TEST_CASE("statements are broken between words at the terminal's width, and not where it is none") {
  const json::Value one = card({line("root", "Aaaa bbbb cccc dddd eeee ffff.", "declared")});
  CHECK(card_text(one, noon(), 43) ==
        "i1, running, on w-1\n"
        "root       declared    Aaaa bbbb cccc dddd\n"
        "                       eeee ffff.\n");
  for (const std::size_t width : {std::size_t{0}, std::size_t{42}}) {
    CHECK(card_text(one, noon(), width).ends_with("  Aaaa bbbb cccc dddd eeee ffff.\n"));
  }
}

TEST_CASE("how long ago a line was told stands behind it") {
  const json::Value told = json::Object{{"topic", "wall"},
                                        {"statement", "It stands."},
                                        {"known", "structural"},
                                        {"at", "2030-01-01T11:59:55.000Z"}};
  CHECK(card_text(card({told}), noon(), 0).ends_with("It stands. (told 5s ago)\n"));
}

TEST_CASE("what a card holds cannot paint on the terminal") {
  const std::string text = card_text(card({line("ro\x1bot", "Not\x1b[2J.", "x\n")}), noon(), 0);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find(R"(Not\x1b[2J.)") != std::string::npos);
}
