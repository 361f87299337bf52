#include "control/find.h"

#include "control/refusals.h"

#include <optional>
#include <utility>

namespace sandboxkit::control {

Result<store::SandboxRow> find_sandbox(store::Tx& tx, const std::string& tenant,
                                       const std::string& id_or_name) {
  auto by_id = tx.sandbox(tenant, id_or_name);
  if (!by_id) {
    return by_id.error();
  }
  if (*by_id) {
    return std::move(**by_id);
  }
  auto by_name = tx.sandbox_by_name(tenant, id_or_name);
  if (!by_name) {
    return by_name.error();
  }
  if (*by_name) {
    return std::move(**by_name);
  }
  return sandbox_not_found();
}

Result<store::SandboxRow> find_sandbox(store::Store& store, const std::string& tenant,
                                       const std::string& id_or_name) {
  std::optional<store::SandboxRow> row;
  const Status read = store.read([&](store::Tx& tx) -> Status {
    auto found = find_sandbox(tx, tenant, id_or_name);
    if (!found) {
      return found.error();
    }
    row = std::move(*found);
    return {};
  });
  if (!read) {
    return read.error();
  }
  return std::move(*row);
}

Result<store::WorkerRow> find_worker(store::Tx& tx, const std::string& tenant,
                                     const std::string& id) {
  auto row = tx.worker(id);
  if (!row) {
    return row.error();
  }
  const bool visible = *row && ((*row)->tenant.empty() || (*row)->tenant == tenant);
  if (!visible) {
    return worker_not_found();
  }
  return std::move(**row);
}

}  // namespace sandboxkit::control
