#include "control/api.h"
#include "control/find.h"
#include "control/secrets.h"

#include <algorithm>
#include <optional>
#include <utility>

/// Secrets that were lent to a sandbox: which they are, and new values for them. A value goes in
/// and never comes out.
namespace sandboxkit::control {
namespace {

Error secret_not_found() {
  return Error{ErrorCode::kNotFound, "this sandbox was lent no such secret", "secret_not_found"};
}

Result<std::vector<store::SecretRow>> rows_of(store::Tx& tx, const Caller& caller,
                                              const std::string& sandbox, store::SandboxRow& row) {
  auto found = find_sandbox(tx, caller, sandbox);
  if (!found) {
    return found.error();
  }
  row = std::move(*found);
  return tx.secrets(row.id);
}

net::ApiResponse list_secrets(Services& services, const Caller& caller,
                              const net::ApiRequest& request) {
  json::Array views;
  const Status read = services.context.store.read([&](store::Tx& tx) -> Status {
    store::SandboxRow row;
    auto rows = rows_of(tx, caller, request.params[0], row);
    if (!rows) {
      return rows.error();
    }
    for (const store::SecretRow& each : *rows) {
      views.emplace_back(wire::secret_view(secret_of(each)));
    }
    return {};
  });
  return read ? json_answer(200, json::Object{{"secrets", std::move(views)}})
              : refuse(read.error());
}

/// The new value sealed, the audit line, and the order to the worker.
Status write_rotation(const Context& context, store::Tx& tx, const Caller& caller,
                      const net::ApiRequest& request, const json::Value& body,
                      store::SandboxRow& row, std::optional<json::Object>& view) {
  auto rows = rows_of(tx, caller, request.params[0], row);
  if (!rows) {
    return rows.error();
  }
  if (context.secrets_key == nullptr) {
    return Error{ErrorCode::kConflict,
                 "this controller keeps no secrets: its option `secrets_key_file` is not set",
                 kSecretsUnavailable};
  }
  const auto found =
      std::ranges::find(*rows, request.params[1], [](const auto& each) { return each.name; });
  if (found == rows->end()) {
    return secret_not_found();
  }
  auto lent = wire::rotated_from_json(body, secret_of(*found));
  if (!lent) {
    return lent.error();
  }
  auto sealed = seal_secret(row, *lent, *context.secrets_key);
  if (!sealed) {
    return sealed.error();
  }
  if (auto written = tx.rotate_secret(*sealed); !written) {
    return written.error();
  }
  view = wire::secret_view(*lent);
  const WallTime now = context.clock.now();
  store::DeliveryRow lend{0, row.worker, row.id, row.generation, "lend"};
  lend.created = lend.not_before = now;
  lend.trace = wire::to_text(caller.trace);
  for (const Status& status :
       {tx.drop_deliveries(row.id, "lend"), tx.insert(lend),
        tx.insert(audit_row(context, caller, "sandbox.lend", row.id + "/" + found->name))}) {
    if (!status) {
      return status;
    }
  }
  return {};
}

net::ApiResponse rotate_secret(Services& services, const Caller& caller,
                               const net::ApiRequest& request) {
  const auto body = body_of(request);
  if (!body) {
    return refuse(body.error());
  }
  store::SandboxRow row;
  std::optional<json::Object> view;
  const Status written = services.context.store.write([&](store::Tx& tx) {
    return write_rotation(services.context, tx, caller, request, *body, row, view);
  });
  if (!written) {
    return refuse(written.error());
  }
  services.deliverer.wake(row.worker);
  return json_answer(202, json::Value(std::move(*view)));
}

}  // namespace

void add_secret_routes(Api& api, Services& services) {
  using Answer = const net::ApiResponder&;
  using Request = const net::ApiRequest&;
  api.on("GET", "/v1/sandboxes/{id}/secrets",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(list_secrets(services, caller, request));
         });
  api.on("PUT", "/v1/sandboxes/{id}/secrets/{name}",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(rotate_secret(services, caller, request));
         });
}

}  // namespace sandboxkit::control
