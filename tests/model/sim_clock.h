#pragma once

#include "sandboxkit/clock.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace sandboxkit::model {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Time that passes only when the agenda says so.
class SimClock final : public Clock {
 public:
  WallTime now() const override { return now_; }
  void set(WallTime now) { now_ = now; }

 private:
  WallTime now_{std::chrono::hours(24 * 365 * 50)};
};

/// All chance of a run, from one seed (splitmix64).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(limit));
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  milliseconds time(std::int64_t low_ms, std::int64_t high_ms) {
    return milliseconds(between(low_ms, high_ms));
  }
  bool chance(std::int64_t of_a_thousand) { return below(1000) < of_a_thousand; }
  template <typename T>
  const T& pick(const std::vector<T>& items) {
    return items[static_cast<std::size_t>(below(static_cast<std::int64_t>(items.size())))];
  }

 private:
  std::uint64_t state_;
};

/// What is going to happen, in order of time; ties in the order in which they were planned.
class Agenda {
 public:
  explicit Agenda(SimClock& clock) : clock_(clock) {}

  void after(milliseconds delay, std::function<void()> work) {
    plan_.emplace(std::pair(clock_.now() + delay, ++last_), std::move(work));
  }
  /// Runs the next piece that is due by `until`; false when there is none: then it is `until`.
  bool run_one(WallTime until) {
    const auto next = plan_.begin();
    if (next == plan_.end() || next->first.first > until) {
      clock_.set(std::max(until, clock_.now()));
      return false;
    }
    // A clock that jumped ahead leaves pieces behind; they run late, and time does not go back.
    clock_.set(std::max(next->first.first, clock_.now()));
    const auto work = std::move(next->second);
    plan_.erase(next);
    work();
    return true;
  }

 private:
  SimClock& clock_;
  std::uint64_t last_ = 0;
  std::map<std::pair<WallTime, std::uint64_t>, std::function<void()>> plan_;
};

}  // namespace sandboxkit::model
