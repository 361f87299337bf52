#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/result.h"

#include "store/secret_row.h"
#include "store/write_metrics.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sandboxkit::store {

/// Rows are plain data; empty text means "none". Times are milliseconds since the epoch in the
/// tables. Every sandbox query carries the tenant: a foreign id is a plain miss.

struct WorkspaceRow {
  std::string id;
  std::string name;
  WallTime created{};
  std::int64_t max_sandboxes = -1;  ///< Negative: the deployment's default, likewise below.
  double max_cpu_cores = -1;
  std::int64_t max_memory_mb = -1;
};

/// All credentials: `sk` API keys, `jn` join tokens, `wk` worker credentials, `op` operator's.
struct CredentialRow {
  std::string id;    ///< Public part; the primary key.
  std::string kind;  ///< sk, jn, wk, op.
  std::string secret_hash;
  std::string tenant{};
  std::string role{};  ///< owner, member or sandbox, for sk.
  std::string name{};
  std::string worker{};         ///< wk: the worker it belongs to. jn: the only name that may join.
  std::int64_t uses_left = -1;  ///< jn only.
  WallTime created{};
  std::optional<WallTime> expires{};
  std::optional<WallTime> last_used{};
  std::optional<WallTime> revoked{};
  std::string sandbox{};       ///< sk of the role sandbox: the only one that it opens.
  std::string capabilities{};  ///< jn: JSON array of the most that its workers may offer; "" = all.
  std::string networks{};      ///< jn: JSON array of CIDRs that may use it; "" = any.
  std::string replaces{};      ///< wk: the credential that ends when this one is first used.
  std::int64_t max_sandboxes = -1;  ///< sk: what its sandboxes may use at once; negative: no limit.
  double max_cpu_cores = -1;
  std::int64_t max_memory_mb = -1;
};

struct WorkerRow {
  std::string id;
  std::string tenant{};  ///< "" = unscoped.
  std::string name{};
  std::string state = "ready";  ///< ready, cordoned, draining (wanted by its owner).
  std::string arch{};
  std::string engine{};
  double cpu_cores = 0;
  std::int64_t memory_mb = 0;
  std::int64_t max_sandboxes = 0;
  std::int64_t max_starting = 0;
  std::string capabilities = "[]";  ///< JSON text, likewise below.
  std::string runtimes = "[]";
  std::string labels = "{}";
  std::string images = "[]";
  WallTime joined{};
  std::optional<WallTime> last_heartbeat{};
  std::string taints = "[]";     ///< JSON text: set by its owner; creates must tolerate them.
  std::string problem{};         ///< What the worker complains of; "" = healthy.
  std::string capability_cap{};  ///< JSON array from its join token; "" = none.
  std::optional<WallTime> drain_until{};  ///< draining: what runs then is stopped.
};

struct SandboxRow {
  std::string id;
  std::string tenant;
  std::string name{};
  std::string worker{};
  std::int64_t generation = 1;
  std::string desired = "running";  ///< running, stopped.
  std::string state = "pending";    ///< name_of(SandboxState).
  std::string reason{};             ///< Why it ended or failed: the tombstone.
  std::string spec;                 ///< JSON text.
  std::string spec_hash;
  std::string policy_hash{};
  std::string next_egress{};  ///< JSON text of a policy recorded for the next creation.
  std::string narrowing{};    ///< JSON text of the policy that the wall is narrowed to.
  std::string narrowing_hash{};
  std::string narrowing_state{};  ///< pending, or in_force once the worker said so.
  std::string structure{};        ///< Of its wall, as the worker tells.
  double cpu_cores = 0;
  std::int64_t memory_mb = 0;
  std::string created_by{};  ///< Credential id.
  WallTime created{};
  WallTime expires{};
  std::optional<WallTime> started{};
  std::optional<WallTime> ended{};
};

struct DeliveryRow {
  std::int64_t seq = 0;  ///< Given by the store.
  std::string worker;
  std::string sandbox;
  std::int64_t generation = 1;
  std::string kind;              ///< create, remove, renew, narrow, lend.
  std::string state = "queued";  ///< queued, done, failed.
  std::int64_t attempts = 0;
  WallTime created{};
  WallTime not_before{};
  std::string trace{};  ///< Request id and trace context of the call that ordered it.
};

struct AuditRow {
  std::int64_t seq = 0;  ///< Given by the store, without gaps.
  WallTime time{};
  std::string tenant{};
  std::string actor{};   ///< Credential id, or `system`.
  std::string action{};  ///< `sandbox.create`, ...
  std::string target{};
  std::string outcome{};
  std::string address{};
  std::string request{};  ///< Id of the request; empty: none was given.
  std::string hash{};     ///< Given by the store: see audit_chain.h.
};

struct IdempotencyRow {
  std::string tenant;
  std::string key;
  std::string request_hash;
  std::string sandbox;
  WallTime created{};
};

