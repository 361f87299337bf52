#pragma once

#include "store/sqlite.h"
#include "store/store.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sandboxkit::store {

/// One transaction on a connection: says what in SQL, and leaves begin and end to its owner.
class SqliteTx final : public Tx {
 public:
  explicit SqliteTx(Connection& connection) : connection_(connection) {}

  Status insert(const WorkspaceRow& row) override;
  Result<std::optional<WorkspaceRow>> workspace(const std::string& id) override;
  Result<std::vector<WorkspaceRow>> workspaces() override;

  Result<bool> set_workspace_limits(const WorkspaceRow& row) override;

  Status insert(const CredentialRow& row) override;
  Result<std::optional<CredentialRow>> credential(const std::string& id) override;
  Result<std::vector<CredentialRow>> credentials(const std::string& kind,
                                                 const std::string& tenant) override;
  Result<bool> revoke_credential(const std::string& kind, const std::string& tenant,
                                 const std::string& id, WallTime now) override;
  Result<std::vector<CredentialRow>> sandbox_tokens(const std::string& tenant,
                                                    const std::string& sandbox) override;
  Result<bool> revoke_sandbox_token(const std::string& tenant, const std::string& sandbox,
                                    const std::string& id, WallTime now) override;
  Status insert_renewal(const CredentialRow& row) override;
  Status settle_renewal(const std::string& id, WallTime now) override;
  Result<bool> has_live_credential(const std::string& worker, WallTime now) override;
  Status touch_credential(const std::string& id, WallTime now) override;
  Result<bool> use_join_token(const std::string& id) override;

  Status insert(const WorkerRow& row) override;
  Status update_heartbeat(const WorkerRow& row) override;
  Result<bool> set_worker_state(const std::string& id, const std::string& state,
                                const std::optional<WallTime>& drain_until) override;
  Result<bool> set_worker_taints(const std::string& id, const std::string& taints) override;
  Result<std::optional<WorkerRow>> worker(const std::string& id) override;
  Result<std::optional<WorkerRow>> visible_worker(const std::string& tenant,
                                                  const std::string& id) override;
  Result<std::vector<WorkerRow>> workers(const std::string& tenant, bool unscoped) override;
  Result<std::vector<WorkerRow>> all_workers() override;
  Status remove_worker(const std::string& id) override;

  Status insert(const SandboxRow& row) override;
  Result<std::optional<SandboxRow>> sandbox(const std::string& tenant,
                                            const std::string& id) override;
  Result<std::optional<SandboxRow>> sandbox_by_name(const std::string& tenant,
                                                    const std::string& name) override;
  Result<std::vector<SandboxRow>> sandboxes(const SandboxQuery& query) override;
  Result<std::vector<SandboxRow>> sandboxes_of_worker(const std::string& worker) override;
  Result<std::optional<SandboxRow>> sandbox_of_worker(const std::string& worker,
                                                      const std::string& id) override;
  Result<bool> update_sandbox(const SandboxRow& row,
                              const std::optional<std::string>& expected_state) override;
  Result<Use> use_of_worker(const std::string& worker) override;
  Result<Use> use_of_tenant(const std::string& tenant) override;
  Result<Use> use_of_key(const std::string& credential) override;
  Result<std::int64_t> purge_ended(WallTime before) override;

  Status insert(const DeliveryRow& row) override;
  Result<std::vector<DeliveryRow>> due_deliveries(const std::string& worker, WallTime now,
                                                  std::size_t limit) override;
  Status finish_delivery(std::int64_t seq, const std::string& state) override;
  Status retry_delivery(std::int64_t seq, WallTime not_before) override;
  Status drop_deliveries(const std::string& sandbox) override;
  Status drop_deliveries(const std::string& sandbox, const std::string& kind) override;
  Result<bool> has_delivery(const std::string& sandbox, const std::string& kind) override;

  Status insert(const SecretRow& row) override;
  Result<std::vector<SecretRow>> secrets(const std::string& sandbox) override;
  Result<std::vector<std::string>> borrowers(const std::string& worker) override;
  Result<bool> rotate_secret(const SecretRow& row) override;

  Status insert(const AuditRow& row) override;
  Result<std::vector<AuditRow>> audit(const std::string& tenant, std::int64_t after,
                                      std::size_t limit) override;
  Result<std::optional<std::int64_t>> audit_seq(const std::string& tenant,
                                                const std::string& hash) override;
  Result<std::int64_t> prune_audit(WallTime before) override;

  Status insert(const IdempotencyRow& row) override;
  Result<std::optional<IdempotencyRow>> idempotency(const std::string& tenant,
                                                    const std::string& key) override;

  Result<Counts> counts() override;

  Result<std::string> setting(const std::string& name) override;
  Status set_setting(const std::string& name, const std::string& value) override;

  /// Workers whose rows or sandboxes this transaction wrote.
  std::set<std::string> take_touched() { return std::exchange(touched_, {}); }

 private:
  Result<Use> use_of(const char* kind, const std::string& id);

  Connection& connection_;
  std::set<std::string> touched_;
};

}  // namespace sandboxkit::store
