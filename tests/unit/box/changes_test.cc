#include "sandboxkit/box_changes.h"

#include "world.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

namespace sandboxkit {
namespace {

using namespace box_test;
namespace fs = std::filesystem;

/// A staged run of a shell's text, with what it changed.
struct StagedRun {
  BoxStaged staged{};
  std::vector<BoxChange> changes{};
};

StagedRun staged_run(const World& world, const std::string& text) {
  BoxPlan plan = world.plan();
  plan.staged = true;
  BoxCommand command = shell(world, text);
  const io::Fd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  command.descriptors = {{nothing.get(), 0}, {nothing.get(), 1}, {nothing.get(), 2}};
  auto box = Box::start(plan, command, world.options());
  REQUIRE_MESSAGE(box, (box ? "" : box.error().message));
  REQUIRE(*(*box)->wait(std::chrono::seconds(30)));
  StagedRun out{(*box)->staged(), {}};
  auto changes = list_box_changes(out.staged);
  REQUIRE_MESSAGE(changes, (changes ? "" : changes.error().message));
  out.changes = *std::move(changes);
  return out;
}

std::vector<std::string> words_of(const World& world, const std::vector<BoxChange>& changes) {
  std::vector<std::string> out;
  for (const BoxChange& change : changes) {
    out.push_back(std::string(name_of(change.kind)) + " " +
                  change.path.substr(world.tree().size() + 1));
  }
  return out;
}

std::string no_refusal(const BoxChange&) { return {}; }

using Words = std::vector<std::string>;

TEST_CASE("what a staged run changed is told by name, and what it only touched is not") {
  const World world;
  write_text(world.tree() + "/old/a", "1\n");
  write_text(world.tree() + "/old/b", "1\n");
  write_text(world.tree() + "/gone/x", "1\n");
  write_text(world.tree() + "/same", "1\n");
  write_text(world.tree() + "/kind", "1\n");
  const auto ran = staged_run(
      world,
      "echo new > src/a.c; touch same; mkdir -p d/e; echo f > d/e/f; rm -r gone; "
      "rm -r old; mkdir old; echo 2 > old/b; ln -s d l; rm kind; mkdir kind; echo x > hl");
  Words expected{"made d",    "made d/e", "made d/e/f",    "removed gone",  "removed kind",
                 "made kind", "made l",   "removed old/a", "changed old/b", "changed src/a.c"};
  Words got = words_of(world, ran.changes);
  std::ranges::sort(expected);
  std::ranges::sort(got);
  CHECK(got == expected);
  CHECK(remove_box_stage(ran.staged));
  CHECK(!exists(ran.staged.dir));
}

TEST_CASE("a commit makes the changes, and takes no rights with it") {
  const World world;
  write_text(world.tree() + "/gone/x", "1\n");
  const auto ran = staged_run(world,
                              "echo new > src/a.c; mkdir -p d/e; echo f > d/e/f; "
                              "chmod 4755 d/e/f; rm -r gone; ln -s e d/l");
  const auto refused = commit_box_changes(ran.staged, ran.changes, no_refusal);
  CHECK(refused.empty());
  CHECK(text_of(world.tree() + "/src/a.c") == "new\n");
  CHECK(text_of(world.tree() + "/d/l/f") == "f\n");
  CHECK(fs::status(world.tree() + "/d/e/f").permissions() ==
        (fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
         fs::perms::others_read | fs::perms::others_exec));
  CHECK(!exists(world.tree() + "/gone"));
  for (const auto& entry : fs::directory_iterator(world.tree())) {
    CHECK(entry.path().filename().string().find(".sandboxkit-") == std::string::npos);
  }
}

TEST_CASE("what is refused stays off the host, with what lies below it") {
  const World world;
  const auto ran =
      staged_run(world, "mkdir -p n/.git/hooks; echo x > n/.git/hooks/x; echo y > n/y");
  const auto refused = commit_box_changes(ran.staged, ran.changes, [](const BoxChange& change) {
    return change.path.ends_with("/.git/hooks") ? std::string("denied") : std::string();
  });
  REQUIRE(refused.size() == 2);
  CHECK(refused[0].why == "denied");
  CHECK(refused[1].why == "its directory was refused");
  CHECK(!exists(world.tree() + "/n/.git/hooks"));
  CHECK(text_of(world.tree() + "/n/y") == "y\n");
}

TEST_CASE("what changed on the host meanwhile is refused and kept") {
  const World world;
  for (const char* name : {"/both", "/removed", "/dir/x"}) {
    write_text(world.tree() + name, "1\n");
  }
  const auto ran = staged_run(world, "echo box > both; rm removed; rm -r dir; echo box > new");
  for (const char* name : {"/both", "/removed", "/dir/x", "/new"}) {
    write_text(world.tree() + name, "host\n");
  }
  CHECK(commit_box_changes(ran.staged, ran.changes, no_refusal).size() == 4);
  for (const char* name : {"/both", "/removed", "/dir/x", "/new"}) {
    CAPTURE(name);
    CHECK(text_of(world.tree() + name) == "host\n");
  }
}

TEST_CASE("a commit goes through no link that somebody put on the host") {
  const World world;
  const auto ran = staged_run(world, "echo evil > src/b.c; echo evil > src/a.c");
  fs::rename(world.tree() + "/src", world.tree() + "/moved");
  fs::create_directory_symlink(world.outside(), world.tree() + "/src");
  CHECK(commit_box_changes(ran.staged, ran.changes, no_refusal).size() == 2);
  CHECK(!exists(world.outside() + "/b.c"));
  CHECK(!exists(world.outside() + "/a.c"));
}

TEST_CASE("two staged runs on one tree do not see each other") {
  const World world;
  const auto first = staged_run(world, "echo 1 > src/a.c");
  const auto second = staged_run(world, "cat src/a.c > seen; echo 2 > other");
  CHECK(commit_box_changes(second.staged, second.changes, no_refusal).empty());
  CHECK(text_of(world.tree() + "/seen") == "of the host\n");
  CHECK(commit_box_changes(first.staged, first.changes, no_refusal).empty());
  CHECK(text_of(world.tree() + "/src/a.c") == "1\n");
}

TEST_CASE("a sweep sets new names apart that nobody may make, and leaves old ones") {
  const World world;
  auto box = Box::start(
      world.plan(), shell(world, "mkdir -p n/.git/hooks; echo x > n/.git/hooks/x; echo y > n/y"),
      world.options());
  REQUIRE(box);
  REQUIRE(*(*box)->wait(std::chrono::seconds(30)));
  const auto swept = sweep_box_places({world.tree()}, (*box)->began_ns(), [](const BoxChange& one) {
    return one.path.ends_with("/hooks") ? std::string("denied") : std::string();
  });
  REQUIRE(swept);
  REQUIRE(swept->quarantined.size() == 1);
  CHECK(swept->quarantined[0].path == world.tree() + "/n/.git/hooks");
  CHECK(!exists(world.tree() + "/n/.git/hooks"));
  CHECK(exists(world.tree() + "/n/.git/hooks.sandboxkit-quarantine/x"));
  CHECK(exists(world.tree() + "/.git/hooks/x"));
  REQUIRE(swept->changed.size() == 1);
  CHECK(swept->changed[0].path == world.tree() + "/n/y");
}

}  // namespace
}  // namespace sandboxkit