struct SandboxQuery {
  std::string tenant;
  std::vector<std::string> states{};  ///< Empty: all but deleted.
  std::string after{};                ///< Id of the last row of the page before.
  std::size_t limit = 100;
};

/// What a transaction may do. Reads see the transaction's own writes.
class Tx {
 public:
  virtual ~Tx() = default;

  virtual Status insert(const WorkspaceRow& row) = 0;  ///< kConflict when the id is taken.
  virtual Result<std::optional<WorkspaceRow>> workspace(const std::string& id) = 0;
  virtual Result<std::vector<WorkspaceRow>> workspaces() = 0;
  /// Writes the three limits; false when there is no such workspace.
  virtual Result<bool> set_workspace_limits(const WorkspaceRow& row) = 0;

  virtual Status insert(const CredentialRow& row) = 0;
  virtual Result<std::optional<CredentialRow>> credential(const std::string& id) = 0;
  /// Not revoked ones of a kind, without tokens of single sandboxes; an empty tenant lists the
  /// tenant-less ones.
  virtual Result<std::vector<CredentialRow>> credentials(const std::string& kind,
                                                         const std::string& tenant) = 0;
  /// False when there is no such live credential of that tenant and kind.
  virtual Result<bool> revoke_credential(const std::string& kind, const std::string& tenant,
                                         const std::string& id, WallTime now) = 0;
  /// Likewise for the tokens of one sandbox.
  virtual Result<std::vector<CredentialRow>> sandbox_tokens(const std::string& tenant,
                                                            const std::string& sandbox) = 0;
  virtual Result<bool> revoke_sandbox_token(const std::string& tenant, const std::string& sandbox,
                                            const std::string& id, WallTime now) = 0;
  virtual Status touch_credential(const std::string& id, WallTime now) = 0;
  /// Takes one use; false when none is left (compare-and-set).
  virtual Result<bool> use_join_token(const std::string& id) = 0;

  /// Inserts a worker's next credential; one that was made before it for the same `replaces`, and
  /// never used, is gone then.
  virtual Status insert_renewal(const CredentialRow& row) = 0;
  /// The credential was used: the one that it replaces ends.
  virtual Status settle_renewal(const std::string& id, WallTime now) = 0;
  /// Whether a worker has a credential that is neither revoked nor past its end.
  virtual Result<bool> has_live_credential(const std::string& worker, WallTime now) = 0;

  /// kConflict `name_taken` when a worker of the same tenant (or unscoped one) has the name.
  virtual Status insert(const WorkerRow& row) = 0;
  /// Replaces what a heartbeat may tell (not id, tenant, state, joined).
  virtual Status update_heartbeat(const WorkerRow& row) = 0;
  virtual Result<bool> set_worker_state(const std::string& id, const std::string& state,
                                        const std::optional<WallTime>& drain_until = {}) = 0;
  virtual Result<bool> set_worker_taints(const std::string& id, const std::string& taints) = 0;
  virtual Result<std::optional<WorkerRow>> worker(const std::string& id) = 0;
  /// One that a tenant may see: its own or one without a tenant. Another's is a plain miss.
  virtual Result<std::optional<WorkerRow>> visible_worker(const std::string& tenant,
                                                          const std::string& id) = 0;
  /// Own workers of a tenant and, with `unscoped`, those without one. Never another tenant's.
  virtual Result<std::vector<WorkerRow>> workers(const std::string& tenant, bool unscoped) = 0;
  virtual Result<std::vector<WorkerRow>> all_workers() = 0;
  virtual Status remove_worker(const std::string& id) = 0;

  /// The tenant rule stands in the table as well: kConflict `foreign_placement` when the worker
  /// belongs to another tenant or is not there; kConflict `name_taken` when the live name exists
  /// in the tenant.
  virtual Status insert(const SandboxRow& row) = 0;
  virtual Result<std::optional<SandboxRow>> sandbox(const std::string& tenant,
                                                    const std::string& id) = 0;
  virtual Result<std::optional<SandboxRow>> sandbox_by_name(const std::string& tenant,
                                                            const std::string& name) = 0;
  virtual Result<std::vector<SandboxRow>> sandboxes(const SandboxQuery& query) = 0;
  /// Those that have not ended: for reconcile and for worker reports, which are judged by worker
  /// and generation. A report about any other sandbox is about one that should not run.
  virtual Result<std::vector<SandboxRow>> sandboxes_of_worker(const std::string& worker) = 0;
  virtual Result<std::optional<SandboxRow>> sandbox_of_worker(const std::string& worker,
                                                              const std::string& id) = 0;
  /// Writes state, desired, reason, expires, started, ended, next_egress if the row still has
  /// `generation` and, where given, `expected_state`; false when it does not.
  virtual Result<bool> update_sandbox(const SandboxRow& row,
                                      const std::optional<std::string>& expected_state) = 0;
  /// What live sandboxes (all but stopped, deleted, error and lost) take. Counted by the store as
  /// their rows change: a look-up of one row, however many there are.
  struct Use {
    std::int64_t sandboxes = 0;
    std::int64_t starting = 0;  ///< pending or starting.
    double cpu_cores = 0;       ///< In thousandths, each sandbox rounded up.
    std::int64_t memory_mb = 0;
  };
  virtual Result<Use> use_of_worker(const std::string& worker) = 0;
  virtual Result<Use> use_of_tenant(const std::string& tenant) = 0;
  /// By the credential that created them.
  virtual Result<Use> use_of_key(const std::string& credential) = 0;
  /// Drops rows that ended before `before`, with their deliveries and idempotency keys; at most
  /// 5,000 a call, because it holds the writer.
  virtual Result<std::int64_t> purge_ended(WallTime before) = 0;

