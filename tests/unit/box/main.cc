// The tests of the box run as an ordinary user, whoever starts them: a box of root proves little.
#define DOCTEST_CONFIG_IMPLEMENT
#include "world.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <doctest/doctest.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr uid_t kOrdinary = 12345;
constexpr int kSkipped = 77;

bool become_ordinary(const char* folder) {
  // A process that changed its user is closed to itself in /proc until it says otherwise.
  return chown(folder, kOrdinary, kOrdinary) == 0 && setgroups(0, nullptr) == 0 &&
         setresgid(kOrdinary, kOrdinary, kOrdinary) == 0 &&
         setresuid(kOrdinary, kOrdinary, kOrdinary) == 0 && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
}

/// A machine without user namespaces skips, unless somebody says that it must not.
bool can_box() {
  const auto kernel = sandboxkit::probe_box();
  for (const std::string& problem : kernel.problems) {
    std::fprintf(stderr, "box_test: %s\n", problem.c_str());
  }
  const char* must = std::getenv("SANDBOXKIT_MUST_RUN");
  const bool has_to = must != nullptr && std::string_view(must).find("box") != std::string::npos;
  return has_to || kernel.strength() != sandboxkit::BoxStrength::kNone;
}

int run_tests(int argc, char** argv) {
  if (!can_box()) {
    return kSkipped;
  }
  doctest::Context context(argc - 1, argv + 1);
  const int code = context.run();
  std::fflush(stdout);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: box_test PROBE [doctest's options]\n", stderr);
    return EXIT_FAILURE;
  }
  const std::string folder = sandboxkit::box_test::make_base();
  if (folder.empty()) {
    std::perror("box_test");
    return EXIT_FAILURE;
  }
  sandboxkit::box_test::probe_program() = argv[1];
  int code = EXIT_FAILURE;
  if (geteuid() != 0) {
    code = run_tests(argc, argv);
  } else if (const pid_t pid = fork(); pid == 0) {
    _exit(become_ordinary(folder.c_str()) ? run_tests(argc, argv) : EXIT_FAILURE);
  } else if (int status = 0; waitpid(pid, &status, 0) == pid && WIFEXITED(status)) {
    code = WEXITSTATUS(status);
  }
  sandboxkit::box_test::remove_base();
  return code;
}
