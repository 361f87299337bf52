#include "control/lifecycle.h"

#include "control/egress_change.h"
#include "control/outbox.h"
#include "control/room.h"
#include "control/rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace sandboxkit::control {
namespace {

using Rows = std::map<std::string, store::SandboxRow>;

bool is_end(SandboxState state) {
  return state == SandboxState::kStopped || state == SandboxState::kError ||
         state == SandboxState::kLost || state == SandboxState::kDeleted;
}

/// What every step of settling a report works with.
struct Settling {
  store::Tx& tx;
  const ControllerConfig& config;
  WallTime now;
  ReportOutcome outcome{};
};

/// A sandbox that was given up runs on. False: something else has its place by now.
Result<bool> take_back(const Settling& settling, store::SandboxRow& row) {
  const auto may = may_return(settling.tx, settling.config, row);
  if (!may || !*may) {
    return may;
  }
  store::SandboxRow back = row;
  back.state = "running";
  back.reason.clear();
  back.ended.reset();
  auto done = settling.tx.update_sandbox(back, row.state);
  if (!done) {
    return done.error().code == ErrorCode::kConflict ? Result<bool>(false) : done.error();
  }
  if (*done) {
    row = std::move(back);
  }
  return done;
}

/// One report about a row whose generation is current.
Status settle_current(Settling& settling, store::SandboxRow& row, SandboxState state,
                      const std::string& reason) {
  ReportOutcome& outcome = settling.outcome;
  if ((row.state == "running" || row.state == "paused") && is_end(state)) {
    const std::string end = state == SandboxState::kError ? "error" : "stopped";
    auto done = end_sandbox(settling.tx, row, end, reason.empty() ? "ended on its worker" : reason,
                            settling.now);
    if (!done) {
      return done.error();
    }
    if (*done) {
      outcome.changed.push_back(row);
    }
    return {};
  }
  if (row.state == "lost" && state == SandboxState::kRunning) {
    auto back = take_back(settling, row);
    if (!back) {
      return back.error();
    }
    if (*back) {
      outcome.changed.push_back(row);
    }
    outcome.doubtful |= !*back;  // The inventory removes it.
    return {};
  }
  outcome.doubtful |= is_ended(row.state) && !is_end(state);
  return {};
}

Result<std::optional<store::SandboxRow>> row_of(store::Tx& tx, const std::string& worker,
                                                Rows& rows, const std::string& id) {
  if (const auto found = rows.find(id); found != rows.end()) {
    return std::optional(found->second);
  }
  return tx.sandbox_of_worker(worker, id);
}

Result<Rows> rows_of_worker(store::Tx& tx, const std::string& worker) {
  auto listed = tx.sandboxes_of_worker(worker);
  if (!listed) {
    return listed.error();
  }
  Rows rows;
  for (store::SandboxRow& row : *listed) {
    rows.emplace(row.id, std::move(row));
  }
  return rows;
}

Status queue_removal(store::Tx& tx, const store::SandboxRow& row, WallTime now,
                     const std::string& trace) {
  store::DeliveryRow remove{0, row.worker, row.id, row.generation, "remove"};
  remove.created = remove.not_before = now;
  remove.trace = trace;
  return tx.insert(remove);
}

wire::Delivery removal_of(const SandboxReport& report) {
  return wire::Delivery{0, wire::DeliveryKind::kRemove, report.sandbox, report.tenant,
                        report.generation};
}

/// What the worker has and what the row says differ in the time of the end: the row's counts.
Status align_expiry(store::Tx& tx, const store::SandboxRow& row, const SandboxReport& report,
                    WallTime now) {
  if (row.state != "running" || report.state != SandboxState::kRunning ||
      report.expires_at == row.expires) {
    return {};
  }
  store::DeliveryRow renew{0, row.worker, row.id, row.generation, "renew"};
  renew.created = renew.not_before = now;
  return tx.insert(renew);
}

/// By sandbox: who asked for what is queued.
Result<std::map<std::string, std::string>> queued_traces(store::Tx& tx, const std::string& worker) {
  auto queued = tx.due_deliveries(worker, WallTime::max(), kMaxDue);
  if (!queued) {
    return queued.error();
  }
  std::map<std::string, std::string> traces;
  for (store::DeliveryRow& row : *queued) {
    traces[row.sandbox] = std::move(row.trace);
  }
  return traces;
}

Status note_structure(store::Tx& tx, store::SandboxRow& row, const std::string& structure) {
  if (structure.empty() || structure == row.structure || is_ended(row.state)) {
    return {};
  }
  row.structure = structure;
  auto written = tx.update_sandbox(row, row.state);
  return written ? Status{} : Status(written.error());
}

/// A removal that was given up, or that the worker forgot with us, starts anew.
Status requeue_removals(store::Tx& tx, const std::string& worker, const Rows& rows, WallTime now) {
  const auto stops = [](const auto& each) { return each.second.state == "stopping"; };
  if (std::ranges::none_of(rows, stops)) {
    return {};
  }
  const auto traces = queued_traces(tx, worker);
  if (!traces) {
    return traces.error();
  }
  for (const auto& [id, row] : rows) {
    if (row.state != "stopping") {
      continue;
    }
    if (auto dropped = tx.drop_deliveries(id); !dropped) {
      return dropped;
    }
    const auto trace = traces->find(id);
    const std::string text = trace == traces->end() ? std::string() : trace->second;
    if (auto queued = queue_removal(tx, row, now, text); !queued) {
      return queued;
    }
  }
  return {};
}

Status settle_reported(Settling& settling, const SandboxReport& report,
                       std::optional<store::SandboxRow> row) {
  ReportOutcome& outcome = settling.outcome;
  const bool stray = !row || row->generation != report.generation;
  if (stray) {
    outcome.strays.push_back(removal_of(report));
    return {};
  }
  outcome.doubtful = false;
  if (auto status = settle_current(settling, *row, report.state, report.reason); !status) {
    return status;
  }
  if (outcome.doubtful) {
    outcome.strays.push_back(removal_of(report));
    return {};
  }
  if (auto aligned = align_wall(settling.tx, *row, report, settling.now); !aligned) {
    return aligned;
  }
  return align_expiry(settling.tx, *row, report, settling.now);
}

/// A worker that started again has the secrets of its sandboxes no more; one that did not takes
/// them once more and is none the worse.
Status requeue_secrets(store::Tx& tx, const std::string& worker, const Rows& rows, WallTime now) {
  auto borrowers = tx.borrowers(worker);
  if (!borrowers) {
    return borrowers.error();
  }
  for (const std::string& id : *borrowers) {
    const auto row = rows.find(id);
    const auto queued = tx.has_delivery(id, "lend");
    if (!queued) {
      return queued.error();
    }
    if (*queued || row == rows.end()) {
      continue;
    }
    store::DeliveryRow lend{0, worker, id, row->second.generation, "lend"};
    lend.created = lend.not_before = now;
    if (auto ordered = tx.insert(lend); !ordered) {
      return ordered;
    }
  }
  return {};
}

}  // namespace

