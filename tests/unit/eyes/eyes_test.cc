#include "sandboxkit/system_eyes.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

namespace {

/// A folder that goes away with the test.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "eyes.XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = fs::canonical(name).string();
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string at(const std::string& name) const { return path_ + "/" + name; }
  void file(const std::string& name) const {
    fs::create_directories(fs::path(at(name)).parent_path());
    std::ofstream(at(name)) << name;
  }
  void link(const std::string& name, const std::string& target) const {
    fs::create_symlink(target, at(name));
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

SeenPath look(const LookAt& at) {
  auto seen = system_eyes().look(at);
  REQUIRE_MESSAGE(seen.has_value(), seen.error().message);
  return std::move(*seen);
}

FileIdentity identity_of(const std::string& path) {
  struct stat status {};
  REQUIRE(lstat(path.c_str(), &status) == 0);
  return {status.st_dev, status.st_ino};
}

}  // namespace

TEST_CASE("a path is seen by its canonical name, its facts and the directories above it") {
  const Folder folder;
  folder.file("a/b.c");
  fs::permissions(folder.at("a/b.c"), fs::perms(04750));
  for (const char* path : {"a/b.c", "./a//b.c", "a/../a/b.c", "a/./b.c"}) {
    CAPTURE(std::string(path));
    const SeenPath seen = look({.cwd = folder.path(), .path = path});
    CHECK(seen.canonical == folder.at("a/b.c"));
    REQUIRE(seen.file.has_value());
    CHECK(seen.file->identity == identity_of(folder.at("a/b.c")));
    CHECK(seen.file->type == FileType::kFile);
    CHECK(seen.file->mode == 04750);
    CHECK(seen.file->link_count == 1);
    CHECK(seen.above.front() == identity_of("/"));
    CHECK(seen.above.back() == identity_of(folder.at("a")));
    CHECK(seen.links.empty());
  }
  CHECK(look({.cwd = "/", .path = "/"}).canonical == "/");
  CHECK(look({.cwd = "/", .path = "/../.."}).canonical == "/");
}

TEST_CASE("links on the way are told, and the last one is followed or kept") {
  const Folder folder;
  folder.file("real/f");
  folder.link("dir", "real");
  folder.link("real/again", "f");
  folder.link("all", "dir/again");
  const SeenPath seen = look({.cwd = folder.path(), .path = "all"});
  CHECK(seen.canonical == folder.at("real/f"));
  CHECK(seen.asked_link == folder.at("all"));
  CHECK(seen.links ==
        std::vector<std::string>{folder.at("all"), folder.at("dir"), folder.at("real/again")});
  const SeenPath kept = look({.cwd = folder.path(), .path = "dir/again", .last = LastLink::kKeep});
  CHECK(kept.canonical == folder.at("real/again"));
  CHECK(kept.file->type == FileType::kLink);
  CHECK_FALSE(kept.asked_link.has_value());
  // Through a directory's link the last name is no link.
  CHECK_FALSE(look({.cwd = folder.path(), .path = "dir/f"}).asked_link.has_value());
  // A slash at the end asks for what is behind it.
  CHECK(look({.cwd = folder.path(), .path = "dir/", .last = LastLink::kKeep}).canonical ==
        folder.at("real"));
}

TEST_CASE("a link's `..` is the target's parent and not the text's") {
  const Folder folder;
  folder.file("x/y/f");
  folder.file("g");
  folder.link("l", "x/y");
  CHECK(look({.cwd = folder.path(), .path = "l/../y/f"}).canonical == folder.at("x/y/f"));
  CHECK_FALSE(look({.cwd = folder.path(), .path = "l/../g"}).file.has_value());
}

TEST_CASE("what does not exist is a place below what does") {
  const Folder folder;
  folder.file("a/f");
  folder.link("dangling", "a/none");
  const SeenPath seen = look({.cwd = folder.path(), .path = "a/new/dir/f"});
  CHECK(seen.canonical == folder.at("a/new/dir/f"));
  CHECK_FALSE(seen.file.has_value());
  CHECK(seen.above.back() == identity_of(folder.at("a")));
  const SeenPath dangling = look({.cwd = folder.path(), .path = "dangling"});
  CHECK(dangling.canonical == folder.at("a/none"));
  CHECK(dangling.asked_link == folder.at("dangling"));
  CHECK_FALSE(system_eyes().look({.cwd = folder.path(), .path = "a/none/../f"}).has_value());
  CHECK_FALSE(system_eyes().look({.cwd = folder.path(), .path = "a/f/below"}).has_value());
}

TEST_CASE("the kernel's links, loops and too many directories are errors") {
  const Folder folder;
  folder.link("loop", "loop");
  folder.link("magic", "/proc/self/root");
  const auto magic = system_eyes().look({.cwd = folder.path(), .path = "magic/etc"});
  REQUIRE_FALSE(magic.has_value());
  CHECK(magic.error().reason == "magic_link");
  CHECK_FALSE(system_eyes().look({.cwd = "/", .path = "/proc/self/fd/0"}).has_value());
  CHECK_FALSE(system_eyes().look({.cwd = folder.path(), .path = "loop"}).has_value());
  std::string deep = folder.path();
  for (int i = 0; i < 260; ++i) {
    deep += "/d";
  }
  fs::create_directories(deep);
  CHECK_FALSE(system_eyes().look({.cwd = "/", .path = deep}).has_value());
}

TEST_CASE("both names of a hard link are one object") {
  const Folder folder;
  folder.file("one");
  fs::create_hard_link(folder.at("one"), folder.at("two"));
  const SeenPath two = look({.cwd = folder.path(), .path = "two"});
  CHECK(two.canonical == folder.at("two"));
  CHECK(two.file->identity == identity_of(folder.at("one")));
  CHECK(two.file->link_count == 2);
}

TEST_CASE("a walk shows everything below, follows no link, and goes where it is sent") {
  const Folder folder;
  folder.file("a/b/f");
  folder.file("a/g");
  folder.file("h");
  folder.link("a/out", "..");
  const auto names = [&](WalkStep at_b) {
    std::vector<std::string> seen;
    const auto status =
        system_eyes().walk({.directory = folder.path()}, [&](const std::string& path, const auto&) {
          seen.push_back(path.substr(folder.path().size()));
          return path.ends_with("/b") ? at_b : WalkStep::kInto;
        });
    REQUIRE(status.has_value());
    std::ranges::sort(seen);
    return seen;
  };
  CHECK(names(WalkStep::kInto) ==
        std::vector<std::string>{"/a", "/a/b", "/a/b/f", "/a/g", "/a/out", "/h"});
  CHECK(names(WalkStep::kPast) == std::vector<std::string>{"/a", "/a/b", "/a/g", "/a/out", "/h"});
  int shown = 0;
  const WalkVisitor once = [&](const std::string&, const FileFacts&) {
    ++shown;
    return WalkStep::kStop;
  };
  CHECK(system_eyes().walk({.directory = folder.path()}, once).has_value());
  CHECK(shown == 1);
  CHECK(system_eyes().walk({.directory = folder.at("none")}, once).has_value());
  CHECK(system_eyes().walk({.directory = folder.at("h")}, once).has_value());
  CHECK(shown == 1);
}

TEST_CASE("a place that is swapped while it is looked at is seen as one of both, or not at all") {
  const Folder folder;
  folder.file("inside/f");
  folder.file("outside/f");
  folder.link("swapped", "outside");
  fs::rename(folder.at("inside"), folder.at("d"));
  constexpr int kLooks = 3000;
  std::atomic<bool> done = false;
  std::thread swapper([&] {
    constexpr unsigned kExchange = 2;  // RENAME_EXCHANGE
    while (!done) {
      syscall(SYS_renameat2, AT_FDCWD, folder.at("d").c_str(), AT_FDCWD,
              folder.at("swapped").c_str(), kExchange);
    }
  });
  const FileIdentity in = identity_of(folder.at("outside/f"));
  int wrong = 0;
  for (int i = 0; i < kLooks; ++i) {
    const auto seen = system_eyes().look({.cwd = folder.path(), .path = "d/f"});
    if (seen && seen->file) {
      const bool is_outside = seen->file->identity == in;
      wrong += is_outside != (seen->canonical == folder.at("outside/f")) ? 1 : 0;
    }
  }
  done = true;
  swapper.join();
  CHECK(wrong == 0);
}
