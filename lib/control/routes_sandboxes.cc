#include "base/fault_point.h"
#include "base/text.h"
#include "control/api.h"
#include "control/find.h"
#include "control/requests.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

/// Sandboxes after their creation: look at, delete, renew, and what their workers know of them.
namespace sandboxkit::control {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kDefaultPage = 100;
constexpr std::uint64_t kMaxPage = 500;
constexpr milliseconds kDeleteWait{30'000};
constexpr milliseconds kRenewWait{10'000};
constexpr milliseconds kReportWait{10'000};

Error invalid(const char* field, const char* message) {
  return Error{ErrorCode::kInvalidArgument, message, "invalid_argument", field};
}

Result<store::SandboxQuery> query_from(const Caller& caller, const net::ApiRequest& request) {
  store::SandboxQuery query{caller.tenant, {}, {}, kDefaultPage};
  if (const auto states = request.query_value("state"); states && !states->empty()) {
    for (const std::string_view state : split(*states, ',')) {
      if (!sandbox_state_from(state)) {
        return invalid("state", "state must be a list of states such as `running,stopped`");
      }
      query.states.emplace_back(state);
    }
  }
  if (const auto limit = request.query_value("limit")) {
    const auto number = parse_decimal(*limit, kMaxPage);
    if (!number || *number == 0) {
      return invalid("limit", "limit must be 1 to 500");
    }
    query.limit = *number;
  }
  query.after = request.query_value("after").value_or("");
  return query;
}

net::ApiResponse list(Services& services, const Caller& caller, const net::ApiRequest& request) {
  auto query = query_from(caller, request);
  if (!query) {
    return refuse(query.error());
  }
  const std::size_t limit = query->limit;
  query->limit = limit + 1;  // One more tells whether there is a next page.
  std::vector<store::SandboxRow> rows;
  const Status read = services.context.store.read([&](store::Tx& tx) -> Status {
    auto found = tx.sandboxes(*query);
    if (!found) {
      return found.error();
    }
    rows = std::move(*found);
    return {};
  });
  if (!read) {
    return refuse(read.error());
  }
  json::Array views;
  for (std::size_t i = 0; i < std::min(limit, rows.size()); ++i) {
    views.push_back(sandbox_view(rows[i]));
  }
  const bool more = rows.size() > limit;
  return json_answer(
      200, json::Object{{"sandboxes", std::move(views)},
                        {"next", more ? json::Value(rows[limit - 1].id) : json::Value(nullptr)}});
}

net::ApiResponse read_one(Services& services, const Caller& caller,
                          const net::ApiRequest& request) {
  const auto row = find_sandbox(services.context.store, caller, request.params[0]);
  return row ? json_answer(200, sandbox_view(*row)) : refuse(row.error());
}

/// An API answer with no body.
net::ApiResponse no_content() {
  net::ApiResponse response;
  response.status = 204;
  return response;
}

Status write_delete(Services& services, const Caller& caller, store::SandboxRow& row) {
  return services.context.store.write(
      [&](store::Tx& tx) { return request_delete(services.context, tx, caller, row); });
}

void remove(Services& services, const Caller& caller, const net::ApiRequest& request,
            const net::ApiResponder& answer) {
  auto row = find_sandbox(services.context.store, caller, request.params[0]);
  if (!row) {
    return answer(refuse(row.error()));
  }
  const auto recorded = [answer, row = *row] {
    store::SandboxRow stopping = row;
    stopping.desired = "stopped";
    stopping.state = is_ended(row.state) ? row.state : "stopping";
    answer(json_answer(202, sandbox_view(stopping)));
  };
  Waiters::Wait wait;
  wait.done = [](const store::SandboxRow& changed) { return is_ended(changed.state); };
  wait.on_done = [answer](const store::SandboxRow&) { answer(no_content()); };
  wait.on_timeout = recorded;
  wait.on_shutdown = recorded;
  const auto ticket = services.waiters.add(row->id, kDeleteWait, std::move(wait));
  const Status written = write_delete(services, caller, *row);
  SANDBOXKIT_FAULT_POINT("control.delete.committed");
  // The row may say by now that nobody need wait: it is gone, or its worker is away.
  const bool waits = written && row->state == "stopping" && ticket != 0 &&
                     services.context.roster.hearing(row->worker).online;
  if (written) {
    services.deliverer.wake(row->worker);
    services.deliverer.tell(*row);
  }
  if (waits || (ticket != 0 && !services.waiters.cancel(ticket))) {
    return;
  }
  if (!written) {
    return answer(refuse(written.error()));
  }
  answer(row->state == "stopping" ? json_answer(202, sandbox_view(*row)) : no_content());
}

Result<std::chrono::seconds> timeout_from(const net::ApiRequest& request) {
  auto body = body_of(request);
  if (!body) {
    return body.error();
  }
  json::Reader reader(*body, "");
  const std::int64_t seconds =
      reader.required_int("timeout_seconds", 1, SandboxSpec::kMaxTimeout.count());
  if (auto status = reader.finish(); !status) {
    return status.error();
  }
  return std::chrono::seconds(seconds);
}

Status write_renewal(Services& services, const Caller& caller, WallTime expires,
                     store::SandboxRow& row, std::optional<net::ApiResponse>& refusal) {
  return services.context.store.write([&](store::Tx& tx) {
    return request_renewal(services.context, tx, caller, expires, row, refusal);
  });
}

/// Waits until the worker acknowledged exactly this end, or the sandbox ended first.
Waiters::Wait wait_for_renewal(store::SandboxRow row, const net::ApiResponder& answer) {
  Waiters::Wait wait;
  wait.done = [expires = row.expires](const store::SandboxRow& changed) {
    return changed.state != "running" || changed.expires == expires;
  };
  wait.on_done = [answer](const store::SandboxRow& changed) {
    answer(changed.state == "running" ? json_answer(200, sandbox_view(changed))
                                      : refuse_ended(changed));
  };
  const auto recorded = [answer, row] { answer(json_answer(202, sandbox_view(row))); };
  wait.on_timeout = recorded;
  wait.on_shutdown = recorded;
  return wait;
}

void renew(Services& services, const Caller& caller, const net::ApiRequest& request,
           const net::ApiResponder& answer) {
  const auto timeout = timeout_from(request);
  if (!timeout) {
    return answer(refuse(timeout.error()));
  }
  auto row = find_sandbox(services.context.store, caller, request.params[0]);
  if (!row) {
    return answer(refuse(row.error()));
  }
  const WallTime expires = services.context.clock.now() + *timeout;
  row->expires = expires;
  const auto ticket =
      services.waiters.add(Waiters::renew_key(row->id), kRenewWait, wait_for_renewal(*row, answer));
  std::optional<net::ApiResponse> refusal;
  const Status written = write_renewal(services, caller, expires, *row, refusal);
  SANDBOXKIT_FAULT_POINT("control.renew.committed");
  const bool recorded = written && !refusal;
  if (recorded) {
    services.deliverer.wake(row->worker);
  }
  const bool waits = recorded && ticket != 0 && services.context.roster.hearing(row->worker).online;
  if (waits || (ticket != 0 && !services.waiters.cancel(ticket))) {
    return;
  }
  if (!written) {
    return answer(refuse(written.error()));
  }
  answer(refusal ? *refusal : json_answer(202, sandbox_view(*row)));
}

/// Passes on what a worker says of one of its sandboxes, read and written anew: a worker's bytes
/// do not reach a client unread.
template <typename Read>
void report(Services& services, const Caller& caller, const net::ApiRequest& request,
            const net::ApiResponder& answer, const char* what, Read read) {
  const auto row = find_sandbox(services.context.store, caller, request.params[0]);
  if (!row) {
    return answer(refuse(row.error()));
  }
  if (row->state != "running" && row->state != "paused") {
    return answer(refuse_ended(*row));
  }
  const std::string path =
      "/v1/sandboxes/" + row->id + "/" + std::to_string(row->generation) + "/" + what;
  services.fleet.call({row->worker, "GET", path, {}, kReportWait, caller.trace},
                      [answer, read](Result<WorkerAnswer> told) {
                        if (!told || told->status != 200) {
                          return answer(refuse(worker_unreachable()));
                        }
                        const auto value = json::parse(told->body);
                        answer(value ? read(*value) : refuse(worker_unreachable()));
                      });
}

net::ApiResponse denied_answer(const json::Value& value) {
  const auto denied = wire::denied_from_json(value);
  return denied ? json_answer(200, wire::denied_to_json(*denied)) : refuse(worker_unreachable());
}

net::ApiResponse stats_answer(const json::Value& value) {
  const auto stats = wire::stats_from_json(value);
  return stats ? json_answer(200, wire::to_json(*stats)) : refuse(worker_unreachable());
}

}  // namespace

void add_sandbox_routes(Api& api, Services& services) {
  using Answer = const net::ApiResponder&;
  using Request = const net::ApiRequest&;
  api.on("GET", "/v1/sandboxes", [&services](const Caller& caller, Request request, Answer answer) {
    answer(list(services, caller, request));
  });
  api.on("GET", "/v1/sandboxes/{id}",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(read_one(services, caller, request));
         });
  api.on("DELETE", "/v1/sandboxes/{id}",
         [&services](const Caller& caller, Request request, Answer answer) {
           remove(services, caller, request, answer);
         });
  api.on("POST", "/v1/sandboxes/{id}/timeout",
         [&services](const Caller& caller, Request request, Answer answer) {
           renew(services, caller, request, answer);
         });
  api.on("GET", "/v1/sandboxes/{id}/egress/denied",
         [&services](const Caller& caller, Request request, Answer answer) {
           report(services, caller, request, answer, "denied", denied_answer);
         });
  api.on("GET", "/v1/sandboxes/{id}/stats",
         [&services](const Caller& caller, Request request, Answer answer) {
           report(services, caller, request, answer, "stats", stats_answer);
         });
}

}  // namespace sandboxkit::control
