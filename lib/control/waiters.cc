#include "control/waiters.h"

#include <optional>
#include <utility>
#include <vector>

namespace sandboxkit::control {

void Waiters::forget_key(State& state, const std::string& key, Ticket ticket) {
  const auto [first, last] = state.by_key.equal_range(key);
  for (auto it = first; it != last; ++it) {
    if (it->second == ticket) {
      state.by_key.erase(it);
      return;
    }
  }
}

Waiters::Ticket Waiters::add(const std::string& key, std::chrono::milliseconds limit, Wait wait) {
  const Ticket ticket = state_.with([&](State& state) -> Ticket {
    if (state.stopped || state.entries.size() >= kMaxWaiters) {
      return 0;
    }
    const Ticket next = ++state.last;
    state.entries.emplace(next, Entry{.key = key, .wait = std::move(wait)});
    state.by_key.emplace(key, next);
    return next;
  });
  if (ticket != 0) {
    loop_.post([this, ticket, limit] { start_timer(ticket, limit); });
  }
  return ticket;
}

void Waiters::start_timer(Ticket ticket, std::chrono::milliseconds limit) {
  const auto timer = loop_.run_after(limit, [this, ticket] { expire(ticket); });
  const bool stands = state_.with([&](State& state) {
    const auto found = state.entries.find(ticket);
    if (found != state.entries.end()) {
      found->second.timer = timer;
    }
    return found != state.entries.end();
  });
  if (!stands) {
    loop_.cancel(timer);
  }
}

void Waiters::stop_timer(const Entry& entry) {
  if (entry.timer != 0) {
    loop_.post([this, timer = entry.timer] { loop_.cancel(timer); });
  }
}

bool Waiters::cancel(Ticket ticket) {
  return state_.with([&](State& state) {
    const auto found = state.entries.find(ticket);
    if (found == state.entries.end()) {
      return false;
    }
    stop_timer(found->second);
    forget_key(state, found->second.key, ticket);
    state.entries.erase(found);
    return true;
  });
}

void Waiters::expire(Ticket ticket) {
  const auto late = state_.with([&](State& state) -> std::optional<Wait> {
    const auto found = state.entries.find(ticket);
    if (found == state.entries.end()) {
      return std::nullopt;
    }
    forget_key(state, found->second.key, ticket);
    Wait wait = std::move(found->second.wait);
    state.entries.erase(found);
    return wait;
  });
  if (late) {
    late->on_timeout();
  }
}

void Waiters::tell(const std::string& key, const store::SandboxRow& row) {
  const auto ready = state_.with([&](State& state) {
    std::vector<Wait> done;
    const auto [first, last] = state.by_key.equal_range(key);
    for (auto it = first; it != last;) {
      const auto entry = state.entries.find(it->second);
      if (entry->second.wait.done(row)) {
        stop_timer(entry->second);
        done.push_back(std::move(entry->second.wait));
        state.entries.erase(entry);
        it = state.by_key.erase(it);
      } else {
        ++it;
      }
    }
    return done;
  });
  for (const Wait& wait : ready) {
    wait.on_done(row);
  }
}

void Waiters::shut_down() {
  auto entries = state_.with([](State& state) {
    state.stopped = true;
    state.by_key.clear();
    return std::exchange(state.entries, {});
  });
  for (const auto& [ticket, entry] : entries) {
    entry.wait.on_shutdown();
  }
}

}  // namespace sandboxkit::control
