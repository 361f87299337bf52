// The generated questions, tried by a real process in a real box: it can do what the gate allows,
// and whatever differs has a name.

#include "sandboxkit/box.h"
#include "sandboxkit/system_eyes.h"

#include "box/bwrap.h"
#include "gate/box_view.h"
#include "gate/path_text.h"
#include "io/fd.h"
#include "tests/support/box_gaps.h"
#include "tests/unit/box_kernel/disk.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

using namespace sandboxkit;            // NOLINT(google-build-using-namespace)
using namespace sandboxkit::box_test;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kQuestions = 400;

/// Runs the probe with its two files in a box of the plan, and says how it ended.
using Boxed = std::function<int(const Disk&, const BoxPlan&, int input, int output)>;

int native(const Disk& disk, const BoxPlan& plan, int input, int output) {
  BoxOptions options;
  options.state_dir = disk.at("state");
  auto box = Box::start(plan,
                        {.argv = {disk.probe()},
                         .cwd = plan.tree,
                         .descriptors = {{input, 0}, {output, 1}, {STDERR_FILENO, 2}}},
                        options);
  REQUIRE_MESSAGE(box.has_value(), box.error().message);
  const auto end = (*box)->wait(std::chrono::seconds(60));
  REQUIRE(end.has_value());
  REQUIRE(end->has_value());
  return (*end)->exit_code;
}

int in_bwrap(const Disk& disk, const BoxPlan& plan, int input, int output) {
  const auto program = box::find_bwrap();
  REQUIRE_MESSAGE(program.has_value(), program.error().message);
  BoxOptions options;
  options.state_dir = disk.at("state");
  auto started = box::start_in_bwrap(*program, plan,
                                     {.argv = {disk.probe()},
                                      .cwd = plan.tree,
                                      .descriptors = {{input, 0}, {output, 1}, {STDERR_FILENO, 2}}},
                                     options);
  REQUIRE_MESSAGE(started.has_value(), started.error().message);
  const auto end = started->box->wait(std::chrono::seconds(60));
  REQUIRE(end.has_value());
  REQUIRE(end->has_value());
  return (*end)->exit_code;
}

/// What can be tried without ambiguity: a command or a socket is another matter, nothing is written
/// to a directory, and no directory goes into itself.
bool is_tried(const GateItem& item, const FileEyes& eyes) {
  using enum GateOperation;
  const std::string from = gate::plain_path("/", item.target);
  const std::string to = gate::plain_path("/", item.to);
  const auto seen = eyes.look({.cwd = "/", .path = item.target, .last = LastLink::kFollow});
  const bool is_directory = seen && seen->file && seen->file->type == FileType::kDirectory;
  if (item.operation == kWrite || item.operation == kCreate) {
    return !is_directory;
  }
  if (item.operation == kSymlink) {
    return seen && !seen->file && seen->links.empty();
  }
  if (item.operation == kRename) {
    return !gate::covers(from, to) && !gate::covers(to, from);
  }
  if (item.operation == kLink) {
    const auto target = eyes.look({.cwd = "/", .path = item.to, .last = LastLink::kKeep});
    return !target || !target->file;
  }
  return item.operation != kExec && item.operation != kUnix;
}

std::vector<GateItem> tried_questions(const World& world, const FileEyes& eyes) {
  const char* seed = std::getenv("SANDBOXKIT_SEED");
  auto items = questions(
      world, seed == nullptr ? 1 : static_cast<std::uint32_t>(std::strtoul(seed, nullptr, 10)),
      kQuestions);
  std::erase_if(items, [&](const GateItem& item) { return !is_tried(item, eyes); });
  return items;
}

