#include "control/requests.h"

#include "control/lifecycle.h"
#include "control/refusals.h"

#include <utility>

namespace sandboxkit::control {
namespace {

/// An ended sandbox is deleted at once; what its worker may still hold is removed by an order that
/// nobody waits for.
Status delete_ended(store::Tx& tx, store::SandboxRow& row, const Caller& caller, WallTime now) {
  const std::string before = row.state;
  row.desired = "stopped";
  row.state = "deleted";
  if (auto done = tx.update_sandbox(row, before); !done) {
    return done.error();
  }
  auto worker = tx.worker(row.worker);
  if (!worker || !*worker) {
    return worker ? Status{} : Status(worker.error());
  }
  store::DeliveryRow remove{0, row.worker, row.id, row.generation, "remove"};
  remove.created = remove.not_before = now;
  remove.trace = wire::to_text(caller.trace);
  return tx.insert(remove);
}

Status revoke_credentials(store::Tx& tx, const store::WorkerRow& worker, WallTime now) {
  auto credentials = tx.credentials("wk", worker.tenant);
  if (!credentials) {
    return credentials.error();
  }
  for (const store::CredentialRow& row : *credentials) {
    if (row.worker != worker.id) {
      continue;
    }
    if (auto done = tx.revoke_credential("wk", worker.tenant, row.id, now); !done) {
      return done.error();
    }
  }
  return {};
}

}  // namespace

Status request_delete(const Context& context, store::Tx& tx, const Caller& caller,
                      store::SandboxRow& row) {
  const WallTime now = context.clock.now();
  auto found = tx.sandbox(caller.tenant, row.id);
  if (!found || !*found) {
    return found ? Status(sandbox_not_found()) : Status(found.error());
  }
  row = std::move(**found);
  if (row.state == "deleted" || row.state == "stopping") {
    return {};
  }
  if (auto noted = tx.insert(audit_row(context, caller, "sandbox.delete", row.id)); !noted) {
    return noted;
  }
  if (is_ended(row.state)) {
    return delete_ended(tx, row, caller, now);
  }
  const auto begun = begin_removal(tx, row, "deleted by " + caller.credential, now, caller.trace);
  return begun ? Status{} : Status(begun.error());
}

Status request_renewal(const Context& context, store::Tx& tx, const Caller& caller,
                       WallTime expires, store::SandboxRow& row,
                       std::optional<net::ApiResponse>& refusal) {
  refusal.reset();
  auto found = tx.sandbox(caller.tenant, row.id);
  if (!found || !*found) {
    return found ? Status(sandbox_not_found()) : Status(found.error());
  }
  row = std::move(**found);
  if (row.state != "running") {
    refusal = refuse_ended(row);
    return {};
  }
  row.expires = expires;
  if (auto done = tx.update_sandbox(row, "running"); !done) {
    return done.error();
  }
  if (auto noted = tx.insert(audit_row(context, caller, "sandbox.renew", row.id)); !noted) {
    return noted;
  }
  store::DeliveryRow renew{0, row.worker, row.id, row.generation, "renew"};
  renew.created = renew.not_before = context.clock.now();
  renew.trace = wire::to_text(caller.trace);
  return tx.insert(renew);
}

Result<std::vector<store::SandboxRow>> request_worker_removal(const Context& context, store::Tx& tx,
                                                              const Caller& caller,
                                                              const store::WorkerRow& worker) {
  const WallTime now = context.clock.now();
  if (auto revoked = revoke_credentials(tx, worker, now); !revoked) {
    return revoked.error();
  }
  auto ended = lose_sandboxes(tx, worker.id, "its worker was removed", now);
  if (!ended) {
    return ended.error();
  }
  if (auto removed = tx.remove_worker(worker.id); !removed) {
    return removed.error();
  }
  if (auto noted = tx.insert(audit_row(context, caller, "worker.remove", worker.id)); !noted) {
    return noted.error();
  }
  return ended;
}

}  // namespace sandboxkit::control
