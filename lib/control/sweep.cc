#include "control/sweep.h"

#include "control/create.h"
#include "control/lifecycle.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace sandboxkit::control {
namespace {

constexpr std::chrono::milliseconds kLongestPause{1'000};
constexpr std::chrono::milliseconds kShortestPause{50};
constexpr std::chrono::hours kPurgeInterval{1};

}  // namespace

void Sweep::start() {
  if (stopped_) {
    return;
  }
  const auto& config = services_.context.config;
  const auto pause = std::clamp(std::min(config.create_wait, config.lost_after) / 4, kShortestPause,
                                kLongestPause);
  services_.context.loop.run_after(pause, [this] { tick(); });
}

void Sweep::tick() {
  if (stopped_) {
    return;
  }
  const bool taken = services_.context.pool.post([this] {
    pass_.run();
    services_.context.loop.post([this] { start(); });
  });
  if (!taken) {
    start();
  }
}

void SweepPass::run() {
  Roster& roster = context_.roster;
  roster.tick();
  if (!roster.refresh()) {
    return;  // The store says so on every call that needs it.
  }
  for (const Roster::Line& line : roster.lines()) {
    end_lost(line);
    if (line.starting > 0) {
      end_late_creates(line.worker);
    }
    if (line.state == WorkerState::kDraining && line.sandboxes > 0) {
      end_drain(line);
    }
  }
  const WallTime now = context_.clock.now();
  if (now - last_purge_ >= kPurgeInterval) {
    last_purge_ = now;
    const Status ignored = context_.store.write([&](store::Tx& tx) -> Status {
      auto purged = tx.purge_ended(now - kTombstones);
      return purged ? Status{} : Status(purged.error());
    });
    static_cast<void>(ignored);
  }
}

void SweepPass::end_lost(const Roster::Line& line) {
  if (line.state != WorkerState::kLost) {
    lost_.erase(line.worker);
    return;
  }
  if (lost_.contains(line.worker)) {
    return;
  }
  std::vector<store::SandboxRow> ended;
  const Status written = context_.store.write([&](store::Tx& tx) -> Status {
    auto lost = lose_sandboxes(tx, line.worker, "worker lost", context_.clock.now());
    if (!lost) {
      return lost.error();
    }
    ended = std::move(*lost);
    return {};
  });
  if (!written) {
    return;
  }
  lost_.insert(line.worker);
  context_.events.tell({Severity::kWarning,
                        "worker_lost",
                        "no heartbeat and no tunnel for too long",
                        {{"worker", line.worker}, {"sandboxes", std::to_string(ended.size())}}});
  for (const store::SandboxRow& sandbox : ended) {
    told_.changed(sandbox);
  }
}

void SweepPass::end_drain(const Roster::Line& line) {
  const WallTime now = context_.clock.now();
  if (!line.drain_until || *line.drain_until > now) {
    return;
  }
  std::vector<store::SandboxRow> ending;
  const Status written = context_.store.write([&](store::Tx& tx) -> Status {
    auto drained = drain_sandboxes(tx, line.worker, now);
    if (!drained) {
      return drained.error();
    }
    ending = std::move(*drained);
    return {};
  });
  if (!written || ending.empty()) {
    return;
  }
  context_.events.tell({Severity::kInfo,
                        "worker_drained",
                        "the drain's deadline has come; what still ran is being stopped",
                        {{"worker", line.worker}, {"sandboxes", std::to_string(ending.size())}}});
  for (const store::SandboxRow& sandbox : ending) {
    told_.changed(sandbox);
  }
  told_.queued(line.worker);
}

void SweepPass::end_late_creates(const std::string& worker) {
  std::vector<store::SandboxRow> late;
  // A call that waits ends its own create first, with the better answer.
  const auto deadline = context_.clock.now() - context_.config.create_wait - kLongestPause;
  const Status read = context_.store.read([&](store::Tx& tx) -> Status {
    auto rows = tx.sandboxes_of_worker(worker);
    if (!rows) {
      return rows.error();
    }
    std::ranges::copy_if(*rows, std::back_inserter(late), [&](const store::SandboxRow& sandbox) {
      return is_waiting_to_run(sandbox.state) && sandbox.created < deadline;
    });
    return {};
  });
  if (!read) {
    return;
  }
  for (const store::SandboxRow& sandbox : late) {
    if (const auto aborted = abort_create(context_, sandbox.tenant, sandbox.id)) {
      told_.changed(*aborted);
      told_.queued(aborted->worker);
    }
  }
}

}  // namespace sandboxkit::control