  virtual Status insert(const DeliveryRow& row) = 0;
  /// Queued and due, oldest first, for one worker.
  virtual Result<std::vector<DeliveryRow>> due_deliveries(const std::string& worker, WallTime now,
                                                          std::size_t limit) = 0;
  virtual Status finish_delivery(std::int64_t seq, const std::string& state) = 0;
  virtual Status retry_delivery(std::int64_t seq, WallTime not_before) = 0;
  virtual Status drop_deliveries(const std::string& sandbox) = 0;  ///< Queued ones of a sandbox.
  virtual Status drop_deliveries(const std::string& sandbox, const std::string& kind) = 0;
  virtual Result<bool> has_delivery(const std::string& sandbox, const std::string& kind) = 0;
  virtual Status insert(const SecretRow& row) = 0;
  virtual Result<std::vector<SecretRow>> secrets(const std::string& sandbox) = 0;     ///< By name.
  virtual Result<std::vector<std::string>> borrowers(const std::string& worker) = 0;  ///< Live.
  virtual Result<bool> rotate_secret(const SecretRow& row) = 0;  ///< Value and end, by name.

  /// Appends to the chain; the row's own `seq` and `hash` do not count.
  virtual Status insert(const AuditRow& row) = 0;
  virtual Result<std::vector<AuditRow>> audit(const std::string& tenant, std::int64_t after,
                                              std::size_t limit) = 0;
  /// Where a row of that tenant stands; nullopt: it has none of that hash.
  virtual Result<std::optional<std::int64_t>> audit_seq(const std::string& tenant,
                                                        const std::string& hash) = 0;
  /// Removes the rows before the first one that is not older than `before`, at most 5,000 a call.
  /// What is left still proves itself: the last removed row's hash is kept as the anchor.
  virtual Result<std::int64_t> prune_audit(WallTime before) = 0;

  virtual Status insert(const IdempotencyRow& row) = 0;
  virtual Result<std::optional<IdempotencyRow>> idempotency(const std::string& tenant,
                                                            const std::string& key) = 0;

  /// What there is in all, for the operator: sandboxes by state, and orders that wait.
  struct Counts {
    std::vector<std::pair<std::string, std::int64_t>> sandboxes{};
    std::int64_t queued_deliveries = 0;
  };
  virtual Result<Counts> counts() = 0;

  virtual Result<std::string> setting(const std::string& name) = 0;  ///< "" when unset.
  virtual Status set_setting(const std::string& name, const std::string& value) = 0;
};

/// The durable state of a deployment.
///
/// A write is all or nothing, and durable when `write` returns; writes of several threads share one
/// commit (group commit), so a body may run again and must have no effect but on `tx`. A body that
/// returns an error rolls back its own writes only.
/// Errors of every call: kUnavailable `store_unavailable` (disk full, I/O), `overloaded` (too many
/// writes wait), kInternal.
/// Thread-safety: any thread. Blocking: a write waits for its commit.
class Store {
 public:
  /// Gets the ids of workers whose row, or whose sandboxes' rows, a committed write changed.
  using OnChange = std::function<void(const std::vector<std::string>& workers)>;

  virtual ~Store() = default;
  virtual Status write(const std::function<Status(Tx&)>& body) = 0;
  virtual Status read(const std::function<Status(Tx&)>& body) = 0;
  /// Called after the commit, on the writing call's thread, before `write` returns. Set it before
  /// the first write. What another process wrote is not told.
  virtual void on_change(OnChange handler) = 0;
};

/// Opens (and makes, mode 0600) the database file. WAL, synchronous=FULL, STRICT tables, integrity
/// checked, schema versioned.
///
/// `metrics` lives as long as the store.
Result<std::unique_ptr<Store>> open_sqlite(const std::string& path,
                                           const WriteMetrics& metrics = {});

}  // namespace sandboxkit::store
