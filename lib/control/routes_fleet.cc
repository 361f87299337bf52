#include "control/api.h"
#include "control/find.h"
#include "control/lifecycle.h"

#include <optional>
#include <utility>
#include <vector>

/// Workers as their users and owners see them.
namespace sandboxkit::control {
namespace {

net::ApiResponse list(Services& services, const Caller& caller) {
  json::Array views;
  const Status read = services.context.store.read([&](store::Tx& tx) -> Status {
    auto workers = tx.workers(caller.tenant, true);
    if (!workers) {
      return workers.error();
    }
    for (const store::WorkerRow& row : *workers) {
      auto use = tx.use_of_worker(row.id);
      if (!use) {
        return use.error();
      }
      views.push_back(worker_view(row, *use, services.context.roster.hearing(row.id)));
    }
    return {};
  });
  if (!read) {
    return refuse(read.error());
  }
  return json_answer(200, json::Object{{"workers", std::move(views)}});
}

net::ApiResponse read_one(Services& services, const Caller& caller, const std::string& id) {
  json::Value view;
  const Status read = services.context.store.read([&](store::Tx& tx) -> Status {
    auto row = find_worker(tx, caller.tenant, id);
    if (!row) {
      return row.error();
    }
    auto use = tx.use_of_worker(row->id);
    if (!use) {
      return use.error();
    }
    view = worker_view(*row, *use, services.context.roster.hearing(row->id));
    return {};
  });
  return read ? json_answer(200, view) : refuse(read.error());
}

/// A worker that the caller may change: an owner his workspace's, the operator unscoped ones.
Result<store::WorkerRow> find_changeable(store::Tx& tx, const Caller& caller,
                                         const std::string& id) {
  auto row = find_worker(tx, caller.tenant, id);
  if (row && row->tenant != caller.tenant) {
    // An owner sees unscoped workers, so this tells nothing that he does not know.
    return Error{ErrorCode::kPermissionDenied, "an unscoped worker is the operator's to change",
                 "operator_required"};
  }
  return row;
}

net::ApiResponse set_state(Services& services, const Caller& caller, const std::string& id,
                           const char* state, const char* action) {
  const Status written = services.context.store.write([&](store::Tx& tx) -> Status {
    auto row = find_changeable(tx, caller, id);
    if (!row) {
      return row.error();
    }
    if (auto done = tx.set_worker_state(id, state); !done) {
      return done.error();
    }
    return tx.insert(audit_row(services.context, caller, action, id));
  });
  return written ? read_one(services, caller, id) : refuse(written.error());
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

/// Its credential dies with it, so it cannot come back; what it still runs ends by its own clock.
net::ApiResponse remove(Services& services, const Caller& caller, const std::string& id) {
  std::vector<store::SandboxRow> lost;
  const Status written = services.context.store.write([&](store::Tx& tx) -> Status {
    const WallTime now = services.context.clock.now();
    auto row = find_changeable(tx, caller, id);
    if (!row) {
      return row.error();
    }
    if (auto revoked = revoke_credentials(tx, *row, now); !revoked) {
      return revoked;
    }
    auto ended = lose_sandboxes(tx, id, "its worker was removed", now);
    if (!ended) {
      return ended.error();
    }
    lost = std::move(*ended);
    if (auto removed = tx.remove_worker(id); !removed) {
      return removed;
    }
    return tx.insert(audit_row(services.context, caller, "worker.remove", id));
  });
  if (!written) {
    return refuse(written.error());
  }
  services.context.loop.post([&services, id] { services.fleet.detach(id); });
  for (const store::SandboxRow& row : lost) {
    services.deliverer.tell(row);
  }
  net::ApiResponse response;
  response.status = 204;
  return response;
}

}  // namespace

void add_fleet_routes(Api& api, Services& services) {
  using Answer = const net::ApiResponder&;
  using Request = const net::ApiRequest&;
  api.on("GET", "/v1/workers", [&services](const Caller& caller, Request, Answer answer) {
    answer(list(services, caller));
  });
  api.on("GET", "/v1/workers/{id}",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(read_one(services, caller, request.params[0]));
         });
  api.on("POST", "/v1/workers/{id}/cordon",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(set_state(services, caller, request.params[0], "cordoned", "worker.cordon"));
         });
  api.on("POST", "/v1/workers/{id}/uncordon",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(set_state(services, caller, request.params[0], "ready", "worker.uncordon"));
         });
  api.on("DELETE", "/v1/workers/{id}",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(remove(services, caller, request.params[0]));
         });
}

}  // namespace sandboxkit::control
