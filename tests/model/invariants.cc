#include "tests/model/invariants.h"

#include "control/create.h"
#include "control/lifecycle.h"
#include "control/rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sandboxkit::model {
namespace {

using control::is_ended;

/// How long rows that ended are kept.
constexpr std::chrono::hours kTombstones{24 * 7};

/// What rows use, counted the slow way.
store::Tx::Use count(const std::map<std::string, store::SandboxRow>& rows, auto&& counts) {
  store::Tx::Use use;
  for (const auto& [id, row] : rows) {
    if (is_ended(row.state) || !counts(row)) {
      continue;
    }
    use.sandboxes += 1;
    use.starting += control::is_waiting_to_run(row.state) ? 1 : 0;
    use.cpu_cores += row.cpu_cores;
    use.memory_mb += row.memory_mb;
  }
  return use;
}

bool same(const store::Tx::Use& a, const store::Tx::Use& b) {
  return a.sandboxes == b.sandboxes && a.starting == b.starting && a.memory_mb == b.memory_mb &&
         std::abs(a.cpu_cores - b.cpu_cores) < 1e-6;
}

std::string text_of(const store::Tx::Use& use) {
  return std::to_string(use.sandboxes) + " sandboxes, " + std::to_string(use.starting) +
         " starting, " + std::to_string(use.cpu_cores) + " cores, " +
         std::to_string(use.memory_mb) + " MB";
}

std::string text_of(const store::SandboxRow& row) {
  return row.id + " of " + row.tenant + " on " + row.worker + " generation " +
         std::to_string(row.generation) + " is " + row.state + ": " + row.reason;
}

}  // namespace

void Invariants::fail(const char* invariant, const store::SandboxRow& row,
                      const std::string& text) const {
  throw Violation(invariant, {row.id, row.worker}, text_of(row) + "; " + text);
}

void Invariants::look_at_rows() {
  std::map<std::string, Seen> touched;
  for (const std::string& worker : store_.take_touched()) {
    touched.emplace(worker, read_worker(worker));
  }
  // Those that left come first: they made the room that others took.
  for (const auto& [worker, seen] : touched) {
    std::set<std::string> live;
    for (const store::SandboxRow& row : seen.live) {
      live.insert(row.id);
    }
    for (const std::string& id : std::exchange(live_of_worker_[worker], live)) {
      if (!live.contains(id)) {
        row_left(worker, id);
      }
    }
  }
  for (const auto& [worker, seen] : touched) {
    for (const store::SandboxRow& row : seen.live) {
      compare_row(seen, row);
    }
  }
  for (const auto& [worker, seen] : touched) {
    check_use(worker, seen);
  }
}

Invariants::Seen Invariants::read_worker(const std::string& worker) {
  Seen seen;
  const Status read = store_.read([&](store::Tx& tx) -> Status {
    seen.worker = *tx.worker(worker);
    seen.live = *tx.sandboxes_of_worker(worker);
    seen.use = *tx.use_of_worker(worker);
    return {};
  });
  if (!read) {
    throw Violation("the store works", {worker}, read.error().message);
  }
  if (!seen.worker && removal_asked_.contains(worker)) {
    removed_.insert(worker);
  }
  return seen;
}

void Invariants::row_left(const std::string& worker, const std::string& id) {
  std::optional<store::SandboxRow> row;
  const Status read = store_.read([&](store::Tx& tx) -> Status {
    row = *tx.sandbox_of_worker(worker, id);
    return {};
  });
  store::SandboxRow& known = rows_.at(id);
  if (!read || !row) {
    fail("a live row is not dropped", known, "it is not in the store any more");
  }
  scene_.say({id, worker}, "row " + text_of(*row));
  ++scene_.counts["end " + row->state + " " +
                  row->reason.substr(0, row->reason.find(':')).substr(0, 21)];
  const std::string before = known.state;
  known = *row;
  check_end(*row, before);
}

