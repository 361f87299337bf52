#include "config/values.h"

#include "config/nearest.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit::config;

TEST_CASE("a whole number is decimal digits and nothing that reads otherwise elsewhere") {
  CHECK(parse_integer("0") == 0);
  CHECK(parse_integer("7070") == 7070);
  CHECK(parse_integer("-5") == -5);
  CHECK(parse_integer("9223372036854775807") == 9223372036854775807);
  for (const char* text : {"", "-", "+1", "010", "0x10", "0o7", "1_000", "1,000", "1e3", "1.0",
                           " 1", "1 ", "-0", "--1", "yes", "9223372036854775808", "12:30:00"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_integer(text));
  }
}

TEST_CASE("an amount is plain digits with an optional fraction") {
  CHECK(parse_amount("4") == 4.0);
  CHECK(parse_amount("0.5") == 0.5);
  CHECK(parse_amount("-1") == -1.0);
  for (const char* text : {"", ".5", "5.", "-", "-.5", "--1", "+1", "1e3", ".inf", "nan", "inf",
                           "01.5", "1.2.3", "1_0", "0x1", "1234567890123456"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_amount(text));
  }
  CHECK(to_text(4) == "4");
  CHECK(to_text(0.1) == "0.1");
}

TEST_CASE("the distance counts slips of a hand") {
  CHECK(edit_distance("listen", "listen") == 0);
  CHECK(edit_distance("lisen", "listen") == 1);
  CHECK(edit_distance("lsiten", "listen") == 1);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("only a near name is suggested") {
  const std::vector<std::string> known{"listen", "state_dir", "log.level"};
  CHECK(nearest("lisen", known) == "listen");
  CHECK(nearest("statedir", known) == "state_dir");
  CHECK(nearest("log.levl", known) == "log.level");
  for (const char* far : {"", "x", "colour", "lxxxen", "state"}) {
    CAPTURE(far);
    CHECK(nearest(far, known) == "");
  }
  CHECK(nearest(std::string(100'000, 'x'), known) == "");
  CHECK(did_you_mean("lisen", known) == "; did you mean `listen`?");
  CHECK(did_you_mean("colour", known) == "");
}
