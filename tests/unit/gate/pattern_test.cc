#include "gate/pattern.h"

#include "gate/path_text.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;        // NOLINT(google-build-using-namespace)
using namespace sandboxkit::gate;  // NOLINT(google-build-using-namespace)

namespace {

const Anchors kAnchors{.home = "/home/u", .tree = "/home/u/p[1]", .scratch = {}};

PathPattern made(const std::string& text, Matching matching = Matching::kExact) {
  auto pattern = PathPattern::compile(text, kAnchors, matching);
  REQUIRE_MESSAGE(pattern.has_value(), pattern.error().message);
  return std::move(*pattern);
}

bool matches(const std::string& pattern, const std::string& path) {
  return made(pattern).matches(PathName(path));
}

}  // namespace

TEST_CASE("a pattern matches a place and everything below it") {
  struct Row {
    const char* pattern;
    const char* path;
    bool matches;
  };
  const std::vector<Row> rows = {
      {"/srv/data", "/srv/data", true},
      {"/srv/data", "/srv/data/x/y", true},
      {"/srv/data", "/srv/database", false},
      {"/srv/data", "/srv", false},
      {"/srv/data/**", "/srv/data", true},
      {"/srv/data/**", "/srv/data/x/y", true},
      {"/srv/*/x", "/srv/a/x", true},
      {"/srv/*/x", "/srv/a/b/x", false},
      {"/srv/**/x", "/srv/x", true},
      {"/srv/**/x", "/srv/a/b/x/y", true},
      {"/**/.git/hooks", "/a/.git/hooks/pre", true},
      {"/**/.git/hooks", "/a/.git/b/hooks", false},
      {"/**/a/**/b", "/x/a/y/a/b", true},
      {"/**/a/**/b", "/x/a/y/c", false},
      {"/srv/?.c", "/srv/a.c", true},
      {"/srv/?.c", "/srv/\u00e4.c", true},
      {"/srv/?.c", "/srv/ab.c", false},
      {"/srv/[a-c]x", "/srv/bx", true},
      {"/srv/[a-c]x", "/srv/dx", false},
      {"/srv/\\*", "/srv/*", true},
      {"/srv/\\*", "/srv/a", false},
      {"/srv/a*b*c", "/srv/aXbYbZc", true},
      {"/srv/a*b*c", "/srv/aXbYbZ", false},
      {"~/.ssh", "/home/u/.ssh/id", true},
      {"${tree}/x", "/home/u/p[1]/x", true},
      {"${tree}/x", "/home/u/p1/x", false},
      {"${scratch}/x", "/x", false},
      {".env", "/a/b/.env", true},
      {".env", "/a/.env/b", true},
      {".env", "/a/x.env", false},
      {"*.pem", "/a/b.pem", true},
      {"/srv/A", "/srv/a", false},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.pattern));
    CAPTURE(std::string(row.path));
    CHECK(matches(row.pattern, row.path) == row.matches);
  }
}

TEST_CASE("a denial's pattern folds, and so does the name") {
  const auto pattern = made("~/.SSH", Matching::kFolded);
  CHECK(pattern.matches(PathName("/HOME/u/.ssh/x")));
  CHECK(pattern.matches(PathName("/home/u/.s\u017fh")));
}

TEST_CASE("a pattern that could never match, or that is everything, says what to write instead") {
  for (const char* text :
       {"", "/", "/**", "**", "/**/**", "srv/x", "/srv/", "/srv//x", "/srv/../x", "/srv/./x",
        "/srv/a**", "/srv/[ab", "/srv/a\\", "./x", "$HOME/x", "~root/x"}) {
    CAPTURE(std::string(text));
    const auto pattern = PathPattern::compile(text, kAnchors, Matching::kExact);
    REQUIRE_FALSE(pattern.has_value());
    CHECK(pattern.error().code == ErrorCode::kInvalidArgument);
  }
  CHECK_FALSE(PathPattern::compile("/" + std::string(PathPattern::kMaxBytes, 'a'), kAnchors,
                                   Matching::kExact)
                  .has_value());
  CHECK(PathPattern::compile("/" + std::string(PathPattern::kMaxBytes - 1, 'a'), kAnchors,
                             Matching::kExact)
            .has_value());
}

TEST_CASE("whether a protected place lies below a directory is told by the text where it can be") {
  CHECK(made("~/.ssh").reaches_below(PathName("/home")));
  CHECK(made("~/.ssh").reaches_below(PathName("/")));
  CHECK_FALSE(made("~/.ssh").reaches_below(PathName("/home/u/.ssh")));
  CHECK_FALSE(made("~/.ssh").reaches_below(PathName("/home/v")));
  CHECK(made("/srv/*/x").reaches_below(PathName("/srv/a")));
  CHECK_FALSE(made("/**/.git/hooks").reaches_below(PathName("/a/.git")));
  CHECK(made("/**/.git/hooks").leads_through(PathName("/a/.git")));
  CHECK_FALSE(made("/**/.git/hooks").leads_through(PathName("/a/git")));
  CHECK_FALSE(made(".env").leads_through(PathName("/a/.env")));
}

TEST_CASE("many stars take no time") {
  const auto pattern = made("/a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b");
  CHECK_FALSE(pattern.matches(PathName("/" + std::string(2000, 'a'))));
  const auto deep = made("/**/a/**/a/**/a/**/a/**/a/**/b");
  std::string path;
  for (int i = 0; i < 500; ++i) {
    path += "/a";
  }
  CHECK_FALSE(deep.matches(PathName(path)));
}

TEST_CASE("paths are made plain by text alone") {
  CHECK(plain_path("/a/b", "../c//./d") == "/a/c/d");
  CHECK(plain_path("/", "../../x") == "/x");
  CHECK(plain_path("/a", "/b/..") == "/");
  CHECK(is_plain_absolute("/"));
  CHECK_FALSE(is_plain_absolute("/a/"));
  CHECK_FALSE(is_plain_absolute("a"));
  CHECK(goes_through_magic("/proc/self", "fd/3"));
  CHECK(goes_through_magic("/", "proc/12/task/12/root"));
  CHECK_FALSE(goes_through_magic("/srv", "proc/self/root"));
  CHECK(is_in_other_process("/proc/12"));
  CHECK_FALSE(is_in_other_process("/proc/12a"));
}