/// Whether each item came to the host's object.
std::vector<bool> tried(const Disk& disk, const BoxPlan& plan, const std::vector<GateItem>& items,
                        const Boxed& boxed) {
  struct stat status {};
  REQUIRE(stat(disk.world().base.c_str(), &status) == 0);
  std::string input = std::to_string(status.st_dev) + '\0';
  for (const GateItem& item : items) {
    input.append(name_of(item.operation)).append(1, '\0');
    input.append(item.target).append(1, '\0').append(item.to).append(1, '\0');
  }
  std::ofstream(disk.at("questions")) << input;
  const io::Fd from(open(disk.at("questions").c_str(), O_RDONLY | O_CLOEXEC));
  const io::Fd to(open(disk.at("answers").c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
  REQUIRE(from);
  REQUIRE(to);
  REQUIRE(boxed(disk, plan, from.get(), to.get()) == 0);
  std::ifstream answers(disk.at("answers"));
  std::vector<bool> all;
  for (std::string line; std::getline(answers, line);) {
    all.push_back(line == "1");
  }
  REQUIRE(all.size() == items.size());
  return all;
}

/// How often each answer and each difference was met.
using Count = std::map<std::string, int>;

struct Asked {
  const Disk& disk;
  const PermissionGate& gate;
  const GateGrants& grants;
  const BoxPlan& plan;
  const ProtectedObjects& objects;
};

void compare(const Asked& asked, const Boxed& boxed, Count& count) {
  const World& world = asked.disk.world();
  const FileEyes& eyes = system_eyes();
  const gate::BoxView view(asked.plan, eyes);
  const auto decide = [&](const GateItem& item) {
    return asked.gate.decide({.cwd = world.tree(), .items = {item}}, asked.grants, eyes, kTestNow,
                             asked.objects);
  };
  const std::vector<GateItem> items = tried_questions(world, eyes);
  const std::vector<bool> answers = tried(asked.disk, asked.plan, items, boxed);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const GateItem& item = items[i];
    const GateDecision decision = decide(item);
    const bool gate_allows = decision.answer == GateAnswer::kAllow;
    ++count[gate_allows ? "the gate allows" : "the gate does not"];
    if (gate_allows == answers[i]) {
      continue;
    }
    const auto allows = [&](GateOperation operation) {
      return decide({.operation = operation, .target = item.target}).answer == GateAnswer::kAllow;
    };
    const auto gap = gap_of({item, decision, answers[i], allows(GateOperation::kRead),
                             allows(GateOperation::kWrite), view, asked.plan, eyes});
    ++count[gap ? name_of(*gap) : "nothing"];
    const std::string told = std::string(name_of(item.operation)) + " " + item.target + " " +
                             item.to + ": box " + (answers[i] ? "allows" : "denies") + ", " +
                             explain(decision);
    CHECK_MESSAGE(gap.has_value(), told);
  }
}

void compare_with(const Boxed& boxed) {
  const Disk disk;
  const auto tree = system_eyes().look({.cwd = "/", .path = disk.world().tree()});
  REQUIRE(tree.has_value());
  GateSession session = session_of(disk.world(), tree->file->identity);
  // The system's programs are no matter here, and are many to look through.
  session.own_files.clear();
  session.program_dirs.clear();
  Count count;
  for (const Setting& setting : settings_of(disk.world(), tree->file->identity)) {
    CAPTURE(setting.name);
    auto gate = PermissionGate::create(session, setting.policy, PermissionMode::kPrompt);
    REQUIRE_MESSAGE(gate.has_value(), gate.error().message);
    const auto grants = gate->compile(setting.permanent, setting.granted);
    REQUIRE(grants.has_value());
    const auto plan = gate->plan_box(*grants, system_eyes(), kTestNow, {});
    REQUIRE_MESSAGE(plan.has_value(), plan.error().message);
    compare({disk, *gate, *grants, *plan, gate->look_at_protected(system_eyes())}, boxed, count);
  }
  for (const auto& [what, times] : count) {
    MESSAGE(what, ": ", times);
  }
  CHECK(count["the gate allows"] > 200);
  CHECK(count["the gate does not"] > 200);
}

}  // namespace

TEST_CASE("a process in a native box can do what the gate allows") { compare_with(native); }

TEST_CASE("a process in bubblewrap can do what the gate allows") { compare_with(in_bwrap); }

TEST_CASE("a version of bubblewrap is read, and nothing else is taken for one") {
  const auto version = box::parse_bwrap_version("bubblewrap 0.8.0\n");
  REQUIRE(version.has_value());
  CHECK(version->major == 0);
  CHECK(version->minor == 8);
  for (const char* text : {"", "bubblewrap", "bubblewrap x.1", "bwrap 0.8", "bubblewrap 8"}) {
    CAPTURE(std::string(text));
    CHECK(!box::parse_bwrap_version(text).has_value());
  }
}

TEST_CASE("bubblewrap does not start when a place is another object than the judged one") {
  const Disk disk;
  const auto program = box::find_bwrap();
  REQUIRE(program.has_value());
  BoxPlan plan{.places = {{.path = disk.world().tree(),
                           .access = BoxAccess::kReadWrite,
                           .identity = {1, 2}}},
               .tree = disk.world().tree(),
               .home = disk.world().home()};
  BoxOptions options;
  options.state_dir = disk.at("state");
  const auto started =
      box::start_in_bwrap(*program, plan, {.argv = {disk.probe()}, .cwd = plan.tree}, options);
  REQUIRE(!started.has_value());
  CHECK(started.error().reason == "box_place_changed");
}

TEST_CASE("nothing of ours is open in bubblewrap but what was passed, and no variable is there") {
  const Disk disk;
  const FileEyes& eyes = system_eyes();
  const auto tree = eyes.look({.cwd = "/", .path = disk.world().tree()});
  REQUIRE(tree.has_value());
  const BoxPlan plan{.places = {{.path = disk.world().tree(),
                                 .access = BoxAccess::kReadWrite,
                                 .identity = tree->file->identity}},
                     .tree = disk.world().tree(),
                     .home = disk.world().home()};
  const auto program = box::find_bwrap();
  REQUIRE(program.has_value());
  BoxOptions options;
  options.state_dir = disk.at("state");
  // Without close-on-exec, as a careless library would leave it.
  const io::Fd leaked(open(disk.world().home().c_str(), O_RDONLY | O_DIRECTORY));
  const io::Fd out(open(disk.at("out").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  auto started = box::start_in_bwrap(
      *program, plan,
      {.argv = {"/bin/sh", "-c",
                "ls /proc/self/fd | wc -l; env | grep -v -e ^PWD= -e ^_= -e ^SHLVL="},
       .cwd = plan.tree,
       .environment = {"KEPT=yes"},
       .descriptors = {{out.get(), 1}}},
      options);
  REQUIRE_MESSAGE(started.has_value(), started.error().message);
  const auto end = started->box->wait(std::chrono::seconds(60));
  REQUIRE(end.has_value());
  std::ifstream file(disk.at("out"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // The output of both programs, and the folder that ls looks through.
  CHECK(text == "2\nKEPT=yes\n");
}
