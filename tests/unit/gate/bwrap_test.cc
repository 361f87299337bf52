#include "gate/bwrap_arguments.h"

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

namespace {

using Words = std::vector<std::string>;

BoxPlace place(const std::string& path, BoxAccess access, FileType type = FileType::kDirectory) {
  return {.path = path, .access = access, .identity = {1, 2}, .type = type};
}

const Words kNoVariables;

gate::BwrapInput input_of(const BoxPlan& plan) {
  return {.plan = plan,
          .version = {0, 8},
          .cwd = "/work",
          .environment = kNoVariables,
          .own_places = {"/home", "/tmp"},
          .closed_file = "/state/closed",
          .blank_file = "/state/blank",
          .has_placeholders = true,
          .filter_fd = 65};
}

Words words_of(const gate::BwrapInput& input) {
  const auto made = gate::bwrap_arguments(input);
  REQUIRE_MESSAGE(made.has_value(), made.error().message);
  return made->arguments;
}

/// Where a run of words begins; npos when it is not there.
std::size_t at(const Words& words, const Words& run) {
  const auto found = std::search(words.begin(), words.end(), run.begin(), run.end());
  return found == words.end() ? std::string::npos : static_cast<std::size_t>(found - words.begin());
}

BoxPlan plan_with(std::vector<BoxPlace> places) {
  return {.places = std::move(places), .tree = "/work", .home = "/home/u"};
}

}  // namespace

TEST_CASE("places are mounted after what lies above them, and hidden ones are sealed last") {
  const BoxPlan plan = plan_with(
      {place("/srv", BoxAccess::kHide), place("/srv/data", BoxAccess::kReadOnly),
       place("/work", BoxAccess::kReadWrite),
       place("/work/.env", BoxAccess::kHide, FileType::kFile), place("/work/.git", BoxAccess::kPin),
       place("/work/.git/hooks", BoxAccess::kReadOnly),
       place("/work/.mcp.json", BoxAccess::kAbsent, FileType::kFile)});
  const Words words = words_of(input_of(plan));
  const std::vector<Words> expected = {
      {"--ro-bind", "/", "/"},
      {"--tmpfs", "/home"},
      {"--tmpfs", "/srv"},
      {"--ro-bind", "/srv/data", "/srv/data"},
      {"--bind", "/work", "/work"},
      {"--ro-bind", "/state/closed", "/work/.env"},
      {"--bind", "/work/.git", "/work/.git"},
      {"--ro-bind", "/work/.git/hooks", "/work/.git/hooks"},
      {"--ro-bind", "/state/blank", "/work/.mcp.json"},
      {"--remount-ro", "/srv"},
      {"--chdir", "/work"},
      {"--seccomp", "65"},
  };
  std::size_t last = 0;
  for (const Words& run : expected) {
    CAPTURE(run.front());
    CAPTURE(run.back());
    const std::size_t found = at(words, run);
    REQUIRE(found != std::string::npos);
    CHECK(found >= last);
    last = found;
  }
  CHECK(at(words, {"--clearenv"}) != std::string::npos);
  CHECK(at(words, {"--disable-userns"}) != std::string::npos);
}

TEST_CASE("an old bubblewrap is never asked to make a mount point in the tree") {
  const BoxPlan plan = plan_with({place("/work", BoxAccess::kReadWrite),
                                  place("/work/.mcp.json", BoxAccess::kAbsent, FileType::kFile)});
  auto input = input_of(plan);
  input.has_placeholders = false;
  CHECK(gate::bwrap_arguments(input).error().reason == "bwrap_too_old");
  input.version = {0, 11};
  CHECK(gate::bwrap_arguments(input).error().reason == "bwrap_too_old");
  input.version = {0, 12};
  CHECK(gate::bwrap_arguments(input).has_value());
  input.version = {1, 0};
  CHECK(gate::bwrap_arguments(input).has_value());
}

TEST_CASE("what bubblewrap does not hold is told") {
  const BoxPlan plan = plan_with({place("/work", BoxAccess::kReadWrite),
                                  place("/work/.zed", BoxAccess::kReadOnly, FileType::kLink)});
  auto input = input_of(plan);
  input.filter_fd = -1;
  const auto made = gate::bwrap_arguments(input);
  REQUIRE(made.has_value());
  CHECK(made->weaknesses.size() == 3);
  CHECK(made->weaknesses.front().find("/work/.zed") != std::string::npos);
  // A mount there would follow it.
  CHECK(std::ranges::count(made->arguments, "/work/.zed") == 0);
}

TEST_CASE("more arguments than bubblewrap takes, a staged plan and a NUL are refused") {
  std::vector<BoxPlace> places = {place("/work", BoxAccess::kReadWrite)};
  for (int i = 0; i < 3000; ++i) {
    places.push_back(place("/work/p" + std::to_string(i), BoxAccess::kReadOnly));
  }
  CHECK(gate::bwrap_arguments(input_of(plan_with(places))).error().code == ErrorCode::kTooLarge);
  places.resize(2900);
  CHECK(gate::bwrap_arguments(input_of(plan_with(places))).has_value());
  BoxPlan staged = plan_with({});
  staged.staged = true;
  CHECK(gate::bwrap_arguments(input_of(staged)).error().field == "staged");
  CHECK(!gate::bwrap_arguments(
             input_of(plan_with({place(std::string("/a\0b", 4), BoxAccess::kReadOnly)})))
             .has_value());
}

TEST_CASE("whatever letters a path has, it is one argument") {
  std::mt19937 random(11);
  constexpr std::array<std::string_view, 10> kPieces = {"--bind", " ",    "\n",   "\"", "\\",
                                                        "--",     "\xff", "$(x)", "a",  "\xc3\xbc"};
  for (int round = 0; round < 300; ++round) {
    std::string path = "/work/";
    for (std::size_t i = 0; i < 1 + random() % 6; ++i) {
      path += kPieces[random() % kPieces.size()];
    }
    const BoxPlan plan =
        plan_with({place("/work", BoxAccess::kReadWrite), place(path, BoxAccess::kReadOnly)});
    const auto made = gate::bwrap_arguments(input_of(plan));
    REQUIRE(made.has_value());
    CHECK(at(made->arguments, {"--ro-bind", path, path}) != std::string::npos);
    // Read back as bubblewrap does: the same words, and as many.
    Words read;
    const std::string joined = made->joined();
    for (std::size_t from = 0; from < joined.size();) {
      const auto end = joined.find('\0', from);
      read.push_back(joined.substr(from, end - from));
      from = end + 1;
    }
    CHECK(read == made->arguments);
  }
}
