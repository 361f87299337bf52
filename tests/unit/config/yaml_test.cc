#include "config/yaml.h"

#include <string>

#include <doctest/doctest.h>

using namespace sandboxkit::config;

namespace {

/// `where: message` of the first problem, or "".
std::string problem_of(const std::string& text) {
  const Document document = parse_yaml(text, "f");
  return document.problems.empty()
             ? ""
             : document.problems.front().where + ": " + document.problems.front().message;
}

std::string nested(std::size_t levels) {
  std::string text = "k: ";
  // The map itself is the first level.
  for (std::size_t i = 1; i < levels; ++i) {
    text += '[';
  }
  return text + std::string(levels - 1, ']');
}

}  // namespace

TEST_CASE("maps, lists and scalars are read with their lines") {
  const Document document = parse_yaml("# a comment\na: 1\nb:\n  c: 'x'\n  d: [y, z]\ne:\n", "f");
  REQUIRE(document.problems.empty());
  const auto& members = document.root.items;
  REQUIRE(members.size() == 3);
  CHECK(members[0].key == "a");
  CHECK(members[0].key_line == 2);
  CHECK(members[0].text == "1");
  CHECK_FALSE(members[0].quoted);
  const auto& inner = members[1].items;
  REQUIRE(inner.size() == 2);
  CHECK(inner[0].key_line == 4);
  CHECK(inner[0].quoted);
  REQUIRE(inner[1].items.size() == 2);
  CHECK(inner[1].items[1].text == "z");
  CHECK(members[2].kind == YamlNode::Kind::kEmpty);
}

TEST_CASE("a file without a value is empty and good") {
  for (const char* text :
       {"", "\n\n", "# only a comment\n", "---\n", "---\n...\n", "\xef\xbb\xbf"}) {
    CAPTURE(text);
    CHECK(problem_of(text) == "");
    CHECK(parse_yaml(text, "f").root.items.empty());
  }
}

TEST_CASE("what has more than one reading is refused with its line") {
  struct Row {
    const char* text;
    const char* problem;
  };
  for (const Row& row :
       {Row{"a: 1\na: 2\n", "f:2: key `a` is given twice: first in line 1"},
        Row{"s:\n  b: 1\n\n  'b': 2\n", "f:4: key `b` is given twice: first in line 2"},
        Row{"a: &x 1\n", "f:1: anchors"}, Row{"a: &x\n  b: 1\n", "f:"},
        Row{"a: 1\nb: *a\n", "f:2: "}, Row{"a: !!int 1\n", "f:1: tags"},
        Row{"a: !mine [1]\n", "f:1: tags"}, Row{"a: 1\n---\nb: 2\n", "f:"},
        Row{"? [a]\n: 1\n", "f:1: a key must be a word"},
        Row{"~: 1\n", "f:1: a key must be a word"}, Row{"- a\n", "f:1: a file is a map"},
        Row{"text\n", "f:1: a file is a map"}, Row{"a: [1\nb: 2\n", "f:"},
        Row{"a: 1\n\tb: 2\n", "f:2: not YAML"}, Row{"a: 1\nb: \x01\n", "f:2: not plain UTF-8"},
        Row{"a: 1\nb: \xff\n", "f:2: not plain"}, Row{"a: \"\xe2\x80\xae\"\n", "f:1: not plain"}}) {
    CAPTURE(row.text);
    CHECK(problem_of(row.text).starts_with(row.problem));
  }
}

TEST_CASE("the file of a thousand laughs is refused at its first anchor") {
  std::string text = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char name = 'b'; name < 'k'; ++name) {
    const char before = static_cast<char>(name - 1);
    text += std::string{name} + ": &" + name + " [*" + before + ", *" + before + "]\n";
  }
  CHECK(problem_of(text).starts_with("f:1: anchors"));
}

TEST_CASE("depth has a limit") {
  CHECK(problem_of(nested(kMaxDepth)) == "");
  CHECK(problem_of(nested(kMaxDepth + 1)) == "f:1: nested deeper than 8 levels");
  CHECK(problem_of(nested(1000)) == "f:1: nested deeper than 8 levels");
  CHECK(problem_of("k: " + std::string(100'000, '[')) != "");
}

TEST_CASE("the number of values has a limit") {
  // A map and its key are two; each item is one more.
  const auto list_of = [](std::size_t count) {
    std::string text = "k:\n";
    for (std::size_t i = 0; i < count; ++i) {
      text += "- x\n";
    }
    return text;
  };
  CHECK(problem_of(list_of(kMaxNodes - 3)) == "");
  CHECK(problem_of(list_of(kMaxNodes - 2)).find("more than 10000 values") != std::string::npos);
}

TEST_CASE("the size has a limit") {
  std::string text = "k: v\n#";
  text.resize(kMaxFileBytes, 'x');
  CHECK(problem_of(text) == "");
  CHECK(problem_of(text + "x") == "f:1: larger than 1048576 bytes");
}

TEST_CASE("every key that stands twice is told, and the first value is kept") {
  const Document document = parse_yaml("a: 1\na: 2\na: 3\nb: 4\nb: 5\n", "f");
  CHECK(document.problems.size() == 3);
  REQUIRE(document.root.items.size() == 2);
  CHECK(document.root.items[0].text == "1");
}
