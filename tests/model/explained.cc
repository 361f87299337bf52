// Engines, and what must agree after a rest.
#include "control/rows.h"
#include "tests/model/invariants.h"
#include "work/ledger.h"

#include <utility>

namespace sandboxkit::model {
namespace {

using control::is_ended;

/// A worker that is up ends what is past its time within this; longer only while its engine
/// refuses, or right after a restart.
constexpr seconds kEndsWithin{10};
/// One that its worker's journal forgot: it is looked for, told to the controller, and taken back.
constexpr seconds kOrphanEndsWithin{180};
/// What happened this shortly before the end of a rest need not be settled.
constexpr seconds kFresh{20};

}  // namespace

void Invariants::look_at_engines() {
  std::map<std::string, std::string> runs_on;
  for (const auto& [id, worker] : workers_) {
    for (const auto& [sandbox, object] : worker->engine()) {
      const std::string& serves = worker->setup().tenant;
      if (!serves.empty() && serves != object.tenant) {
        throw Violation("no sandbox on a worker of another workspace", {sandbox, id},
                        "an engine has a sandbox of " + object.tenant);
      }
      const auto row = rows_.find(sandbox);
      if (row == rows_.end() || row->second.tenant != object.tenant || row->second.worker != id) {
        throw Violation("an engine runs only what was placed there", {sandbox, id}, "it was not");
      }
      if (object.running && !runs_on.emplace(sandbox, id).second) {
        throw Violation("one generation of a sandbox runs", {sandbox, id},
                        "it runs on " + runs_on[sandbox] + " as well");
      }
      check_time(*worker, sandbox, object);
    }
  }
}

void Invariants::check_time(const SimWorker& worker, const std::string& sandbox,
                            const EngineObject& object) {
  const EngineFaults& faults = worker.faults();
  if (!worker.up() || !object.running || faults.keeps || faults.keeps_badly) {
    return;
  }
  const auto found = worker.journal().find(sandbox);
  const bool known = found != worker.journal().end();
  if (known && found->second.state != work::kRunning) {
    return;  // It is being made, or removed.
  }
  const WallTime since =
      std::max({known ? std::max(found->second.expires, found->second.updated) : object.expires,
                worker.renewed_at(sandbox), worker.up_since(), disturbed_[worker.id()]});
  if (scene_.clock.now() - since > (known ? kEndsWithin : kOrphanEndsWithin)) {
    throw Violation("no sandbox runs past its time", {sandbox, worker.id()},
                    sandbox + " on " + worker.id() + " runs for too long");
  }
}

void Invariants::everything_explained() {
  for (const auto& [id, worker] : workers_) {
    if (is_gone(id)) {
      continue;
    }
    explain_rows(id);
    explain_engine(id);
  }
  for (const auto& [id, row] : rows_) {
    if (!is_ended(row.state) && removed_.contains(row.worker)) {
      fail("nothing lives on a removed worker", row, "after a rest");
    }
  }
  check_audit();
  check_callers();
}

void Invariants::explain_rows(const std::string& id) {
  const SimWorker& worker = *workers_.at(id);
  const WallTime now = scene_.clock.now();
  for (const std::string& sandbox : live_of_worker_[id]) {
    const store::SandboxRow& row = rows_.at(sandbox);
    const bool ending = row.expires <= now && now - row.expires < kFresh;
    if (ending) {
      continue;
    }
    if (row.state != "running") {
      fail("no row waits for ever", row, "after a rest");
    }
    if (row.expires <= now) {
      fail("a row ends with its time", row, "after a rest");
    }
    const auto object = worker.engine().find(sandbox);
    const auto journalled = worker.journal().find(sandbox);
    if (object == worker.engine().end() || !object->second.running ||
        object->second.generation != row.generation) {
      fail("a row that runs, runs in its engine", row, "after a rest it does not");
    }
    if (journalled == worker.journal().end() || journalled->second.expires != row.expires) {
      fail("row and worker agree on the end of its time", row, "after a rest they do not");
    }
  }
}

void Invariants::explain_engine(const std::string& id) {
  for (const auto& [sandbox, object] : workers_.at(id)->engine()) {
    const auto row = rows_.find(sandbox);
    if (row == rows_.end() || is_ended(row->second.state)) {
      throw Violation("everything in an engine has a row", {sandbox, id},
                      sandbox + " is in the engine of " + id + " after a rest; its row is " +
                          (row == rows_.end() ? "absent" : row->second.state));
    }
  }
}

void Invariants::check_audit() {
  std::set<std::string> tenants;
  for (const auto& [id, row] : rows_) {
    tenants.insert(row.tenant);
  }
  const Status read = store_.read([&](store::Tx& tx) -> Status {
    for (const std::string& tenant : tenants) {
      while (true) {
        const auto page = *tx.audit(tenant, audit_read_[tenant], 1'000);
        for (const store::AuditRow& line : page) {
          ++audit_lines_[line.action][line.target];
          audit_read_[tenant] = line.seq;
        }
        if (page.empty()) {
          break;
        }
      }
    }
    return {};
  });
  if (!read) {
    throw Violation("the store works", {}, read.error().message);
  }
  for (const auto& [id, row] : rows_) {
    const int deletes = audit_lines_["sandbox.delete"][id];
    const bool deleted = row.reason.starts_with("deleted by ");
    if (audit_lines_["sandbox.create"][id] != 1 || deletes > 1 || (deleted && deletes != 1)) {
      fail("the audit log has one line for each action", row,
           std::to_string(audit_lines_["sandbox.create"][id]) + " creates, " +
               std::to_string(deletes) + " deletes");
    }
    const int renewals = audit_lines_["sandbox.renew"][id];
    if (renewals < renewals_told_[id] || renewals > renewals_asked_[id]) {
      fail("the audit log has one line for each action", row,
           std::to_string(renewals) + " renewals, told " + std::to_string(renewals_told_[id]));
    }
  }
}

void Invariants::check_callers() {
  const Status read = store_.read([&](store::Tx& tx) -> Status {
    for (const auto& [id, fate] : scene_.fates) {
      if (!fate.acknowledged || is_purged(id)) {
        continue;
      }
      const auto row = *tx.sandbox(fate.tenant, id);
      if (!row) {
        return Error{ErrorCode::kNotFound, id + " has no row", id};
      }
      if (fate.gone_acknowledged && !is_ended(row->state)) {
        return Error{ErrorCode::kConflict, id + " is " + row->state + ", and was told to be gone",
                     id};
      }
    }
    return {};
  });
  if (!read) {
    throw Violation("what callers were told holds", {read.error().reason}, read.error().message);
  }
}

}  // namespace sandboxkit::model
