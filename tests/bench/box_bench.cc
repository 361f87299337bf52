// What a box costs: spawn to exit of /bin/true, plain and boxed, in turn within each round, so that
// all see the same noise. Prints the least and the median in milliseconds, and ratios to the plain
// spawn. Usage: box_bench [ROUNDS]      Root becomes an ordinary user first.
#include "sandboxkit/box_changes.h"

#include "tests/unit/box/world.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <grp.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace {

using namespace sandboxkit;
using std::chrono::steady_clock;

constexpr uid_t kOrdinary = 12345;
constexpr int kDefaultRounds = 30;
constexpr int kMany = 300;

void spawn_plain() {
  const char* words[] = {"/bin/true", nullptr};
  pid_t pid = 0;
  int status = 0;
  if (posix_spawn(&pid, words[0], nullptr, nullptr, const_cast<char**>(words), environ) != 0 ||
      waitpid(pid, &status, 0) != pid || status != 0) {
    throw std::runtime_error("plain spawn");
  }
}

void spawn_boxed(const BoxPlan& plan, const BoxOptions& options) {
  auto box = Box::start(plan, {.argv = {"/bin/true"}, .cwd = plan.tree}, options);
  if (!box) {
    throw std::runtime_error(box.error().message);
  }
  const auto end = (*box)->wait(std::chrono::seconds(30));
  if (!end || !*end || (*end)->exit_code != 0) {
    throw std::runtime_error("boxed command");
  }
  if (!(*box)->staged().dir.empty() && !remove_box_stage((*box)->staged())) {
    throw std::runtime_error("staged run is left");
  }
}

struct Case {
  const char* name;
  std::function<void()> act;
  std::vector<double> took{};
};

void measure(int rounds) {
  const box_test::World world;
  BoxPlan plan = world.plan();
  BoxPlan live = plan;
  std::erase_if(live.places, [](const BoxPlace& p) { return p.access == BoxAccess::kAbsent; });
  BoxPlan staged = plan;
  staged.staged = true;
  BoxPlan many = plan;
  for (int i = 0; i < kMany; ++i) {
    const std::string path = world.tree() + "/f" + std::to_string(i);
    box_test::write_text(path, "x");
    many.places.push_back(world.place(path, BoxAccess::kReadOnly));
  }
  const BoxOptions options = world.options();
  std::vector<Case> cases{
      {"plain /bin/true", spawn_plain},
      {"boxed", [&] { spawn_boxed(live, options); }},
      {"boxed, a name held", [&] { spawn_boxed(plan, options); }},
      {"boxed, 300 more protections", [&] { spawn_boxed(many, options); }},
      {"boxed, staged", [&] { spawn_boxed(staged, options); }},
  };
  for (int round = 0; round < rounds; ++round) {
    for (Case& one : cases) {
      const auto began = steady_clock::now();
      one.act();
      const std::chrono::duration<double, std::milli> took = steady_clock::now() - began;
      one.took.push_back(took.count());
    }
  }
  for (Case& one : cases) {
    std::ranges::sort(one.took);
  }
  const auto median = [](const Case& one) { return one.took[one.took.size() / 2]; };
  for (const Case& one : cases) {
    std::printf("%-28s min %7.2f ms  median %7.2f ms  x%.1f (min) x%.1f (median)\n", one.name,
                one.took.front(), median(one), one.took.front() / cases[0].took.front(),
                median(one) / median(cases[0]));
  }
}

bool become_ordinary(const std::string& folder) {
  return geteuid() != 0 ||
         (chown(folder.c_str(), kOrdinary, kOrdinary) == 0 && setgroups(0, nullptr) == 0 &&
          setresgid(kOrdinary, kOrdinary, kOrdinary) == 0 &&
          setresuid(kOrdinary, kOrdinary, kOrdinary) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : kDefaultRounds;
  const std::string folder = box_test::make_base();
  box_test::probe_program() = "/bin/true";
  const pid_t pid = fork();
  if (pid == 0) {
    try {
      if (rounds <= 0 || !become_ordinary(folder)) {
        throw std::runtime_error("rounds, or the user");
      }
      measure(rounds);
      std::fflush(stdout);
      _exit(EXIT_SUCCESS);
    } catch (const std::exception& problem) {
      std::fprintf(stderr, "box_bench: %s\n", problem.what());
      _exit(EXIT_FAILURE);
    }
  }
  int status = 0;
  waitpid(pid, &status, 0);
  box_test::remove_base();
  return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}
