#include "gate/lexer.h"

#include "gate/unwrap.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit::gate;  // NOLINT(google-build-using-namespace)

namespace {

/// `git|status ; rm|x`: the words of each program that was read.
std::string words_of(const CommandLine& line) {
  std::string text;
  for (const SimpleCommand& command : line.commands) {
    text += text.empty() ? "" : " ; ";
    for (std::size_t i = 0; i < command.words.size(); ++i) {
      text += (i == 0 ? "" : "|") + command.words[i].text;
    }
  }
  return text;
}

std::string started_by(const std::string& text) {
  std::string all;
  for (const Started& started : parts_of_command(text).programs) {
    all += all.empty() ? "" : " ; ";
    all += started.is_opaque ? "?" : "";
    all += started.is_carried ? "~" : "";
    for (const std::string& variable : started.variables) {
      all += variable + " ";
    }
    for (std::size_t i = 0; i < started.words.size(); ++i) {
      all += (i == 0 ? "" : "|") + started.words[i].text;
    }
  }
  return all;
}

}  // namespace

TEST_CASE("plain lines are read word by word") {
  struct Row {
    const char* text;
    const char* words;
  };
  const std::vector<Row> rows = {
      {"git status", "git|status"},
      {"  git\tstatus  ", "git|status"},
      {"a 'b c' \"d e\" f\\ g", "a|b c|d e|f g"},
      {"a'b'\"c\"d", "abcd"},
      {"a \"x\\\"y\\\\z\\n\"", "a|x\"y\\z\\n"},
      {"a '' \"\"", "a||"},
      {"a && b || c ; d | e\nf", "a ; b ; c ; d ; e ; f"},
      {"a &&\n\n b", "a ; b"},
      {"\n\na\n\n", "a"},
      {"a;", "a"},
      {"a *.c x=y", "a|*.c|x=y"},
      {"A=1 B='2 3' c", "c"},
      {"a -2", "a|-2"},
      {"'if' x", "if|x"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.text));
    const CommandLine line = read_command(row.text);
    if (std::string(row.text).starts_with("'if'")) {
      // A quoted word of the language is a program's name, which nobody has: opaque costs nothing.
      CHECK(line.shape == CommandShape::kOpaque);
      continue;
    }
    CHECK(line.shape == CommandShape::kPlain);
    CHECK(words_of(line) == row.words);
  }
}

TEST_CASE("redirections to literal words are read, and their descriptors are no words") {
  const CommandLine line = read_command("a 2>&1 >out 2>>'e r' <in x >|y");
  CHECK(line.shape == CommandShape::kRedirect);
  CHECK(words_of(line) == "a|x");
  REQUIRE(line.commands[0].redirections.size() == 4);
  CHECK(line.commands[0].redirections[0].writes);
  CHECK(line.commands[0].redirections[0].target.text == "out");
  CHECK(line.commands[0].redirections[1].target.text == "e r");
  CHECK_FALSE(line.commands[0].redirections[2].writes);
  CHECK(line.commands[0].redirections[3].target.text == "y");
  CHECK(read_command("a > ~/.x").commands[0].redirections[0].target == Word{"~/.x", true});
  CHECK_FALSE(read_command("a '~/x'").commands[0].words[1].has_tilde);
  CHECK(read_command("a 2>&1").shape == CommandShape::kPlain);
}

TEST_CASE("whatever a shell would do more is opaque, with the reason") {
  for (const char* text : {"a $x",
                           "a `b`",
                           "a $(b)",
                           "a \"$x\"",
                           "a \"`b`\"",
                           "(a)",
                           "{ a; }",
                           "a {b,c}",
                           "a <(b)",
                           "a >(b)",
                           "a <<E\nE",
                           "a <<<b",
                           "a &",
                           "a & b",
                           "a |& b",
                           "a &> b",
                           "a >& b",
                           "a <&3",
                           "* a",
                           "[x] a",
                           "! a",
                           "f() { a; }",
                           "if a; then b; fi",
                           "for x in a; do b; done",
                           "eval a",
                           "source x",
                           ". x",
                           "export A=b",
                           "alias a=b",
                           "set -e",
                           "trap a 0",
                           "a 'b",
                           "a \"b",
                           "a \\",
                           "a \\\nb",
                           "a # b",
                           "#a",
                           "a ;; b",
                           "&& a",
                           "a && ",
                           "a | ",
                           "a ||",
                           "> x",
                           "A=b",
                           "a ~root/x",
                           "a\rb",
                           "a\x01",
                           "a \xff",
                           "",
                           "   ",
                           "a[0]=b",
                           "[[ a ]]",
                           "a >*.c",
                           "a >",
                           "A+=b c",
                           "a <>b",
                           "a~\"b\" ~\"/x\"",
                           "a ~'/x'",
                           "exit",
                           "a; read x"}) {
    CAPTURE(std::string(text));
    const CommandLine line = read_command(text);
    CHECK(line.shape == CommandShape::kOpaque);
    CHECK_FALSE(line.why_opaque.empty());
    CHECK(line.commands.empty());
  }
  CHECK(read_command(std::string("a\0b", 3)).shape == CommandShape::kOpaque);
}

