#include "base/thread_pool.h"

#include <atomic>
#include <future>
#include <thread>

#include <doctest/doctest.h>

using sandboxkit::ThreadPool;

namespace {

/// One thread that is busy until the test says so, with two more jobs behind it.
struct Busy {
  ThreadPool pool{1, 8};
  std::promise<void> go_on;
  std::promise<void> begun;
  std::atomic<int> done{0};

  Busy() {
    CHECK(pool.submit([this] {
      begun.set_value();
      go_on.get_future().wait();
      ++done;
    }));
    begun.get_future().wait();
    for (int i = 0; i < 2; ++i) {
      CHECK(pool.submit([this] { ++done; }));
    }
  }
};

}  // namespace

TEST_CASE("a pool that stops finishes what is queued") {
  Busy busy;
  busy.go_on.set_value();
  busy.pool.stop();
  CHECK(busy.done == 3);
  CHECK_FALSE(busy.pool.submit([] {}));
}

TEST_CASE("a pool that stops now finishes what is under way and begins nothing more") {
  Busy busy;
  std::thread stopper([&] { busy.pool.stop_now(); });
  // Once it refuses work, it has dropped what waited.
  while (busy.pool.submit([] {})) {
    std::this_thread::yield();
  }
  busy.go_on.set_value();
  stopper.join();
  CHECK(busy.done == 1);
}
