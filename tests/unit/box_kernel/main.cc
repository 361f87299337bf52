// The questions are tried as an ordinary user, whoever starts them: a box of root proves little.
#define DOCTEST_CONFIG_IMPLEMENT
#include "sandboxkit/box.h"

#include "tests/unit/box_kernel/disk.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
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
  return chown(folder, kOrdinary, kOrdinary) == 0 && setgroups(0, nullptr) == 0 &&
         setresgid(kOrdinary, kOrdinary, kOrdinary) == 0 &&
         setresuid(kOrdinary, kOrdinary, kOrdinary) == 0 && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0;
}

int run_tests(int argc, char** argv) {
  const char* must = std::getenv("SANDBOXKIT_MUST_RUN");
  const bool has_to = must != nullptr && std::string_view(must).find("box") != std::string::npos;
  if (!has_to && sandboxkit::probe_box().strength() == sandboxkit::BoxStrength::kNone) {
    return kSkipped;
  }
  doctest::Context context(argc - 1, argv + 1);
  const int code = context.run();
  std::fflush(stdout);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  std::string folder = fs::current_path().string() + "/box-kernel-XXXXXX";
  if (argc < 2 || mkdtemp(folder.data()) == nullptr) {
    std::fputs(
        "usage: box_kernel_test PROBE [doctest's options], in a folder that can be written\n",
        stderr);
    return EXIT_FAILURE;
  }
  sandboxkit::box_test::base_folder() = folder;
  sandboxkit::box_test::probe_program() = argv[1];
  int code = EXIT_FAILURE;
  if (geteuid() != 0) {
    code = run_tests(argc, argv);
  } else if (const pid_t pid = fork(); pid == 0) {
    _exit(become_ordinary(folder.c_str()) ? run_tests(argc, argv) : EXIT_FAILURE);
  } else if (int status = 0; waitpid(pid, &status, 0) == pid && WIFEXITED(status)) {
    code = WEXITSTATUS(status);
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return code;
}