void Invariants::compare_row(const Seen& seen, const store::SandboxRow& row) {
  const auto known = rows_.find(row.id);
  const std::string before = known == rows_.end() ? "" : known->second.state;
  if (before == row.state && known->second.expires == row.expires) {
    return;
  }
  scene_.say({row.id, row.worker}, "row " + text_of(row));
  const bool anew = is_ended(before) && row.generation == known->second.generation + 1;
  const bool returned = is_ended(before) && !anew;
  if (!before.empty() && !anew && row.generation != known->second.generation) {
    fail("generations rise", row, "it was " + std::to_string(known->second.generation));
  }
  ++scene_.counts["row " + (before.empty() ? "new" : before) + " -> " + row.state];
  rows_[row.id] = row;
  if (before.empty() || returned) {
    became_live(seen, row, returned);
  }
  if (returned && (before != "lost" || row.state != "running")) {
    fail("an end is an end", row, "it was " + before);
  }
  if (row.state == "running" && (before == "pending" || returned) &&
      !scene_.fates[row.id].ran.contains(row.generation)) {
    fail("a row runs only after its engine ran it", row, "no engine did");
  }
  if (row.state == "stopping" && before != "stopping" && !is_true(row)) {
    fail("a reason is true", row, "it is not");
  }
}

void Invariants::became_live(const Seen& seen, const store::SandboxRow& row, bool returned) {
  const Fate& fate = scene_.fates[row.id];
  if (fate.tenant != row.tenant) {
    fail("a row belongs to who asked for it", row, "that was `" + fate.tenant + "`");
  }
  if (!seen.worker || removed_.contains(row.worker)) {
    fail("nothing lives on a removed worker", row, returned ? "it came back" : "it is new");
  }
  if (!seen.worker->tenant.empty() && seen.worker->tenant != row.tenant) {
    fail("no sandbox on a worker of another workspace", row, "it serves " + seen.worker->tenant);
  }
  check_room(seen, row);
  check_limits(row);
  if (returned) {
    return;
  }
  if (seen.worker->state != "ready" || (seen.worker->taints != "[]" && !fate.tolerant)) {
    fail("a worker that is not wanted gets nothing new", row,
         "it is " + seen.worker->state + " " + seen.worker->taints);
  }
  key_told(row.tenant, fate.idempotency_key, row.id);
}

void Invariants::check_room(const Seen& seen, const store::SandboxRow& row) {
  store::Tx::Use use;
  for (const store::SandboxRow& each : seen.live) {
    use.sandboxes += 1;
    use.cpu_cores += each.cpu_cores;
    use.memory_mb += each.memory_mb;
  }
  const store::WorkerRow& worker = *seen.worker;
  if (use.sandboxes > worker.max_sandboxes ||
      use.cpu_cores > worker.cpu_cores * config_.placement.cpu_overcommit + 1e-6 ||
      static_cast<double>(use.memory_mb) >
          static_cast<double>(worker.memory_mb) * config_.placement.memory_overcommit) {
    fail("no worker is oversold", row,
         text_of(use) + "; it has " + std::to_string(worker.max_sandboxes) + " places, " +
             std::to_string(worker.cpu_cores) + " cores, " + std::to_string(worker.memory_mb) +
             " MB");
  }
}

void Invariants::check_limits(const store::SandboxRow& row) {
  std::optional<store::WorkspaceRow> workspace;
  std::optional<store::CredentialRow> key;
  const Status read = store_.read([&](store::Tx& tx) -> Status {
    workspace = *tx.workspace(row.tenant);
    key = *tx.credential(row.created_by);
    return {};
  });
  if (!read || !workspace || !key) {
    throw Violation("the store works", {row.id}, "no workspace or key");
  }
  const auto exceeds = [](const store::Tx::Use& use, const auto& limits, std::int64_t fallback) {
    const std::int64_t most = limits.max_sandboxes >= 0 ? limits.max_sandboxes : fallback;
    return (most >= 0 && use.sandboxes > most) ||
           (limits.max_cpu_cores >= 0 && use.cpu_cores > limits.max_cpu_cores + 1e-6) ||
           (limits.max_memory_mb >= 0 && use.memory_mb > limits.max_memory_mb);
  };
  const auto of_tenant = count(rows_, [&](const auto& each) { return each.tenant == row.tenant; });
  if (exceeds(of_tenant, *workspace, config_.max_sandboxes_per_workspace)) {
    fail("no workspace exceeds its limits", row, text_of(of_tenant));
  }
  const auto of_key =
      count(rows_, [&](const auto& each) { return each.created_by == row.created_by; });
  if (exceeds(of_key, *key, -1)) {
    fail("no key exceeds its limits", row, text_of(of_key));
  }
}

