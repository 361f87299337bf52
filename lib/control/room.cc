#include "control/room.h"

#include "control/rows.h"

#include <utility>

namespace sandboxkit::control {
namespace {

policy::Usage usage_of(const store::Tx::Use& use) {
  return {use.sandboxes, use.cpu_cores, use.memory_mb};
}

template <typename Row>
policy::Budget budget_of(const Row& row) {
  return {row.max_sandboxes, row.max_cpu_cores, row.max_memory_mb};
}

/// A workspace's own limits where it has them, else the deployment's.
policy::Budget or_default(policy::Budget own, const ControllerConfig& config) {
  if (own.sandboxes < 0) {
    own.sandboxes = config.max_sandboxes_per_workspace;
  }
  if (own.cpu_cores < 0) {
    own.cpu_cores = config.max_cpu_cores_per_workspace;
  }
  if (own.memory_mb < 0) {
    own.memory_mb = config.max_memory_mb_per_workspace;
  }
  return own;
}

/// Room alone: what its owner wants of the worker does not move what runs there already.
Result<bool> has_room(store::Tx& tx, const ControllerConfig& config, const store::SandboxRow& row) {
  auto worker = tx.worker(row.worker);
  auto use = tx.use_of_worker(row.worker);
  auto tenant = TenantId::parse(row.tenant);
  if (!worker || !use || !tenant) {
    return !worker ? worker.error() : !use ? use.error() : tenant.error();
  }
  if (!*worker) {
    return false;
  }
  auto view = scheduler_view(**worker, *use, {});
  if (!view) {
    return view.error();
  }
  view->state = WorkerState::kReady;
  view->starting = 0;
  view->max_starting = 1;
  view->taints.clear();
  PlacementRequest request{std::move(*tenant), {}};
  request.cpu_cores = row.cpu_cores;
  request.memory_mb = row.memory_mb;
  return !Scheduler(config.placement).refusal_of(request, *view).has_value();
}

}  // namespace

Result<LimitCheck> check_limits(store::Tx& tx, const ControllerConfig& config,
                                const std::string& tenant, const std::string& credential,
                                const policy::Usage& wanted) {
  auto workspace = tx.workspace(tenant);
  auto key = tx.credential(credential);
  auto used = tx.use_of_tenant(tenant);
  auto used_by_key = tx.use_of_key(credential);
  if (!workspace || !key || !used || !used_by_key) {
    return !workspace ? workspace.error()
           : !key     ? key.error()
           : !used    ? used.error()
                      : used_by_key.error();
  }
  LimitCheck check;
  check.own = *workspace ? budget_of(**workspace) : policy::Budget{};
  const policy::Allowance allowances[] = {
      {"workspace", or_default(check.own, config), usage_of(*used)},
      {"key", *key ? budget_of(**key) : policy::Budget{}, usage_of(*used_by_key)}};
  check.excess = policy::first_excess(wanted, allowances);
  return check;
}

Result<bool> may_return(store::Tx& tx, const ControllerConfig& config,
                        const store::SandboxRow& row) {
  auto check =
      check_limits(tx, config, row.tenant, row.created_by, {1, row.cpu_cores, row.memory_mb});
  if (!check) {
    return check.error();
  }
  return check->excess ? Result<bool>(false) : has_room(tx, config, row);
}

}  // namespace sandboxkit::control
