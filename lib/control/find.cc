#include "control/find.h"

#include "control/refusals.h"

#include <optional>
#include <utility>

namespace sandboxkit::control {

Result<store::SandboxRow> find_sandbox(store::Tx& tx, const Caller& caller,
                                       const std::string& id_or_name) {
  if (caller.role == policy::Role::kSandbox && id_or_name != caller.sandbox) {
    return sandbox_not_found();
  }
  auto by_id = tx.sandbox(caller.tenant, id_or_name);
  if (!by_id) {
    return by_id.error();
  }
  if (*by_id) {
    return std::move(**by_id);
  }
  auto by_name = tx.sandbox_by_name(caller.tenant, id_or_name);
  if (!by_name) {
    return by_name.error();
  }
  if (*by_name) {
    return std::move(**by_name);
  }
  return sandbox_not_found();
}

Result<store::SandboxRow> find_sandbox(store::Store& store, const Caller& caller,
                                       const std::string& id_or_name) {
  std::optional<store::SandboxRow> row;
  const Status read = store.read([&](store::Tx& tx) -> Status {
    auto found = find_sandbox(tx, caller, id_or_name);
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
  auto row = tx.visible_worker(tenant, id);
  if (!row) {
    return row.error();
  }
  if (!*row) {
    return worker_not_found();
  }
  return std::move(**row);
}

}  // namespace sandboxkit::control
