#include "base/random.h"
#include "base/text.h"
#include "control/api.h"
#include "control/find.h"
#include "store/credentials.h"

#include <chrono>
#include <optional>
#include <utility>

/// Tokens that open one sandbox: for an agent that is to have that one and nothing else.
namespace sandboxkit::control {
namespace {

constexpr std::size_t kMaxNameBytes = 128;
constexpr std::int64_t kMaxSeconds = std::int64_t{366} * 24 * 3600;
constexpr std::size_t kMaxTokens = 100;

using Answer = const net::ApiResponder&;
using Request = const net::ApiRequest&;

Status read_token(const json::Value& body, store::CredentialRow& row) {
  json::Reader reader(body, "");
  row.name = reader.optional_string("name", kMaxNameBytes).value_or("");
  if (has_control_characters(row.name)) {
    reader.refuse("name", "name must not have control characters");
  }
  if (const auto seconds = reader.optional_int("ttl_seconds", 1, kMaxSeconds)) {
    row.expires = row.created + std::chrono::seconds(*seconds);
  }
  return reader.finish();
}

/// Inside of one write. `refusal` is set when there is nothing to open, or too many open it.
Status write_token(Services& services, const Caller& caller, const std::string& id_or_name,
                   store::CredentialRow& row, std::optional<net::ApiResponse>& refusal) {
  return services.context.store.write([&](store::Tx& tx) -> Status {
    refusal.reset();
    const auto sandbox = find_sandbox(tx, caller, id_or_name);
    if (!sandbox) {
      return sandbox.error();
    }
    if (is_ended(sandbox->state)) {
      refusal = refuse_ended(*sandbox);
      return {};
    }
    const auto others = tx.sandbox_tokens(caller.tenant, sandbox->id);
    if (!others) {
      return others.error();
    }
    if (others->size() >= kMaxTokens) {
      refusal =
          refuse("concurrency_limit", "the sandbox has as many tokens as it may have; revoke one",
                 {{"limit", std::int64_t{kMaxTokens}},
                  {"used", static_cast<std::int64_t>(others->size())}});
      return {};
    }
    row.sandbox = sandbox->id;
    if (auto inserted = tx.insert(row); !inserted) {
      return inserted;
    }
    return tx.insert(audit_row(services.context, caller, "sandbox_token.mint", row.sandbox));
  });
}

net::ApiResponse mint(Services& services, const Caller& caller, Request request) {
  const auto body = body_of(request);
  if (!body) {
    return refuse(body.error());
  }
  const auto made = store::make_credential("sk", system_random());
  store::CredentialRow row{made.name.id, made.name.kind, made.secret_hash};
  row.tenant = caller.tenant;
  row.role = "sandbox";
  row.created = services.context.clock.now();
  if (auto read = read_token(*body, row); !read) {
    return refuse(read.error());
  }
  std::optional<net::ApiResponse> refusal;
  const Status written = write_token(services, caller, request.params[0], row, refusal);
  if (!written) {
    return refuse(written.error());
  }
  if (refusal) {
    return *refusal;
  }
  json::Object view = *sandbox_token_view(row).as_object();
  view.emplace_back("token", made.text);
  return json_answer(201, json::Value(std::move(view)));
}

net::ApiResponse list(Services& services, const Caller& caller, Request request) {
  json::Array views;
  const Status read = services.context.store.read([&](store::Tx& tx) -> Status {
    const auto sandbox = find_sandbox(tx, caller, request.params[0]);
    if (!sandbox) {
      return sandbox.error();
    }
    auto rows = tx.sandbox_tokens(caller.tenant, sandbox->id);
    if (!rows) {
      return rows.error();
    }
    for (const store::CredentialRow& row : *rows) {
      views.push_back(sandbox_token_view(row));
    }
    return {};
  });
  return read ? json_answer(200, json::Object{{"tokens", std::move(views)}}) : refuse(read.error());
}

net::ApiResponse revoke(Services& services, const Caller& caller, Request request) {
  const Status written = services.context.store.write([&](store::Tx& tx) -> Status {
    const auto sandbox = find_sandbox(tx, caller, request.params[0]);
    if (!sandbox) {
      return sandbox.error();
    }
    auto done = tx.revoke_sandbox_token(caller.tenant, sandbox->id, request.params[1],
                                        services.context.clock.now());
    if (!done) {
      return done.error();
    }
    if (!*done) {
      return Error{ErrorCode::kNotFound, "the sandbox has no such token", "token_not_found"};
    }
    return tx.insert(
        audit_row(services.context, caller, "sandbox_token.revoke", request.params[1]));
  });
  net::ApiResponse response;
  response.status = 204;
  return written ? response : refuse(written.error());
}

}  // namespace

void add_sandbox_token_routes(Api& api, Services& services) {
  const char* const all = "/v1/sandboxes/{id}/tokens";
  api.on("POST", all, [&services](const Caller& caller, Request request, Answer answer) {
    answer(mint(services, caller, request));
  });
  api.on("GET", all, [&services](const Caller& caller, Request request, Answer answer) {
    answer(list(services, caller, request));
  });
  api.on("DELETE", "/v1/sandboxes/{id}/tokens/{token}",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(revoke(services, caller, request));
         });
}

}  // namespace sandboxkit::control