Result<bool> begin_removal(store::Tx& tx, store::SandboxRow& row, const std::string& reason,
                           WallTime now, const wire::Trace& trace) {
  const std::string before = row.state;
  row.desired = "stopped";
  row.state = "stopping";
  row.reason = reason;
  auto done = tx.update_sandbox(row, before);
  if (!done || !*done) {
    return done;
  }
  if (auto dropped = tx.drop_deliveries(row.id); !dropped) {
    return dropped.error();
  }
  if (auto queued = queue_removal(tx, row, now, wire::to_text(trace)); !queued) {
    return queued.error();
  }
  return true;
}

const char* state_when_removed(const store::SandboxRow& row) {
  return row.reason.starts_with(kCreateTimeout) ? "error" : "deleted";
}

Result<bool> end_sandbox(store::Tx& tx, store::SandboxRow& row, const std::string& state,
                         const std::string& reason, WallTime now) {
  const std::string before = row.state;
  row.desired = "stopped";
  row.state = state;
  row.reason = reason;
  row.ended = now;
  return tx.update_sandbox(row, before);
}

Result<ReportOutcome> settle_heartbeat(store::Tx& tx, const ControllerConfig& config,
                                       const std::string& worker,
                                       const std::vector<wire::HeartbeatSandbox>& reports,
                                       WallTime now) {
  auto rows = rows_of_worker(tx, worker);
  if (!rows) {
    return rows.error();
  }
  Settling settling{tx, config, now};
  ReportOutcome& outcome = settling.outcome;
  std::map<std::string, bool> reported;
  for (const wire::HeartbeatSandbox& report : reports) {
    reported[report.sandbox.str()] = true;
    auto row = row_of(tx, worker, *rows, report.sandbox.str());
    if (!row) {
      return row.error();
    }
    if (!*row || (*row)->generation != report.generation) {
      outcome.doubtful = true;
      continue;
    }
    auto status = settle_current(settling, **row, report.state, report.reason);
    if (status) {
      status = note_structure(tx, **row, report.structure);
    }
    if (!status) {
      return status.error();
    }
  }
  for (const auto& [id, row] : *rows) {
    outcome.doubtful |= row.state == "running" && !reported.contains(id);
  }
  return std::move(outcome);
}

