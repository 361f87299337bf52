#include "base/fault_point.h"
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

struct Holder {
  std::string tenant;
  std::string worker;
};

store::CredentialRow worker_credential(const Context& context, const store::NewCredential& made,
                                       const Holder& holder) {
  store::CredentialRow row{made.name.id, made.name.kind, made.secret_hash};
  row.tenant = holder.tenant;
  row.worker = holder.worker;
  row.created = context.clock.now();
  row.expires = row.created + context.config.worker_credential_ttl;
  return row;
}

/// The next credential of a worker that asked for one. The old one counts until the new one is
/// used, so a lost answer costs nothing: the worker asks again, and what was made for it is gone.
Result<std::string> renew_credential(Context& context, const Caller& caller, store::Tx& tx) {
  const auto old = tx.credential(caller.credential);
  if (!old) {
    return old.error();
  }
  if (!*old || (*old)->revoked) {
    // It ended since the caller was looked up: what comes after it must not begin.
    return Error{ErrorCode::kUnauthenticated, "the credential is unknown, expired or revoked",
                 "unauthenticated"};
  }
  const auto made = store::make_credential("wk", system_random());
  auto next = worker_credential(context, made, {caller.tenant, caller.worker});
  next.replaces = caller.credential;
  if (auto inserted = tx.insert_renewal(next); !inserted) {
    return inserted.error();
  }
  return made.text;
}

/// One use of the token, the worker and its credential: all or nothing.
Status write_join(Services& services, const Caller& token, const wire::WorkerFacts& facts,
                  store::WorkerRow& worker, const store::CredentialRow& credential) {
  return services.context.store.write([&](store::Tx& tx) -> Status {
    auto used = tx.use_join_token(token.credential);
    if (!used) {
      return used.error();
    }
    if (!*used) {
      return Error{ErrorCode::kUnauthenticated, "the join token was used up or has expired",
                   "unauthenticated"};
    }
    auto row = tx.credential(token.credential);
    if (!row || !*row) {
      return row ? Status(worker_not_found()) : Status(row.error());
    }
    worker.capability_cap = (*row)->capabilities;
    apply_facts(worker, facts);
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
  const auto made = store::make_credential("wk", system_random());
  const auto credential = worker_credential(services.context, made, {token.tenant, worker.id});
  if (auto written = write_join(services, token, wanted->facts, worker, credential); !written) {
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
net::ApiResponse heartbeat_answer(const Services& services, const std::string& next_credential) {
  const auto interval = std::min(kLongestHeartbeat, services.context.config.unreachable_after / 3);
  return json_answer(200, wire::to_json(wire::HeartbeatAnswer{
                              std::max(interval, std::chrono::milliseconds{1}), next_credential}));
}

/// What one heartbeat brought about.
struct Heard {
  ReportOutcome outcome;
  std::string next_credential;
};

/// Inside of one write.
Result<Heard> take_heartbeat(Context& context, const Caller& caller, const wire::Heartbeat& told,
                             store::Tx& tx) {
  Heard heard;
  auto row = tx.worker(caller.worker);
  if (!row || !*row) {
    return row ? worker_not_found() : row.error();
  }
  if (told.renew && caller.renewal != Caller::Renewal::kNone) {
    auto next = renew_credential(context, caller, tx);
    if (!next) {
      return next.error();
    }
    heard.next_credential = std::move(*next);
  }
  if (caller.renewal == Caller::Renewal::kOnly) {
    return heard;  // What it tells does not count before it shows the new one.
  }
  const WallTime now = context.clock.now();
  apply_facts(**row, told.facts);
  (*row)->last_heartbeat = now;
  if (auto updated = tx.update_heartbeat(**row); !updated) {
    return updated.error();
  }
  auto settled = settle_heartbeat(tx, context.config, caller.worker, told.sandboxes, now);
  if (!settled) {
    return settled.error();
  }
  heard.outcome = std::move(*settled);
  return heard;
}

net::ApiResponse heartbeat(Services& services, const Caller& caller,
                           const net::ApiRequest& request) {
  Roster& roster = services.context.roster;
  const bool counts = caller.renewal != Caller::Renewal::kOnly;
  if (counts) {
    roster.heard(caller.worker);
  }
  const Roster::Note note = roster.note_of(caller.worker, request.body);
  if (caller.renewal == Caller::Renewal::kNone && roster.is_settled(caller.worker, note)) {
    return heartbeat_answer(services, {});
  }
  const auto body = body_of(request, wire::kInventoryLimits);
  const auto told = body ? wire::heartbeat_from_json(*body) : Result<wire::Heartbeat>(body.error());
  if (!told) {
    return refuse(told.error());
  }
  if (!counts && !told->renew) {
    return refuse(Error{ErrorCode::kUnauthenticated,
                        "the credential is past its end; a heartbeat with `renew` gets another",
                        "unauthenticated"});
  }
  Heard heard;
  const Status written = services.context.store.write([&](store::Tx& tx) -> Status {
    auto taken = take_heartbeat(services.context, caller, *told, tx);
    if (!taken) {
      return taken.error();
    }
    heard = std::move(*taken);
    return {};
  });
  if (!written) {
    return refuse(written.error());
  }
  SANDBOXKIT_FAULT_POINT("control.heartbeat.settled");
  for (const store::SandboxRow& row : heard.outcome.changed) {
    services.deliverer.tell(row);
  }
  if (heard.outcome.doubtful) {
    services.deliverer.check_inventory(caller.worker);
  } else if (heard.outcome.changed.empty() && counts) {
    roster.settled(caller.worker, note);
  }
  return heartbeat_answer(services, heard.next_credential);
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
