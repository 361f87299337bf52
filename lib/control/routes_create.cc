#include "base/random.h"
#include "base/text.h"
#include "control/api.h"
#include "control/create.h"
#include "control/egress_change.h"
#include "control/secrets.h"
#include "wire/unicode_names.h"

#include <algorithm>
#include <memory>
#include <utility>

/// `POST /v1/sandboxes`: decide, then wait without a thread until it runs.
namespace sandboxkit::control {
namespace {

constexpr std::size_t kIdChars = 20;
constexpr std::size_t kMaxKeyBytes = 128;

/// The idempotency key; empty when there is none.
Result<std::string> idempotency_key(const wire::Headers& headers) {
  const std::string* field = headers.find("Idempotency-Key");
  if (field == nullptr) {
    return std::string();
  }
  const bool printable = std::ranges::all_of(*field, [](char c) { return c >= 0x20 && c < 0x7f; });
  if (field->empty() || field->size() > kMaxKeyBytes || !printable ||
      headers.count("Idempotency-Key") > 1) {
    return Error{ErrorCode::kInvalidArgument, "the key must be 1 to 128 printable characters",
                 "invalid_argument", "Idempotency-Key"};
  }
  return *field;
}

/// Whether the caller waits for the sandbox to run.
Result<bool> wants_to_wait(const net::ApiRequest& request) {
  const auto wait = request.query_value("wait");
  if (!wait || *wait == "true") {
    return true;
  }
  if (*wait == "false") {
    return false;
  }
  return Error{ErrorCode::kInvalidArgument, "wait must be `true` or `false`", "invalid_argument",
               "wait"};
}

Result<CreateOrder> order_from(const Context& context, const Caller& caller,
                               const net::ApiRequest& request) {
  auto tenant = TenantId::parse(caller.tenant);
  if (!tenant) {
    return tenant.error();
  }
  auto key = idempotency_key(request.headers);
  if (!key) {
    return key.error();
  }
  const auto given = body_of(request);
  if (!given) {
    return given.error();
  }
  const auto body = with_recorded_egress(context.store, caller, *given);
  if (!body) {
    return body.error();
  }
  const auto ascii = wire::with_ascii_egress(*body);
  if (!ascii) {
    return ascii.error();
  }
  auto spec = wire::spec_from_json(*ascii);
  if (!spec) {
    return spec.error();
  }
  if (!spec->secrets.empty() && context.secrets_key == nullptr) {
    return Error{ErrorCode::kConflict,
                 "this controller keeps no secrets: its option `secrets_key_file` is not set",
                 kSecretsUnavailable, "secrets"};
  }
  return CreateOrder{caller,
                     std::move(*tenant),
                     std::move(*spec),
                     "i" + system_random().text(kIdChars, kBase36),
                     std::move(*key),
                     request_digest(*given, context.secrets_key),
                     system_random().next_u64()};
}

net::ApiResponse timed_out(const std::string& sandbox) {
  return refuse(kCreateTimeout,
                "the sandbox did not run in time and is being removed; try again later",
                {{"sandbox", sandbox}});
}

/// The answer for a row that is settled: it runs, or it says why not.
net::ApiResponse settled_answer(const store::SandboxRow& row, int status_when_running) {
  if (row.state == "running" || row.state == "paused") {
    return json_answer(status_when_running, sandbox_view(row));
  }
  if (row.reason.starts_with(kCreateTimeout)) {
    return timed_out(row.id);
  }
  return refuse_ended(row);
}

Waiters::Wait wait_for_running(Services& services, int status, const net::ApiResponder& answer,
                               const std::string& tenant, const std::string& id) {
  Waiters::Wait wait;
  wait.done = [](const store::SandboxRow& row) { return !is_waiting_to_run(row.state); };
  wait.on_done = [answer, status](const store::SandboxRow& row) {
    answer(settled_answer(row, status));
  };
  wait.on_shutdown = [answer] {
    answer(refuse("overloaded", "the controller is stopping; the create goes on"));
  };
  wait.on_timeout = [&services, answer, status, tenant, id] {
    const auto give_up = [&services, answer, status, tenant, id] {
      const auto aborted = abort_create(services.context, tenant, id);
      if (!aborted) {
        answer(refuse(aborted.error()));
        return;
      }
      answer(settled_answer(*aborted, status));
      services.deliverer.wake(aborted->worker);
    };
    if (!services.context.pool.post(give_up)) {
      answer(timed_out(id));  // The sweep takes it back.
    }
  };
  return wait;
}

void answer_existing(Services& services, const store::SandboxRow& row, bool wait,
                     const net::ApiResponder& answer) {
  if (!is_waiting_to_run(row.state)) {
    return answer(settled_answer(row, 200));
  }
  if (!wait) {
    return answer(json_answer(202, sandbox_view(row)));
  }
  const auto ticket =
      services.waiters.add(row.id, services.context.config.create_wait,
                           wait_for_running(services, 200, answer, row.tenant, row.id));
  if (ticket == 0) {
    return answer(refuse("overloaded", "too many calls wait already; try again later"));
  }
  // It may have been settled between the decision and the wait.
  const Status ignored = services.context.store.read([&](store::Tx& tx) -> Status {
    const auto found = tx.sandbox(row.tenant, row.id);
    if (found && *found) {
      services.waiters.tell(row.id, **found);
    }
    return {};
  });
  static_cast<void>(ignored);
}

void create_and_wait(Services& services, const CreateOrder& order,
                     const net::ApiResponder& answer) {
  // The wait stands before the row does, so no change of it can be missed.
  const auto ticket =
      services.waiters.add(order.id, services.context.config.create_wait,
                           wait_for_running(services, 201, answer, order.caller.tenant, order.id));
  if (ticket == 0) {
    return answer(refuse("overloaded", "too many calls wait already; try again later"));
  }
  const auto decision = decide_create(services.context, order);
  if (decision && !decision->refusal && !decision->existing) {
    services.deliverer.wake(decision->row.worker);
    return;
  }
  if (!services.waiters.cancel(ticket)) {
    return;  // Answered already: the controller stops.
  }
  if (!decision) {
    return answer(refuse(decision.error()));
  }
  if (decision->refusal) {
    return answer(*decision->refusal);
  }
  answer_existing(services, decision->row, true, answer);
}

void create(Services& services, const Caller& caller, const net::ApiRequest& request,
            const net::ApiResponder& answer) {
  const auto wait = wants_to_wait(request);
  if (!wait) {
    return answer(refuse(wait.error()));
  }
  const auto order = order_from(services.context, caller, request);
  if (!order) {
    return answer(refuse(order.error()));
  }
  if (*wait) {
    return create_and_wait(services, *order, answer);
  }
  const auto decision = decide_create(services.context, *order);
  if (!decision) {
    return answer(refuse(decision.error()));
  }
  if (decision->refusal) {
    return answer(*decision->refusal);
  }
  if (decision->existing) {
    return answer_existing(services, decision->row, false, answer);
  }
  services.deliverer.wake(decision->row.worker);
  answer(json_answer(202, sandbox_view(decision->row)));
}

}  // namespace

void add_create_route(Api& api, Services& services) {
  api.on(
      "POST", "/v1/sandboxes",
      [&services](const Caller& caller, const net::ApiRequest& request,
                  const net::ApiResponder& answer) { create(services, caller, request, answer); });
}

}  // namespace sandboxkit::control
