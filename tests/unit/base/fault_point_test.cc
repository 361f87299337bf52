#include "base/fault_point.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sandboxkit {
namespace {

/// How a child ends that passes two points, three times each, with this in its environment: the
/// number of passes that it survived, or -signal.
int ends(const char* fault) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("SANDBOXKIT_FAULT", fault, 1);
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    int passed = 0;
    for (int i = 0; i < 3; ++i) {
      SANDBOXKIT_FAULT_POINT("store.commit.before");
      SANDBOXKIT_FAULT_POINT("store.commit.after");
      ++passed;
    }
    _exit(passed);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST_CASE("the names of fault points differ") {
  CHECK(std::set(kFaultPoints.begin(), kFaultPoints.end()).size() == kFaultPoints.size());
}

#if defined(SANDBOXKIT_FAULT_POINTS)
TEST_CASE("a process dies by SIGKILL at the pass that its environment names, and at no other") {
  CHECK(ends("") == 3);
  CHECK(ends("store.commit.before") == -SIGKILL);
  CHECK(ends("store.commit.after:1") == -SIGKILL);
  CHECK(ends("store.commit.after:3") == -SIGKILL);
  CHECK(ends("store.commit.after:4") == 3);
  CHECK(ends("work.order.received") == 3);
}

TEST_CASE("a fault that does not exist is a defect of the test, not a success") {
  for (const char* const wrong :
       {"no.such.point", "store.commit", "store.commit.after:0", "store.commit.after:x"}) {
    CAPTURE(wrong);
    CHECK(ends(wrong) == -SIGABRT);
  }
}
#else
TEST_CASE("without the option nothing dies") { CHECK(ends("store.commit.before") == 3); }
#endif

}  // namespace
}  // namespace sandboxkit