TEST_CASE("lines are bounded in bytes and commands") {
  const std::string fits = "a " + std::string(kMaxCommandBytes - 2, 'b');
  CHECK(read_command(fits).shape == CommandShape::kPlain);
  CHECK(read_command(fits + "b").shape == CommandShape::kOpaque);
  std::string many = "a";
  for (std::size_t i = 1; i < kMaxCommands; ++i) {
    many += ";a";
  }
  CHECK(read_command(many).commands.size() == kMaxCommands);
  CHECK(read_command(many + ";a").shape == CommandShape::kOpaque);
}

TEST_CASE("programs that only start another are taken off") {
  struct Row {
    const char* text;
    const char* started;
  };
  const std::vector<Row> rows = {
      {"timeout 5 git status", "git|status"},
      {"timeout -s KILL --kill-after=3 5 git status", "git|status"},
      {"nice -n 5 git x", "git|x"},
      {"nice -n5 nohup setsid git x", "git|x"},
      {"env -i A=b C=d git x", "A=b C=d git|x"},
      {"A=b env -u Z git x", "A=b git|x"},
      {"command git x", "git|x"},
      {"exec -a n git x", "git|x"},
      {"/usr/bin/env git x", "git|x"},
      {"bash -c 'git status'", "git|status"},
      {"sh -ec 'git a; git b'", "git|a ; git|b"},
      {"A=b sh -c 'git x'", "A=b git|x"},
      {"bash -c 'bash -c \"git x\"'", "git|x"},
      {"bash script.sh", "bash|script.sh"},
      {"bash -c '$x'", "?"},
      {"env -S 'git x'", "?env|-S|git x ; ~-S|git x ; ~git x"},
      {"timeout", "timeout"},
      {"command -v git", "?command|-v|git ; ~-v|git ; ~git"},
      {"find . -exec rm {} ';'", "~rm|{} ; find|.|-exec|rm|{}|;"},
      {"find . -exec rm x ';'", "~rm|x ; find|.|-exec|rm|x|;"},
      {"xargs -n 1 rm", "~-n|1|rm ; ~1|rm ; ~rm ; xargs|-n|1|rm"},
      {"cd a && git x", "git|x"},
      {"cd a; git x", "?"},
      {"cd a || git x", "?"},
      {"cd && git x", "?"},
      {"cd - && git x", "?"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.text));
    // The order of what is opaque and what is guessed says nothing.
    CHECK(started_by(row.text).size() == std::string(row.started).size());
    for (const char c : std::string("?~")) {
      CHECK((started_by(row.text).find(c) != std::string::npos) ==
            (std::string(row.started).find(c) != std::string::npos));
    }
    if (std::string(row.started).find("~") == std::string::npos) {
      CHECK(started_by(row.text) == row.started);
    }
  }
  CHECK(parts_of_command("cd a && cd /b && git x").programs[0].folders.size() == 2);
}

TEST_CASE("shells in shells end at a depth, and words multiply no work") {
  std::string nested = "git x";
  for (int i = 0; i < 12; ++i) {
    std::string quoted;
    for (const char c : nested) {
      quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    nested = "sh -c '" + quoted + "'";
    if (nested.size() > kMaxCommandBytes) {
      break;
    }
  }
  const CommandParts parts = parts_of_command(nested);
  REQUIRE(parts.programs.size() == 1);
  CHECK(parts.programs[0].is_opaque);
  std::string many = "xargs";
  for (int i = 0; i < 200; ++i) {
    many += " xargs";
  }
  CHECK(parts_of_command(many).programs.size() < 64);
}

TEST_CASE("a glimpse sees programs, written words and the rest") {
  const auto seen = glimpse("x=1; $(sudo cat \"~/.ssh/id\") >> out | tee b & c");
  std::string text;
  for (const Glimpse& one : seen) {
    text += std::string(one.at_command ? "!" : "") + (one.written ? ">" : "") + one.word.text + " ";
  }
  CHECK(text == "!x=1 !sudo cat ~/.ssh/id >out !tee b !c ");
}
