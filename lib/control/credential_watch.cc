#include "control/credential_watch.h"

#include "control/roster.h"

#include <algorithm>
#include <chrono>

namespace sandboxkit::control {
namespace {

constexpr std::chrono::milliseconds kLongestPause{30'000};
constexpr std::chrono::milliseconds kShortestPause{100};

}  // namespace

void CredentialWatch::start() {
  if (stopped_) {
    return;
  }
  const auto pause = std::clamp<std::chrono::milliseconds>(
      context_.config.worker_credential_ttl / 8, kShortestPause, kLongestPause);
  context_.loop.run_after(pause, [this] { tick(); });
}

void CredentialWatch::tick() {
  if (stopped_) {
    return;
  }
  const bool taken = context_.pool.post([this] {
    pass();
    context_.loop.post([this] { start(); });
  });
  if (!taken) {
    start();
  }
}

void CredentialWatch::pass() {
  const WallTime now = context_.clock.now();
  const Status ignored = context_.store.read([&](store::Tx& tx) -> Status {
    for (const Roster::Line& line : context_.roster.lines()) {
      if (!context_.roster.hearing(line.worker).online) {
        continue;
      }
      const std::string& worker = line.worker;
      const auto live = tx.has_live_credential(worker, now);
      if (live && !*live) {
        context_.loop.post([this, worker] { fleet_.detach(worker); });
      }
    }
    return {};
  });
  static_cast<void>(ignored);
}

}  // namespace sandboxkit::control
