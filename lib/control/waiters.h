#pragma once

#include "base/guarded.h"
#include "io/event_loop.h"
#include "store/store.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace sandboxkit::control {

/// Calls that wait for a sandbox to change. No thread is held while one waits.
///
/// Exactly one of the three functions of a `Wait` is called, once, outside of the lock.
/// Thread-safety: any thread.
class Waiters {
 public:
  static constexpr std::size_t kMaxWaiters = 20'000;

  struct Wait {
    /// Whether the row is what was waited for. Called under the lock: looks at the row only.
    std::function<bool(const store::SandboxRow&)> done;
    std::function<void(const store::SandboxRow&)> on_done;
    std::function<void()> on_timeout;
    std::function<void()> on_shutdown;
  };
  using Ticket = std::uint64_t;

  explicit Waiters(io::EventLoop& loop) : loop_(loop) {}

  /// 0 when there are too many or the controller stops: the wait was not taken.
  Ticket add(const std::string& key, std::chrono::milliseconds limit, Wait wait);
  /// Takes a wait back; false when it was called already.
  bool cancel(Ticket ticket);
  /// Tells a change to everybody who waits for `key`.
  void tell(const std::string& key, const store::SandboxRow& row);
  /// Ends all waits and takes no more.
  void shut_down();

  /// Keys: a sandbox's states, and the acknowledgement of its renewals and narrowings.
  static std::string renew_key(const std::string& sandbox) { return sandbox + "/renew"; }
  static std::string narrow_key(const std::string& sandbox) { return sandbox + "/narrow"; }

 private:
  void expire(Ticket ticket);

  struct Entry {
    std::string key;
    Wait wait;
    io::EventLoop::TimerId timer = 0;
  };
  struct State {
    bool stopped = false;
    Ticket last = 0;
    std::map<Ticket, Entry> entries;
    std::multimap<std::string, Ticket> by_key;
  };
  static void forget_key(State& state, const std::string& key, Ticket ticket);
  void start_timer(Ticket ticket, std::chrono::milliseconds limit);
  /// A wait that is over leaves no timer behind: at a thousand creates a second they would pile up.
  void stop_timer(const Entry& entry);

  io::EventLoop& loop_;
  Guarded<State> state_;
};

}  // namespace sandboxkit::control
