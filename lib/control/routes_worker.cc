#include "base/random.h"
#include "control/api.h"
#include "control/lifecycle.h"
#include "store/credentials.h"

#include <algorithm>
#include <optional>
#include <utility>

/// What workers themselves call: join and heartbeat. The tunnel is the gateway's.
namespace sandboxkit::control {
namespace {

constexpr std::size_t kWorkerIdChars = 12;
constexpr std::chrono::milliseconds kLongestHeartbeat{10'000};

/// One use of the token, the worker and its credential: all or nothing.
Status write_join(Services& services, const Caller& token, const store::WorkerRow& worker,
                  const store::CredentialRow& credential) {
  return services.context.store.write([&](store::Tx& tx) -> Status {
    auto used = tx.use_join_token(token.credential);
    if (!used) {
      return used.error();
    }
    if (!*used) {
      return Error{ErrorCode::kUnauthenticated, "the join token was used up or has expired",
                   "unauthenticated"};
    }
    if (auto inserted = tx.insert(worker); !inserted) {
      return inserted;
    }
    if (auto inserted = tx.insert(credential); !inserted) {
      return inserted;
    }
    return tx.insert(audit_row(services.context, token, "worker.join", worker.id));
  });
}

net::ApiResponse join(Services& services, const Caller& token, const net::ApiRequest& request) {
  const auto body = body_of(request);
  const auto wanted =
      body ? wire::join_request_from_json(*body) : Result<wire::JoinRequest>(body.error());
  if (!wanted) {
    return refuse(wanted.error());
  }
  if (!token.worker.empty() && wanted->name != token.worker) {
    return refuse(Error{ErrorCode::kInvalidArgument,
                        "the join token is bound to another worker name", "invalid_argument",
                        "name"});
  }
  const WallTime now = services.context.clock.now();
  store::WorkerRow worker{"w-" + system_random().text(kWorkerIdChars, kBase36), token.tenant};
  worker.name = wanted->name.empty() ? worker.id : wanted->name;
  worker.joined = now;
  apply_facts(worker, wanted->facts);
  const auto made = store::make_credential("wk", system_random());
  store::CredentialRow credential{made.name.id, made.name.kind, made.secret_hash};
  credential.tenant = token.tenant;
  credential.worker = worker.id;
  credential.created = now;
  if (auto written = write_join(services, token, worker, credential); !written) {
    return refuse(written.error());
  }
  const auto id = WorkerId::parse(worker.id);
  const auto controller = ControllerId::parse(services.context.controller_id);
  services.context.events.tell(
      {Severity::kInfo, "worker_joined", {}, {{"worker", worker.id}, {"name", worker.name}}});
  return json_answer(201,
                     wire::to_json(wire::JoinAnswer{*id, *controller, token.tenant, made.text}));
}

/// Two may be lost before a worker counts as unreachable.
net::ApiResponse heartbeat_answer(const Services& services) {
  const auto interval = std::min(kLongestHeartbeat, services.context.config.unreachable_after / 3);
  return json_answer(
      200, wire::heartbeat_answer_to_json(std::max(interval, std::chrono::milliseconds{1})));
}

net::ApiResponse heartbeat(Services& services, const Caller& caller,
                           const net::ApiRequest& request) {
  Roster& roster = services.context.roster;
  roster.heard(caller.worker);
  const Roster::Note note = roster.note_of(caller.worker, request.body);
  if (roster.is_settled(caller.worker, note)) {
    return heartbeat_answer(services);
  }
  const auto body = body_of(request, wire::kInventoryLimits);
  const auto told = body ? wire::heartbeat_from_json(*body) : Result<wire::Heartbeat>(body.error());
  if (!told) {
    return refuse(told.error());
  }
  ReportOutcome outcome;
  const Status written = services.context.store.write([&](store::Tx& tx) -> Status {
    const WallTime now = services.context.clock.now();
    auto row = tx.worker(caller.worker);
    if (!row || !*row) {
      return row ? Status(worker_not_found()) : Status(row.error());
    }
    apply_facts(**row, told->facts);
    (*row)->last_heartbeat = now;
    if (auto updated = tx.update_heartbeat(**row); !updated) {
      return updated;
    }
    auto settled =
        settle_heartbeat(tx, services.context.config, caller.worker, told->sandboxes, now);
    if (!settled) {
      return settled.error();
    }
    outcome = std::move(*settled);
    return {};
  });
  if (!written) {
    return refuse(written.error());
  }
  for (const store::SandboxRow& row : outcome.changed) {
    services.deliverer.tell(row);
  }
  if (outcome.doubtful) {
    services.deliverer.check_inventory(caller.worker);
  } else if (outcome.changed.empty()) {
    roster.settled(caller.worker, note);
  }
  return heartbeat_answer(services);
}

}  // namespace

void add_worker_routes(Api& api, Services& services) {
  using Answer = const net::ApiResponder&;
  using Request = const net::ApiRequest&;
  api.on("POST", "/v1/worker/join",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(join(services, caller, request));
         });
  api.on("POST", "/v1/worker/heartbeat",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(heartbeat(services, caller, request));
         });
}

}  // namespace sandboxkit::control
