#include "gate/seatbelt.h"

#include "gate/seatbelt_regex.h"
#include "tests/support/sbpl.h"

#include <array>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;            // NOLINT(google-build-using-namespace)
using namespace sandboxkit::box_test;  // NOLINT(google-build-using-namespace)

namespace {

BoxPlace place(const std::string& path, BoxAccess access, FileType type = FileType::kDirectory) {
  return {.path = path, .access = access, .identity = {1, 2}, .type = type};
}

Profile profile_of(const BoxPlan& plan, std::uint16_t port = 0) {
  const auto text = gate::seatbelt_profile({plan, port});
  REQUIRE_MESSAGE(text.has_value(), text.error().message);
  auto profile = Profile::read(*text);
  REQUIRE_MESSAGE(profile.has_value(), profile.error().message);
  return std::move(*profile);
}

void collect(const Form& form, std::set<std::string>& paths) {
  const bool is_filter = form.items.size() == 2 &&
                         (form.items[0].text == "literal" || form.items[0].text == "subpath" ||
                          form.items[0].text == "path-literal");
  if (is_filter) {
    paths.insert(form.items[1].text);
  }
  for (const Form& item : form.items) {
    collect(item, paths);
  }
}

std::set<std::string> paths_of(const Profile& profile) {
  std::set<std::string> paths;
  for (const Form& form : profile.forms()) {
    collect(form, paths);
  }
  return paths;
}

/// A path of letters that mean something to profiles, shells and expressions.
std::string hostile_path(std::mt19937& random) {
  constexpr std::array<std::string_view, 14> kPieces = {
      "\"",   "\\",   ")",    "(allow default)", "\n", "#\"", "\xff", "..;", " ", "a",
      ".env", "$(x)", "\x01", "\xc3\xbc"};
  std::string path = "/work";
  for (std::size_t i = 0; i < 1 + random() % 3; ++i) {
    path += "/x";
    for (std::size_t k = random() % 6; k > 0; --k) {
      path += kPieces[random() % kPieces.size()];
    }
  }
  return path;
}

}  // namespace

TEST_CASE("whatever letters a path has, a profile holds the plan's paths and no others") {
  std::mt19937 random(7);
  const std::set<std::string> fixed = paths_of(profile_of({}));
  for (int round = 0; round < 500; ++round) {
    BoxPlan plan{.tree = "/work", .home = "/home/u"};
    std::set<std::string> expected = fixed;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto access = static_cast<BoxAccess>(random() % 5);
      plan.places.push_back(place(hostile_path(random), access));
      expected.insert(plan.places.back().path);
    }
    plan.sockets = {hostile_path(random)};
    expected.insert(plan.sockets.front());
    plan.names = {{.pattern = "n" + hostile_path(random).substr(6)}};
    const Profile profile = profile_of(plan);
    for (const std::string& path : paths_of(profile)) {
      CAPTURE(path);
      // Directories above a place may be walked through.
      bool is_above = false;
      for (const std::string& known : expected) {
        is_above = is_above || known.starts_with(path + "/");
      }
      CHECK((expected.contains(path) || is_above));
    }
    // A pin is no place by itself, and a link is not shown: all others are there.
    for (const BoxPlace& wanted : plan.places) {
      CHECK(paths_of(profile).contains(wanted.path));
    }
    CHECK(!profile.allows("file-read-data", "/private/secret"));
    CHECK(!profile.allows("network-outbound", "/private/secret"));
  }
}

TEST_CASE("places of /tmp, /var and /etc are named as the kernel calls them too") {
  const BoxPlan plan{.places = {place("/tmp/work", BoxAccess::kReadWrite),
                                place("/private/var/data", BoxAccess::kReadOnly)},
                     .tree = "/tmp/work",
                     .home = "/home/u"};
  BoxPlan named = plan;
  named.names = {{.pattern = "/tmp/work/no"}};
  CHECK(!profile_of(named).allows("file-write-create", "/private/tmp/work/No"));
  const Profile profile = profile_of(plan);
  CHECK(profile.allows("file-write-create", "/private/tmp/work/x"));
  CHECK(profile.allows("file-write-create", "/tmp/work/x"));
  CHECK(profile.allows("file-read-data", "/var/data/x"));
  CHECK(!profile.allows("file-write-create", "/var/data/x"));
  CHECK(!profile.allows("file-write-create", "/private/tmp/worker"));
}

