#include "sandboxkit/sandbox_spec.h"

#include "base/text.h"
#include "control/api.h"
#include "control/find.h"
#include "control/requests.h"

#include <algorithm>
#include <functional>
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

/// What an owner may do to a worker: `change` in one transaction with its line in the audit.
net::ApiResponse change_worker(
    Services& services, const Caller& caller, const std::string& id, const char* action,
    const std::function<Result<bool>(store::Tx&, const store::WorkerRow&)>& change) {
  const Status written = services.context.store.write([&](store::Tx& tx) -> Status {
    auto row = find_changeable(tx, caller, id);
    if (!row) {
      return row.error();
    }
    if (auto done = change(tx, *row); !done) {
      return done.error();
    }
    return tx.insert(audit_row(services.context, caller, action, id));
  });
  return written ? read_one(services, caller, id) : refuse(written.error());
}

net::ApiResponse set_state(Services& services, const Caller& caller, const std::string& id,
                           const char* state, const char* action) {
  return change_worker(services, caller, id, action, [&](store::Tx& tx, const store::WorkerRow&) {
    return tx.set_worker_state(id, state);
  });
}

/// `{"deadline_seconds"?}`: nothing new from now on; what runs then is stopped. Without a deadline
/// the drain lasts until the last sandbox has ended by itself.
net::ApiResponse drain(Services& services, const Caller& caller, const net::ApiRequest& request) {
  const auto body = body_of(request);
  if (!body) {
    return refuse(body.error());
  }
  json::Reader reader(*body, "");
  const auto seconds = reader.optional_int("deadline_seconds", 0, SandboxSpec::kMaxTimeout.count());
  if (auto status = reader.finish(); !status) {
    return refuse(status.error());
  }
  std::optional<WallTime> until;
  if (seconds) {
    until = services.context.clock.now() + std::chrono::seconds(*seconds);
  }
  const std::string& id = request.params[0];
  return change_worker(services, caller, id, "worker.drain",
                       [&](store::Tx& tx, const store::WorkerRow&) {
                         return tx.set_worker_state(id, "draining", until);
                       });
}

/// `{"taints": [...]}` replaces the list: only creates that tolerate each of them are placed here.
net::ApiResponse set_taints(Services& services, const Caller& caller,
                            const net::ApiRequest& request) {
  const auto body = body_of(request);
  if (!body) {
    return refuse(body.error());
  }
  json::Reader reader(*body, "");
  const auto taints =
      reader.optional_strings("taints", SandboxSpec::kMaxTolerations, SandboxSpec::kMaxTaintBytes);
  if (!taints) {
    reader.refuse("taints", "is required; an empty list lifts all taints");
  } else if (const auto bad = std::ranges::find_if_not(*taints, is_taint); bad != taints->end()) {
    reader.refuse("taints", quoted(*bad) +
                                " must be 1 to 64 letters, digits, `.`, `_`, `-`, `/` "
                                "or `=`, the first one a letter or a digit");
  }
  if (auto status = reader.finish(); !status) {
    return refuse(status.error());
  }
  const std::string& id = request.params[0];
  return change_worker(
      services, caller, id, "worker.taint", [&](store::Tx& tx, const store::WorkerRow&) {
        return tx.set_worker_taints(
            id, json::dump(json::Value(json::Array(taints->begin(), taints->end()))));
      });
}

net::ApiResponse remove(Services& services, const Caller& caller, const std::string& id) {
  std::vector<store::SandboxRow> lost;
  const Status written = services.context.store.write([&](store::Tx& tx) -> Status {
    auto row = find_changeable(tx, caller, id);
    if (!row) {
      return row.error();
    }
    auto ended = request_worker_removal(services.context, tx, caller, *row);
    if (!ended) {
      return ended.error();
    }
    lost = std::move(*ended);
    return {};
  });
  if (!written) {
    return refuse(written.error());
  }
  std::vector<std::string> orders;
  for (const store::SandboxRow& row : lost) {
    services.deliverer.tell(row);
    const auto sandbox = SandboxId::parse(row.id);
    const auto tenant = TenantId::parse(row.tenant);
    if (sandbox && tenant) {
      orders.push_back(
          stray_order({0, wire::DeliveryKind::kRemove, *sandbox, *tenant, row.generation}).body);
    }
  }
  services.fleet.dismiss(id, std::move(orders));
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
  api.on("POST", "/v1/workers/{id}/drain",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(drain(services, caller, request));
         });
  api.on("PUT", "/v1/workers/{id}/taints",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(set_taints(services, caller, request));
         });
  api.on("DELETE", "/v1/workers/{id}",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(remove(services, caller, request.params[0]));
         });
}

}  // namespace sandboxkit::control
