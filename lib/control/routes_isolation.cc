#include "base/text.h"
#include "control/api.h"
#include "control/find.h"
#include "control/secrets.h"
#include "control/sweep.h"
#include "policy/isolation_card.h"

#include <algorithm>
#include <optional>
#include <utility>

/// `GET /v1/sandboxes/{id}/isolation`: the isolation card, from rows alone. No worker is asked, so
/// it is there for sandboxes that ended as well.
namespace sandboxkit::control {
namespace {

/// What the store has of one sandbox and of what concerns it.
struct CardRows {
  store::SandboxRow sandbox;
  std::vector<store::SecretRow> secrets;
  std::optional<store::WorkerRow> worker;
  std::vector<store::CredentialRow> tokens;
};

Result<CardRows> rows_of(store::Tx& tx, const Caller& caller, const std::string& id_or_name) {
  auto sandbox = find_sandbox(tx, caller, id_or_name);
  if (!sandbox) {
    return sandbox.error();
  }
  auto secrets = tx.secrets(sandbox->id);
  auto worker = tx.visible_worker(caller.tenant, sandbox->worker);
  auto tokens = tx.sandbox_tokens(caller.tenant, sandbox->id);
  for (const Error* error :
       {secrets ? nullptr : &secrets.error(), worker ? nullptr : &worker.error(),
        tokens ? nullptr : &tokens.error()}) {
    if (error != nullptr) {
      return *error;
    }
  }
  return CardRows{std::move(*sandbox), std::move(*secrets), std::move(*worker), std::move(*tokens)};
}

/// The spec of a row, which no row has secrets in.
Result<SandboxSpec> stored_spec(const CardRows& rows) {
  const auto value = json::parse(rows.sandbox.spec);
  auto spec = value ? wire::spec_from_json(*value) : Result<SandboxSpec>(value.error());
  if (!spec) {
    return Error{ErrorCode::kInternal, "a stored spec cannot be read"};
  }
  for (const store::SecretRow& each : rows.secrets) {
    spec->secrets.push_back(secret_of(each));
  }
  return spec;
}

Status read_policy(const std::string& text, std::optional<EgressPolicy>& policy) {
  if (text.empty()) {
    return {};
  }
  auto stored = stored_policy(text);
  if (!stored) {
    return stored.error();
  }
  policy = std::move(*stored);
  return {};
}

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  const auto value = json::parse(list);
  const json::Array* items = value ? value->as_array() : nullptr;
  for (const json::Value& item : items != nullptr ? *items : json::Array()) {
    if (const std::string* name = item.as_string()) {
      names.push_back(*name);
    }
  }
  return names;
}

policy::CardWorker card_worker(const store::WorkerRow& row, const Hearing& hearing) {
  policy::CardWorker worker{row.tenant.empty(), names_in(row.capabilities)};
  // One that complains of its engine repeats what it read before.
  if (row.problem.empty()) {
    worker.reported = std::max(row.last_heartbeat, hearing.heard);
  }
  return worker;
}

std::vector<std::string> live_tokens(const std::vector<store::CredentialRow>& rows, WallTime now) {
  std::vector<std::string> ids;
  for (const store::CredentialRow& row : rows) {
    if (!row.expires || *row.expires > now) {
      ids.push_back(row.id);
    }
  }
  return ids;
}

Result<policy::CardFacts> facts_of(const Context& context, const Caller& caller,
                                   const CardRows& rows) {
  const store::SandboxRow& row = rows.sandbox;
  auto spec = stored_spec(rows);
  const auto state = sandbox_state_from(row.state);
  if (!spec || !state) {
    return spec ? state.error() : spec.error();
  }
  policy::CardFacts facts{.spec = std::move(*spec), .workspace = row.tenant, .state = *state};
  facts.reason = row.reason;
  facts.expires = row.expires;
  facts.started = row.started;
  facts.ended = row.ended;
  facts.narrowed_in_force = row.narrowing_state == "in_force";
  facts.policy_hash = facts.narrowed_in_force ? row.narrowing_hash : row.policy_hash;
  facts.structure = row.structure;
  facts.record_kept = kTombstones;
  facts.now = context.clock.now();
  for (const Status& read :
       {read_policy(row.narrowing, facts.narrowed), read_policy(row.next_egress, facts.recorded)}) {
    if (!read) {
      return read.error();
    }
  }
  if (rows.worker) {
    facts.worker = card_worker(*rows.worker, context.roster.hearing(row.worker));
  }
  // Whoever holds a token of the sandbox may not list the others.
  if (caller.role != policy::Role::kSandbox) {
    facts.tokens = live_tokens(rows.tokens, facts.now);
  }
  return facts;
}

struct DetailValue {
  json::Value operator()(const std::vector<std::string>& list) const {
    return json::Array(list.begin(), list.end());
  }
  json::Value operator()(const auto& value) const { return value; }
};

json::Value line_view(const policy::CardLine& line) {
  json::Object details;
  for (const policy::CardDetail& detail : line.details) {
    details.emplace_back(detail.name, std::visit(DetailValue{}, detail.value));
  }
  json::Object view{{"topic", policy::name_of(line.topic)},
                    {"statement", line.statement},
                    {"known", policy::name_of(line.known)}};
  if (line.at) {
    view.emplace_back("at", to_rfc3339(*line.at));
  }
  view.emplace_back("details", std::move(details));
  return view;
}

json::Value card_view(const store::SandboxRow& row, const policy::CardFacts& facts) {
  json::Array lines;
  for (const policy::CardLine& line : policy::isolation_card(facts)) {
    lines.push_back(line_view(line));
  }
  return json::Object{{"sandbox", row.id},
                      {"state", row.state},
                      {"generation", row.generation},
                      {"worker", row.worker},
                      {"composed_at", to_rfc3339(facts.now)},
                      {"lines", std::move(lines)}};
}

net::ApiResponse show_card(Services& services, const Caller& caller,
                           const net::ApiRequest& request) {
  std::optional<CardRows> rows;
  const Status read = services.context.store.read([&](store::Tx& tx) -> Status {
    auto found = rows_of(tx, caller, request.params[0]);
    if (!found) {
      return found.error();
    }
    rows = std::move(*found);
    return {};
  });
  if (!read) {
    return refuse(read.error());
  }
  const auto facts = facts_of(services.context, caller, *rows);
  return facts ? json_answer(200, card_view(rows->sandbox, *facts)) : refuse(facts.error());
}

}  // namespace

void add_isolation_route(Api& api, Services& services) {
  api.on("GET", "/v1/sandboxes/{id}/isolation",
         [&services](const Caller& caller, const net::ApiRequest& request,
                     const net::ApiResponder& answer) {
           answer(show_card(services, caller, request));
         });
}

}  // namespace sandboxkit::control