TEST_CASE("a root of the plan cannot be taken away, and a pin only stays where it is") {
  const BoxPlan plan{
      .places = {place("/work", BoxAccess::kReadWrite), place("/work/sub", BoxAccess::kPin)},
      .tree = "/work",
      .home = "/home/u"};
  const Profile profile = profile_of(plan);
  CHECK(!profile.allows("file-write-unlink", "/work"));
  CHECK(!profile.allows("file-write-unlink", "/work/sub"));
  CHECK(profile.allows("file-write-unlink", "/work/sub/x"));
  CHECK(profile.allows("file-write-create", "/work/sub/x"));
}

TEST_CASE("nothing is dialled but the proxy's port and granted sockets") {
  const BoxPlan plan{.tree = "/work", .home = "/home/u", .sockets = {"/run/a.sock"}};
  CHECK(!profile_of({}).allows("network-outbound", ""));
  const auto text = gate::seatbelt_profile({plan, 3128});
  REQUIRE(text.has_value());
  CHECK(text->find("(remote ip \"localhost:3128\")") != std::string::npos);
  CHECK(profile_of(plan).allows("network-outbound", "/run/a.sock"));
  CHECK(!profile_of(plan).allows("network-outbound", "/run/b.sock"));
}

TEST_CASE("public certificates are read although keys are hidden by their names") {
  BoxPlan plan{
      .places = {place("/work", BoxAccess::kReadWrite)}, .tree = "/work", .home = "/home/u"};
  plan.names = {{.pattern = "*.key", .access = BoxAccess::kHide},
                {.pattern = "*.pem",
                 .access = BoxAccess::kHide,
                 .except_reading = {"/etc/ssl/certs", "${tree}/open"}}};
  const Profile profile = profile_of(plan);
  CHECK(profile.allows("file-read-data", "/private/etc/ssl/certs/ca.pem"));
  CHECK(!profile.allows("file-read-data", "/etc/ssl/certs/ca.key"));
  CHECK(!profile.allows("file-read-data", "/etc/ssl/private/x.PEM"));
  // Where things can be changed, an exception for reading opens nothing.
  CHECK(!profile.allows("file-write-create", "/work/open/x.pem"));
}

TEST_CASE("an exception opens no name that another rule denies") {
  BoxPlan plan{
      .places = {place("/work", BoxAccess::kReadWrite)}, .tree = "/work", .home = "/home/u"};
  plan.names = {{.pattern = ".vscode"},
                {.pattern = ".env.*", .access = BoxAccess::kHide, .except = {"/**/.env.example"}}};
  const Profile profile = profile_of(plan);
  CHECK(profile.allows("file-write-create", "/work/a/.env.example"));
  CHECK(!profile.allows("file-write-create", "/work/a/.env.local"));
  CHECK(!profile.allows("file-write-create", "/work/.vscode/.env.example"));
  CHECK(!profile.allows("file-write-create", "/other/.env.example"));
  CHECK(!profile.allows("file-write-create", "/work/.VSCode"));
}

TEST_CASE("a file that an exception opens in a closed directory is open") {
  BoxPlan plan{.places = {place("/work", BoxAccess::kReadWrite),
                          place("/work/.vscode", BoxAccess::kReadOnly),
                          place("/work/.vscode/a.json", BoxAccess::kReadWrite, FileType::kFile)},
               .tree = "/work",
               .home = "/home/u"};
  plan.names = {{.pattern = ".vscode", .except = {"${tree}/.vscode/a.json"}}};
  const Profile profile = profile_of(plan);
  CHECK(profile.allows("file-write-data", "/work/.vscode/a.json"));
  CHECK(!profile.allows("file-write-unlink", "/work/.vscode/a.json"));
  CHECK(!profile.allows("file-write-create", "/work/.vscode/b.json"));
}

TEST_CASE("a staged plan and a path with a NUL are no profiles") {
  CHECK(gate::seatbelt_profile({BoxPlan{.staged = true}}).error().field == "staged");
  const BoxPlan plan{.places = {place(std::string("/a\0b", 4), BoxAccess::kReadOnly)}};
  CHECK(gate::seatbelt_profile({plan}).error().field == "places");
}
