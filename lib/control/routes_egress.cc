#include "control/api.h"
#include "control/egress_change.h"
#include "control/find.h"

#include <optional>
#include <utility>

/// `PUT /v1/sandboxes/{id}/egress`: what the next creation may reach, and less from now on.
namespace sandboxkit::control {
namespace {

constexpr std::chrono::milliseconds kNarrowWait{10'000};

/// 200 once what was asked for holds, 202 while it is only written down.
net::ApiResponse change_answer(const store::SandboxRow& row, bool now) {
  const bool in_force = now && row.narrowing_state != "pending";
  json::Object body{{"applies", now ? "now" : "next_creation"}};
  if (now) {
    body.emplace_back("applied", in_force);
  }
  const json::Value view = sandbox_view(row);
  for (const char* member :
       {"id", "egress", "policy_hash", "egress_narrowing", "egress_recorded"}) {
    body.emplace_back(member, *view.find(member));
  }
  return json_answer(in_force ? 200 : 202, json::Value(std::move(body)));
}

Waiters::Wait wait_for_narrowing(store::SandboxRow row, const net::ApiResponder& answer) {
  Waiters::Wait wait;
  wait.done = [hash = row.narrowing_hash](const store::SandboxRow& changed) {
    return changed.state != "running" ||
           (changed.narrowing_hash == hash && changed.narrowing_state == "in_force");
  };
  wait.on_done = [answer](const store::SandboxRow& changed) {
    answer(changed.state == "running" ? change_answer(changed, true) : refuse_ended(changed));
  };
  const auto recorded = [answer, row] { answer(change_answer(row, true)); };
  wait.on_timeout = recorded;
  wait.on_shutdown = recorded;
  return wait;
}

/// The narrowing is ordered: waits a little for the worker to say that it is in force.
void await_narrowing(Services& services, const store::SandboxRow& row,
                     const net::ApiResponder& answer) {
  const bool online = services.context.roster.hearing(row.worker).online;
  const auto ticket = online ? services.waiters.add(Waiters::narrow_key(row.id), kNarrowWait,
                                                    wait_for_narrowing(row, answer))
                             : Waiters::Ticket{0};
  if (ticket == 0) {
    return answer(change_answer(row, true));
  }
  // The worker may have answered between the transaction and the wait.
  const Status ignored = services.context.store.read([&](store::Tx& tx) -> Status {
    const auto found = tx.sandbox(row.tenant, row.id);
    if (found && *found) {
      services.waiters.tell(Waiters::narrow_key(row.id), **found);
    }
    return {};
  });
  static_cast<void>(ignored);
}

void change_egress(Services& services, const Caller& caller, const net::ApiRequest& request,
                   const net::ApiResponder& answer) {
  const auto body = body_of(request);
  const auto change = body ? egress_change_from(*body) : Result<EgressChange>(body.error());
  if (!change) {
    return answer(refuse(change.error()));
  }
  auto row = find_sandbox(services.context.store, caller, request.params[0]);
  if (!row) {
    return answer(refuse(row.error()));
  }
  std::optional<net::ApiResponse> refusal;
  const Status written = services.context.store.write([&](store::Tx& tx) {
    return request_egress(services.context, tx, caller, *change, *row, refusal);
  });
  if (!written || refusal) {
    return answer(refusal ? *refusal : refuse(written.error()));
  }
  services.deliverer.wake(row->worker);
  if (change->now && row->narrowing_state == "pending" && row->state == "running") {
    return await_narrowing(services, *row, answer);
  }
  answer(change_answer(*row, change->now));
}

}  // namespace

void add_egress_routes(Api& api, Services& services) {
  api.on("PUT", "/v1/sandboxes/{id}/egress",
         [&services](const Caller& caller, const net::ApiRequest& request,
                     const net::ApiResponder& answer) {
           change_egress(services, caller, request, answer);
         });
}

}  // namespace sandboxkit::control
