#include "docker/operations.h"

#include "tests/unit/docker/support.h"

#include <atomic>
#include <optional>
#include <thread>

#include <doctest/doctest.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::docker;  // NOLINT(google-build-using-namespace)

TEST_CASE("a removal asks the create under way to stop and has its turn when that ended") {
  Operations operations;
  const SandboxId sandbox = docker::test::id<SandboxId>("i1");
  std::optional<Operations::Turn> create(operations.begin(sandbox, false));
  std::atomic<bool> removed = false;
  std::thread remover([&] {
    const Operations::Turn turn = operations.begin(sandbox, true);
    removed = true;
  });
  while (!create->stop().stop_requested()) {
    std::this_thread::yield();
  }
  CHECK_FALSE(removed);
  create.reset();
  remover.join();
  CHECK(removed);
  CHECK_FALSE(operations.is_busy(sandbox));
}

TEST_CASE("operations on different sandboxes do not wait for each other") {
  Operations operations;
  const Operations::Turn one = operations.begin(docker::test::id<SandboxId>("i1"), false);
  const Operations::Turn two = operations.begin(docker::test::id<SandboxId>("i2"), false);
  CHECK(operations.is_busy(docker::test::id<SandboxId>("i1")));
  CHECK(operations.is_busy(docker::test::id<SandboxId>("i2")));
}
