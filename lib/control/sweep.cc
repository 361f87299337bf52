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
/// Tombstones are kept this long, so that a late caller still learns why.
constexpr std::chrono::hours kTombstones{24 * 7};

Result<std::vector<store::WorkerRow>> all_workers(store::Store& store) {
  std::vector<store::WorkerRow> workers;
  const Status read = store.read([&](store::Tx& tx) -> Status {
    auto rows = tx.all_workers();
    if (!rows) {
      return rows.error();
    }
    workers = std::move(*rows);
    return {};
  });
  if (!read) {
    return read.error();
  }
  return workers;
}

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
    pass();
    services_.context.loop.post([this] { start(); });
  });
  if (!taken) {
    start();
  }
}

void Sweep::pass() {
  const auto workers = all_workers(services_.context.store);
  if (!workers) {
    return;  // The store says so on every call that needs it.
  }
  for (const store::WorkerRow& row : *workers) {
    sweep_worker(row);
    end_late_creates(row);
  }
  const WallTime now = services_.context.clock.now();
  if (now - last_purge_ >= kPurgeInterval) {
    last_purge_ = now;
    const Status ignored = services_.context.store.write([&](store::Tx& tx) -> Status {
      auto purged = tx.purge_ended(now - kTombstones);
      return purged ? Status{} : Status(purged.error());
    });
    static_cast<void>(ignored);
  }
}

void Sweep::sweep_worker(const store::WorkerRow& row) {
  const Hearing hearing = hearing_of(services_.context, services_.fleet.is_online(row.id));
  if (seen_state(row, hearing) != WorkerState::kLost) {
    lost_.erase(row.id);
    return;
  }
  if (lost_.contains(row.id)) {
    return;
  }
  std::vector<store::SandboxRow> ended;
  const Status written = services_.context.store.write([&](store::Tx& tx) -> Status {
    auto lost = lose_sandboxes(tx, row.id, "worker lost", services_.context.clock.now());
    if (!lost) {
      return lost.error();
    }
    ended = std::move(*lost);
    return {};
  });
  if (!written) {
    return;
  }
  lost_.insert(row.id);
  services_.context.events.tell(
      {Severity::kWarning,
       "worker_lost",
       "no heartbeat and no tunnel for too long",
       {{"worker", row.id}, {"sandboxes", std::to_string(ended.size())}}});
  for (const store::SandboxRow& sandbox : ended) {
    services_.deliverer.tell(sandbox);
  }
}

void Sweep::end_late_creates(const store::WorkerRow& row) {
  std::vector<store::SandboxRow> late;
  // A call that waits ends its own create first, with the better answer.
  const auto deadline =
      services_.context.clock.now() - services_.context.config.create_wait - kLongestPause;
  const Status read = services_.context.store.read([&](store::Tx& tx) -> Status {
    auto use = tx.use_of_worker(row.id);
    if (!use || use->starting == 0) {
      return use ? Status{} : Status(use.error());
    }
    auto rows = tx.sandboxes_of_worker(row.id);
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
    if (const auto aborted = abort_create(services_.context, sandbox.tenant, sandbox.id)) {
      services_.deliverer.tell(*aborted);
      services_.deliverer.wake(aborted->worker);
    }
  }
}

}  // namespace sandboxkit::control
