#include "store/sqlite_tx.h"

#include "base/text.h"
#include "store/rows.h"

// Workspaces, credentials, workers, settings. Sandboxes and deliveries stand in
// sqlite_tx_sandbox.cc, the audit log in sqlite_tx_audit.cc.

namespace sandboxkit::store {
namespace {

/// Success when the statement changed a row.
Result<bool> changed_one(const Result<std::int64_t>& changed) {
  return changed ? Result<bool>(*changed > 0) : Result<bool>(changed.error());
}

Status done(const Result<std::int64_t>& changed) {
  return changed ? Status() : Status(changed.error());
}

}  // namespace

Status SqliteTx::insert(const WorkspaceRow& row) { return insert_row(connection_, row); }

Result<std::optional<WorkspaceRow>> SqliteTx::workspace(const std::string& id) {
  return select_one<WorkspaceRow>(connection_, "WHERE id = ?", id);
}

Result<std::vector<WorkspaceRow>> SqliteTx::workspaces() {
  return select_all<WorkspaceRow>(connection_, "ORDER BY id");
}

Result<bool> SqliteTx::set_workspace_limits(const WorkspaceRow& row) {
  return changed_one(
      connection_.run("UPDATE workspace SET max_sandboxes = ?, max_cpu_cores = ?, "
                      "max_memory_mb = ? WHERE id = ?",
                      row.max_sandboxes, row.max_cpu_cores, row.max_memory_mb, row.id));
}

Status SqliteTx::insert(const CredentialRow& row) { return insert_row(connection_, row); }

Result<std::optional<CredentialRow>> SqliteTx::credential(const std::string& id) {
  return select_one<CredentialRow>(connection_, "WHERE id = ?", id);
}

Result<std::vector<CredentialRow>> SqliteTx::credentials(const std::string& kind,
                                                         const std::string& tenant) {
  return select_all<CredentialRow>(
      connection_,
      "WHERE kind = ? AND tenant = ? AND revoked IS NULL AND sandbox = '' ORDER BY created, id",
      kind, tenant);
}

Result<bool> SqliteTx::revoke_credential(const std::string& kind, const std::string& tenant,
                                         const std::string& id, WallTime now) {
  return changed_one(connection_.run(
      "UPDATE credential SET revoked = ? "
      "WHERE id = ? AND kind = ? AND tenant = ? AND sandbox = '' AND revoked IS NULL",
      now, id, kind, tenant));
}

Result<std::vector<CredentialRow>> SqliteTx::sandbox_tokens(const std::string& tenant,
                                                            const std::string& sandbox) {
  return select_all<CredentialRow>(
      connection_,
      "WHERE sandbox = ? AND sandbox <> '' AND tenant = ? AND revoked IS NULL ORDER BY created, id",
      sandbox, tenant);
}

Result<bool> SqliteTx::revoke_sandbox_token(const std::string& tenant, const std::string& sandbox,
                                            const std::string& id, WallTime now) {
  return changed_one(connection_.run(
      "UPDATE credential SET revoked = ? "
      "WHERE id = ? AND sandbox = ? AND sandbox <> '' AND tenant = ? AND revoked IS NULL",
      now, id, sandbox, tenant));
}

Status SqliteTx::insert_renewal(const CredentialRow& row) {
  const auto dropped = connection_.run(
      "DELETE FROM credential WHERE kind = 'wk' AND worker = ? AND replaces = ? AND replaces <> '' "
      "AND revoked IS NULL",
      row.worker, row.replaces);
  return dropped ? insert_row(connection_, row) : Status(dropped.error());
}

Status SqliteTx::settle_renewal(const std::string& id, WallTime now) {
  const auto ended = connection_.run(
      "UPDATE credential SET revoked = ? WHERE kind = 'wk' AND revoked IS NULL AND id = "
      "(SELECT replaces FROM credential WHERE id = ? AND revoked IS NULL)",
      now, id);
  return ended ? done(connection_.run("UPDATE credential SET replaces = '' WHERE id = ?", id))
               : Status(ended.error());
}

Result<bool> SqliteTx::has_live_credential(const std::string& worker, WallTime now) {
  const auto found = select_one<CredentialRow>(
      connection_,
      "WHERE worker = ? AND kind = 'wk' AND revoked IS NULL AND (expires IS NULL OR expires > ?) "
      "LIMIT 1",
      worker, now);
  return found ? Result<bool>(found->has_value()) : Result<bool>(found.error());
}

Status SqliteTx::touch_credential(const std::string& id, WallTime now) {
  return done(connection_.run("UPDATE credential SET last_used = ? WHERE id = ?", now, id));
}

Result<bool> SqliteTx::use_join_token(const std::string& id) {
  return changed_one(
      connection_.run("UPDATE credential SET uses_left = uses_left - 1 "
                      "WHERE id = ? AND kind = 'jn' AND revoked IS NULL AND uses_left > 0",
                      id));
}

Status SqliteTx::insert(const WorkerRow& row) {
  touched_.insert(row.id);
  auto status = insert_row(connection_, row);
  if (!status && status.error().message.find("worker.tenant, worker.name") != std::string::npos) {
    return Error{ErrorCode::kConflict,
                 "a worker of this name has joined already; delete it or take another name",
                 "name_taken", "name"};
  }
  return status;
}

Status SqliteTx::update_heartbeat(const WorkerRow& row) {
  touched_.insert(row.id);
  const auto changed = changed_one(connection_.run(
      "UPDATE worker SET arch = ?, engine = ?, cpu_cores = ?, memory_mb = ?, max_sandboxes = ?, "
      "max_starting = ?, capabilities = ?, runtimes = ?, labels = ?, images = ?, problem = ?, "
      "last_heartbeat = ? WHERE id = ?",
      row.arch, row.engine, row.cpu_cores, row.memory_mb, row.max_sandboxes, row.max_starting,
      row.capabilities, row.runtimes, row.labels, row.images, row.problem, row.last_heartbeat,
      row.id));
  if (changed && !*changed) {
    return Error{ErrorCode::kNotFound, "there is no worker " + quoted(row.id), "worker_not_found"};
  }
  return changed ? Status() : Status(changed.error());
}

Result<bool> SqliteTx::set_worker_state(const std::string& id, const std::string& state,
                                        const std::optional<WallTime>& drain_until) {
  touched_.insert(id);
  return changed_one(connection_.run("UPDATE worker SET state = ?, drain_until = ? WHERE id = ?",
                                     state, drain_until, id));
}

Result<bool> SqliteTx::set_worker_taints(const std::string& id, const std::string& taints) {
  touched_.insert(id);
  return changed_one(connection_.run("UPDATE worker SET taints = ? WHERE id = ?", taints, id));
}

Result<std::optional<WorkerRow>> SqliteTx::worker(const std::string& id) {
  return select_one<WorkerRow>(connection_, "WHERE id = ?", id);
}

Result<std::optional<WorkerRow>> SqliteTx::visible_worker(const std::string& tenant,
                                                          const std::string& id) {
  return select_one<WorkerRow>(connection_, "WHERE id = ? AND tenant IN (?, '')", id, tenant);
}

Result<std::vector<WorkerRow>> SqliteTx::workers(const std::string& tenant, bool unscoped) {
  // Without `unscoped` the second term asks for the tenant once more.
  return select_all<WorkerRow>(connection_, "WHERE tenant IN (?, ?) ORDER BY id", tenant,
                               unscoped ? std::string() : tenant);
}

Result<std::vector<WorkerRow>> SqliteTx::all_workers() {
  return select_all<WorkerRow>(connection_, "ORDER BY id");
}

Status SqliteTx::remove_worker(const std::string& id) {
  touched_.insert(id);
  return done(connection_.run("DELETE FROM worker WHERE id = ?", id));
}

Status SqliteTx::insert(const IdempotencyRow& row) { return insert_row(connection_, row); }

Result<std::optional<IdempotencyRow>> SqliteTx::idempotency(const std::string& tenant,
                                                            const std::string& key) {
  return select_one<IdempotencyRow>(connection_, "WHERE tenant = ? AND key = ?", tenant, key);
}

Result<std::string> SqliteTx::setting(const std::string& name) {
  std::string value;
  auto status = connection_.each(
      "SELECT value FROM setting WHERE name = ?", [&](Query& row) { row.read(value); }, name);
  if (!status) {
    return status.error();
  }
  return value;
}

Status SqliteTx::set_setting(const std::string& name, const std::string& value) {
  return done(connection_.run("REPLACE INTO setting (name, value) VALUES (?, ?)", name, value));
}

}  // namespace sandboxkit::store