void Invariants::check_use(const std::string& worker, const Seen& seen) {
  const auto recount = count(rows_, [&](const auto& each) { return each.worker == worker; });
  if (!same(recount, seen.use)) {
    throw Violation("use equals a recount", {worker},
                    "stored: " + text_of(seen.use) + "; counted: " + text_of(recount));
  }
  std::set<std::pair<std::string, std::string>> owners;
  for (const auto& row : seen.live) {
    owners.emplace(row.tenant, row.created_by);
  }
  const Status read = store_.read([&](store::Tx& tx) -> Status {
    for (const auto& [tenant, key] : owners) {
      const auto by_tenant = count(rows_, [&](const auto& row) { return row.tenant == tenant; });
      const auto by_key = count(rows_, [&](const auto& row) { return row.created_by == key; });
      if (!same(by_tenant, *tx.use_of_tenant(tenant)) || !same(by_key, *tx.use_of_key(key))) {
        return Error{ErrorCode::kInternal, tenant + " " + key + " counted: " + text_of(by_tenant) +
                                               "; " + text_of(by_key)};
      }
    }
    return {};
  });
  if (!read) {
    throw Violation("use equals a recount", {worker}, read.error().message);
  }
}

// --- Ends

void Invariants::check_end(const store::SandboxRow& row, const std::string& before) {
  if (!is_true(row)) {
    fail("a reason is true", row, "it is not");
  }
  if (before == "stopping" && (row.state == "deleted" || row.state == "error")) {
    check_removed_end(row, before);
  }
}

void Invariants::check_removed_end(const store::SandboxRow& row, const std::string& before) {
  const SimWorker* worker = workers_.at(row.worker);
  if (worker->engine().contains(row.id) && !is_lost(row.worker) && !removed_.contains(row.worker)) {
    fail("what is deleted is gone from its worker", row, "it was " + before);
  }
}

bool Invariants::is_lost(const std::string& worker) const {
  const auto heard = heard_.find(worker);
  const auto online = online_.find(worker);
  const WallTime last =
      std::max(controller_started_, heard == heard_.end() ? WallTime{} : heard->second);
  return scene_.clock.now() - last > config_.lost_after &&
         (online == online_.end() || !online->second);
}

bool Invariants::is_drained(const std::string& worker) const {
  const auto found = drains_.find(worker);
  return found != drains_.end() && *found->second.begin() <= scene_.clock.now();
}

bool Invariants::is_purged(const std::string& sandbox) const {
  const auto row = rows_.find(sandbox);
  return row != rows_.end() && row->second.ended &&
         scene_.clock.now() - *row->second.ended >= kTombstones;
}

void Invariants::key_told(const std::string& tenant, const std::string& key,
                          const std::string& sandbox) {
  if (key.empty()) {
    return;
  }
  const auto [place, fresh] = by_idempotency_key_.emplace(tenant + "/" + key, sandbox);
  if (!fresh && is_purged(place->second)) {
    place->second = sandbox;  // The key is forgotten with its sandbox.
  } else if (place->second != sandbox) {
    throw Violation("one idempotency key makes one sandbox", {sandbox, place->second},
                    "the key " + key + " was told " + place->second + ", and now " + sandbox);
  }
}

bool Invariants::is_true(const store::SandboxRow& row) const {
  const auto found = scene_.fates.find(row.id);
  if (found == scene_.fates.end()) {
    return false;
  }
  const Fate& fate = found->second;
  const WallTime now = scene_.clock.now();
  const std::string& reason = row.reason;
  const std::string by = "deleted by ";
  if (reason.starts_with(by)) {
    return fate.deleted_by.contains(reason.substr(by.size()));
  }
  if (reason.starts_with(control::kCreateTimeout)) {
    const bool fits = row.state == "stopping" || row.state == "error";
    return fits && now - row.created >= config_.create_wait;
  }
  if (reason == control::kReasonDrained) {
    return is_drained(row.worker);
  }
  if (reason == "worker lost") {
    return row.state == "lost" && is_lost(row.worker);
  }
  if (reason == "its worker was removed") {
    return row.state == "lost" && removed_.contains(row.worker);
  }
  if (reason == "missing on its worker") {
    const SimWorker* worker = workers_.at(row.worker);
    return row.state == "lost" && (!fate.ends.empty() || !worker->engine().contains(row.id));
  }
  if (row.state == "error") {
    const std::string name = reason.substr(0, reason.find(':'));
    return fate.refusals.contains(name) || (name == "sandbox_not_running" && !fate.ends.empty());
  }
  return row.state == "stopped" && fate.ends.contains(reason);
}

}  // namespace sandboxkit::model
