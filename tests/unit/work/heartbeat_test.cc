#include "work/heartbeat.h"

#include "tests/unit/work/support.h"
#include "work/credential.h"

#include <doctest/doctest.h>

namespace sandboxkit::work {
namespace {

TEST_CASE(
    "an end before the worker knows its engine tells nothing: the first heartbeat has the facts") {
  io::EventLoop loop;
  testing::Quiet events;
  int written = 0;
  // Nothing listens there: what counts is what would have been said.
  Credential credential("/nowhere", WorkerIdentity{.worker = testing::id<WorkerId>("w-1"),
                                                   .controller = testing::id<ControllerId>("c-1"),
                                                   .credential = "wk_x"});
  Heartbeat heartbeat(loop, {"http://127.0.0.1:1", std::chrono::hours(1)}, credential,
                      system_random(), events, [&written] {
                        ++written;
                        return std::string("{}");
                      });
  loop.run_after(2 * Heartbeat::kLeastGap, [&loop] { loop.stop(); });
  heartbeat.soon();
  loop.run();
  CHECK(written == 0);
  heartbeat.start();
  CHECK(written == 1);
  heartbeat.stop();
}

}  // namespace
}  // namespace sandboxkit::work