Result<ReportOutcome> settle_inventory(store::Tx& tx, const ControllerConfig& config,
                                       const std::string& worker,
                                       const std::vector<SandboxReport>& reports,
                                       const std::vector<store::SandboxRow>& before, WallTime now) {
  auto rows = rows_of_worker(tx, worker);
  if (!rows) {
    return rows.error();
  }
  Settling settling{tx, config, now};
  ReportOutcome& outcome = settling.outcome;
  std::map<std::string, bool> reported;
  for (const SandboxReport& report : reports) {
    auto row = row_of(tx, worker, *rows, report.sandbox.str());
    if (!row) {
      return row.error();
    }
    reported[report.sandbox.str()] |= *row && (*row)->generation == report.generation;
    if (auto status = settle_reported(settling, report, std::move(*row)); !status) {
      return status.error();
    }
  }
  for (const store::SandboxRow& old : before) {
    const auto found = rows->find(old.id);
    if (old.state != "running" || reported[old.id] || found == rows->end() ||
        found->second.generation != old.generation || found->second.state != "running") {
      continue;
    }
    auto done = end_sandbox(tx, found->second, "lost", "missing on its worker", now);
    if (!done) {
      return done.error();
    }
    outcome.changed.push_back(found->second);
  }
  outcome.doubtful = false;
  if (auto queued = requeue_removals(tx, worker, *rows, now); !queued) {
    return queued.error();
  }
  if (auto queued = requeue_secrets(tx, worker, *rows, now); !queued) {
    return queued.error();
  }
  return std::move(outcome);
}

Result<std::vector<store::SandboxRow>> lose_sandboxes(store::Tx& tx, const std::string& worker,
                                                      const std::string& reason, WallTime now) {
  auto rows = tx.sandboxes_of_worker(worker);
  if (!rows) {
    return rows.error();
  }
  std::vector<store::SandboxRow> changed;
  for (store::SandboxRow& row : *rows) {
    if (is_ended(row.state)) {
      continue;
    }
    const bool was_stopping = row.state == "stopping";
    auto done = end_sandbox(tx, row, was_stopping ? state_when_removed(row) : "lost",
                            was_stopping ? row.reason : reason, now);
    if (!done) {
      return done.error();
    }
    if (auto dropped = tx.drop_deliveries(row.id); !dropped) {
      return dropped.error();
    }
    changed.push_back(row);
  }
  return changed;
}

Result<std::vector<store::SandboxRow>> drain_sandboxes(store::Tx& tx, const std::string& worker,
                                                       WallTime now) {
  auto rows = tx.sandboxes_of_worker(worker);
  if (!rows) {
    return rows.error();
  }
  std::vector<store::SandboxRow> changed;
  for (store::SandboxRow& row : *rows) {
    if (row.state == "stopping") {
      continue;
    }
    auto begun = begin_removal(tx, row, kReasonDrained, now);
    if (!begun) {
      return begun.error();
    }
    if (*begun) {
      changed.push_back(row);
    }
  }
  return changed;
}

}  // namespace sandboxkit::control
