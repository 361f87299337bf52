#include "docker/ready_pool.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include <doctest/doctest.h>

using namespace sandboxkit;          // NOLINT(google-build-using-namespace)
using namespace sandboxkit::docker;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::chrono::seconds kSoon{20};

/// Makes names, and remembers what became of them.
class Workshop {
 public:
  ReadyPool::Maker maker() {
    return {[this](const std::stop_token&) { return make(); },
            [this](const std::string& name) { remove(name); },
            [this] {
              const std::lock_guard lock(mutex_);
              ++sweeps_;
              changed_.notify_all();
            }};
  }

  /// Waits until so many stand that nobody removed.
  bool stand(std::size_t count) {
    return becomes_true([&] { return standing_.size() == count; });
  }
  bool made(int count) {
    return becomes_true([&] { return made_ >= count; });
  }
  bool stands(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return standing_.contains(name);
  }
  int at_once() {
    const std::lock_guard lock(mutex_);
    return most_at_once_;
  }
  int sweeps() {
    const std::lock_guard lock(mutex_);
    return sweeps_;
  }
  void fail_next() {
    const std::lock_guard lock(mutex_);
    fails_ = 1;
  }
  bool failed() {
    return becomes_true([&] { return failures_ > 0; });
  }

 private:
  bool becomes_true(const std::function<bool()>& fact) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kSoon, fact);
  }

  Result<std::string> make() {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
    if (fails_ > 0) {
      --fails_;
      ++failures_;
      return Error{ErrorCode::kUnavailable, "the engine is away"};
    }
    std::string name = std::to_string(++made_);
    standing_.insert(name);
    most_at_once_ = std::max(most_at_once_, static_cast<int>(standing_.size()));
    return name;
  }

  void remove(const std::string& name) {
    const std::lock_guard lock(mutex_);
    standing_.erase(name);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> standing_;
  int made_ = 0;
  int most_at_once_ = 0;
  int sweeps_ = 0;
  int fails_ = 0;
  int failures_ = 0;
};

std::string take_one(ReadyPool& pool) {
  std::optional<std::string> taken;
  while (!taken) {
    taken = pool.take();
  }
  return *taken;
}

}  // namespace

TEST_CASE("a pool fills to its size and not beyond, after what a dead worker left is gone") {
  Workshop shop;
  {
    ReadyPool pool(shop.maker(), 3);
    CHECK_FALSE(pool.take());
    pool.fill();
    pool.fill();
    CHECK(shop.stand(3));
    CHECK(shop.sweeps() == 1);
    CHECK(shop.at_once() == 3);
    pool.clear_left_over();  // It fills: what it finds may be its own.
    CHECK(shop.sweeps() == 1);
  }
  CHECK(shop.stand(0));
}

TEST_CASE("a size beyond the limit is the limit, and a pool of none makes none") {
  Workshop shop;
  {
    ReadyPool pool(shop.maker(), ReadyPool::kMaxReady + 1);
    pool.fill();
    CHECK(shop.stand(ReadyPool::kMaxReady));
    // Each that is taken makes room for one: the count tells that the pool was full before.
    take_one(pool);
    CHECK(shop.made(static_cast<int>(ReadyPool::kMaxReady) + 1));
    CHECK(shop.at_once() <= static_cast<int>(ReadyPool::kMaxReady) + 1);
  }
  Workshop idle;
  ReadyPool none(idle.maker(), 0);
  none.fill();
  none.clear_left_over();
  CHECK(idle.sweeps() == 1);
  CHECK_FALSE(none.take());
}

TEST_CASE("what was taken is nobody else's, and goes when it is discarded") {
  Workshop shop;
  ReadyPool pool(shop.maker(), 2);
  pool.fill();
  std::set<std::string> taken;
  for (int i = 0; i < 10; ++i) {
    CHECK(taken.insert(take_one(pool)).second);
  }
  CHECK(shop.stand(12));
  for (const std::string& name : taken) {
    CHECK(shop.stands(name));
    pool.discard(name);
  }
  CHECK(shop.stand(2));
}

TEST_CASE("all that wait can be given up, and others are made") {
  Workshop shop;
  ReadyPool pool(shop.maker(), 2);
  pool.fill();
  REQUIRE(shop.stand(2));
  while (shop.stands("1") || shop.stands("2")) {
    pool.discard_all();  // One may not wait yet, though it was made.
    std::this_thread::yield();
  }
  CHECK(shop.stand(2));
  const std::string taken = take_one(pool);
  CHECK(taken != "1");
  CHECK(taken != "2");
}

TEST_CASE("what was taken stays when the pool ends, what waits does not") {
  Workshop shop;
  std::string kept;
  {
    ReadyPool pool(shop.maker(), 1);
    pool.fill();
    kept = take_one(pool);
    REQUIRE(shop.made(2));
  }
  CHECK(shop.stand(1));
  CHECK(shop.stands(kept));
}

TEST_CASE("a pool whose maker failed ends at once, and one that waited is tried again") {
  Workshop shop;
  shop.fail_next();
  {
    ReadyPool pool(shop.maker(), 1);
    pool.fill();
    CHECK(shop.failed());
    CHECK(shop.made(1));
  }
  CHECK(shop.stand(0));
}
