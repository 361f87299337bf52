// Opening what was judged. B4 is a bypass of the gate's design, section 3.

#include "tests/unit/agent/house.h"

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/syscall.h>

using namespace sandboxkit;              // NOLINT(google-build-using-namespace)
using namespace sandboxkit::agent_test;  // NOLINT(google-build-using-namespace)

namespace {

std::string text_of(const OpenOutcome& opened) {
  REQUIRE_MESSAGE(opened.file.has_value(), (opened.file ? "" : opened.file.error().message));
  std::string text(4096, '\0');
  const ssize_t size = ::pread(opened.file->descriptor(), text.data(), text.size(), 0);
  REQUIRE(size >= 0);
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::string reason_of(const OpenOutcome& opened) {
  return opened.file ? "opened" : sandboxkit::reason_of(opened.file.error());
}

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_into(const OpenOutcome& opened, const std::string& text) {
  REQUIRE(opened.file.has_value());
  REQUIRE(::write(opened.file->descriptor(), text.data(), text.size()) ==
          static_cast<ssize_t>(text.size()));
}

void exchange(const std::string& one, const std::string& other) {
  ::syscall(SYS_renameat2, AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
}

/// Sees another file under one name: what a second look at a path may come to.
class OtherEyes final : public FileEyes {
 public:
  OtherEyes(std::string name, std::string instead)
      : name_(std::move(name)), instead_(std::move(instead)) {}
  Result<SeenPath> look(const LookAt& at) const override {
    return system_eyes().look(at.path == name_ ? LookAt{"/", instead_, at.last} : at);
  }
  Status walk(const WalkFrom& from, const WalkVisitor& visit) const override {
    return system_eyes().walk(from, visit);
  }

 private:
  const std::string name_;
  const std::string instead_;
};

}  // namespace

TEST_CASE("what may be read or written is opened, and nothing else") {
  House house;
  const auto session = house.start(nullptr);
  CHECK(text_of(session->open({.cwd = house.tree, .path = "src/a.c"})) == "/home/proj/src/a.c");
  CHECK(reason_of(session->open({.cwd = house.tree, .path = house.home + "/.ssh/id_rsa"})) ==
        "denied");
  CHECK(reason_of(session->open({.cwd = house.tree, .path = house.srv + "/data/x.csv"})) ==
        "no_handler");
  CHECK(reason_of(session->open({.cwd = house.tree, .path = "src/none"})) == "not_found");
  CHECK(reason_of(session->open({.cwd = house.tree, .path = "src"})) == "not_a_file");
  CHECK(reason_of(session->open({.cwd = house.tree, .path = "/proc/self/environ"})) ==
        "not_a_file");
  CHECK(reason_of(session->open({.cwd = "", .path = "src/a.c"})) == "malformed");
  CHECK(reason_of(session->open({.cwd = house.tree, .path = ""})) == "malformed");
  CHECK(reason_of(session->open({.cwd = house.tree, .path = std::string("a\0b", 3)})) ==
        "malformed");
  CHECK(reason_of(session->open({.cwd = house.tree, .path = "/proc/self/fd/0"})) == "magic_link");
  const int file = session->open({.cwd = house.tree, .path = "src/a.c"}).file->descriptor();
  CHECK(file >= 0);
}

TEST_CASE("a descriptor does what was asked: read, write, append, truncate, make") {
  House house;
  const auto session = house.start(nullptr);
  const std::string made = house.tree + "/src/new.c";
  write_into(session->open({.cwd = house.tree,
                            .path = "src/new.c",
                            .use = OpenFor::kWrite,
                            .create = true,
                            .permissions = 0600}),
             "one");
  CHECK(content(made) == "one");
  struct stat facts {};
  REQUIRE(::stat(made.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
  write_into(
      session->open({.cwd = house.tree, .path = made, .use = OpenFor::kWrite, .append = true}),
      " two");
  CHECK(content(made) == "one two");
  const auto read = session->open({.cwd = house.tree, .path = made});
  CHECK(::write(read.file->descriptor(), "x", 1) == -1);
  write_into(session->open(
                 {.cwd = house.tree, .path = made, .use = OpenFor::kReadWrite, .truncate = true}),
             "3");
  CHECK(content(made) == "3");
  CHECK(reason_of(session->open({.cwd = house.tree,
                                 .path = made,
                                 .use = OpenFor::kWrite,
                                 .create = true,
                                 .exclusive = true})) == "exists");
  CHECK(reason_of(session->open(
            {.cwd = house.tree, .path = "no/folder/f", .use = OpenFor::kWrite, .create = true})) ==
        "not_found");
  CHECK(reason_of(session->open({.cwd = house.tree, .path = made, .truncate = true})) ==
        "invalid_argument");
  CHECK(reason_of(session->open(
            {.cwd = house.tree, .path = ".mcp.json", .use = OpenFor::kWrite, .create = true})) ==
        "denied");
  CHECK_FALSE(fs::exists(house.tree + "/.mcp.json"));
}

TEST_CASE("what a person allows to be opened is the object that the person was asked about") {
  House house;
  const auto session = house.start();
  const std::string path = house.srv + "/data/x.csv";
  house.person.follows([&](const Prompt& prompt, std::stop_token) -> Result<PromptReply> {
    // While the person thinks, another file comes under that name.
    fs::rename(path, house.srv + "/data/was_x.csv");
    House::write(path, "another");
    return PromptReply{
        .id = prompt.id, .digest = prompt.digest, .choice = PromptChoice::kOnce, .by = "x"};
  });
  const auto opened = session->open({.cwd = house.tree, .path = path});
  CHECK(told(opened.outcome) == "allow ask allowed_once");
  CHECK(reason_of(opened) == "moved");
}

TEST_CASE("a link is opened as what it leads to, if both may be") {
  House house;
  const auto session = house.start(nullptr);
  fs::create_symlink("src/a.c", house.tree + "/in");
  fs::create_symlink(house.home + "/.ssh/id_rsa", house.tree + "/out");
  fs::create_symlink(house.srv + "/made", house.tree + "/dangling");
  CHECK(text_of(session->open({.cwd = house.tree, .path = "in"})) == "/home/proj/src/a.c");
  CHECK(reason_of(session->open({.cwd = house.tree, .path = "out"})) == "denied");
  CHECK(reason_of(session->open(
            {.cwd = house.tree, .path = "dangling", .use = OpenFor::kWrite, .create = true})) ==
        "no_handler");
  CHECK_FALSE(fs::exists(house.srv + "/made"));
}

TEST_CASE("B4: what is judged is what is held, whatever a second look at the path would see") {
  House house;
  fs::create_symlink(house.home + "/.ssh/id_rsa", house.tree + "/way");
  const OtherEyes eyes("way", house.tree + "/src/a.c");
  const auto session =
      AgentSession::start(house.options, {.eyes = eyes, .clock = house.clock}).value();
  CHECK(told(session->check(house.request(Op::kRead, "way"))) == "allow work_tree in_root");
  CHECK(reason_of(session->open({.cwd = house.tree, .path = "way"})) == "denied");
}

TEST_CASE("case 88, B4: a folder that is swapped for a link lets nothing out") {
  House house;
  const auto session = house.start(nullptr);
  // Every try ends one way or the other, so the number of tries bounds the time.
  const int tries = std::getenv("SANDBOXKIT_FULL") != nullptr ? 100'000 : 1'000;
  House::write(house.tree + "/d/f", "inside");
  House::write(house.srv + "/secret/f", "outside");
  fs::create_directory_symlink(house.srv + "/secret", house.tree + "/swap");
  std::atomic<bool> done{false};
  int opened = 0;
  int escapes = 0;
  {
    std::jthread swapper([&] {
      while (!done) {
        exchange(house.tree + "/d", house.tree + "/swap");
        std::this_thread::yield();
      }
    });
    for (int i = 0; i < tries; ++i) {
      const bool makes = i % 4 == 3;
      const auto out = session->open({.cwd = house.tree,
                                      .path = makes ? "d/new" : "d/f",
                                      .use = makes ? OpenFor::kWrite : OpenFor::kRead,
                                      .create = makes});
      if (!out.file) {
        continue;
      }
      ++opened;
      if (makes) {
        escapes += fs::exists(house.srv + "/secret/new") ? 1 : 0;
        fs::remove(house.tree + "/d/new");
        fs::remove(house.tree + "/swap/new");
      } else {
        escapes += text_of(out) == "inside" ? 0 : 1;
      }
    }
    done = true;
  }
  CHECK(escapes == 0);
  CHECK(opened > 0);
  CHECK_FALSE(fs::exists(house.srv + "/secret/new"));
}
