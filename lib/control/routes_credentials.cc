#include "base/random.h"
#include "base/text.h"
#include "control/api.h"
#include "control/networks.h"
#include "store/credentials.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

/// API keys, join tokens and workspaces: whatever mints a credential.
namespace sandboxkit::control {
namespace {

constexpr std::size_t kMaxNameBytes = 128;
constexpr std::int64_t kMaxUses = 1000;
constexpr std::int64_t kDefaultTokenSeconds = 900;
constexpr std::int64_t kMaxTokenSeconds = 24 * 3600;
constexpr std::int64_t kMaxSandboxLimit = 1'000'000;
constexpr double kMaxCoreLimit = 1e6;
constexpr std::int64_t kMaxMemoryLimitMb = std::int64_t{1} << 40;
constexpr std::int64_t kMaxKeySeconds = std::int64_t{10} * 366 * 24 * 3600;
constexpr std::size_t kMaxListItems = 64;
constexpr std::size_t kMaxCapabilityBytes = 64;
constexpr std::size_t kMaxNetworkBytes = 64;

using Answer = const net::ApiResponder&;
using Request = const net::ApiRequest&;

store::CredentialRow credential_row(const store::NewCredential& made, const std::string& tenant,
                                    WallTime now) {
  store::CredentialRow row{made.name.id, made.name.kind, made.secret_hash};
  row.tenant = tenant;
  row.created = now;
  return row;
}

/// An optional text for people.
std::string name_from(json::Reader& reader) {
  std::string name = reader.optional_string("name", kMaxNameBytes).value_or("");
  if (has_control_characters(name)) {
    reader.refuse("name", "name must not have control characters");
  }
  return name;
}

/// An optional end, counted from the row's `created`.
void read_end(json::Reader& reader, store::CredentialRow& row) {
  if (const auto seconds = reader.optional_int("ttl_seconds", 1, kMaxKeySeconds)) {
    row.expires = row.created + std::chrono::seconds(*seconds);
  }
}

json::Value with_secret(json::Value view, const char* member, const std::string& secret) {
  json::Object object = *view.as_object();
  object.emplace_back(member, secret);
  return object;
}

/// Inserts a credential and its audit line in one transaction.
Status write_credential(Services& services, const Caller& caller, const store::CredentialRow& row,
                        const char* action) {
  return services.context.store.write([&](store::Tx& tx) -> Status {
    if (auto inserted = tx.insert(row); !inserted) {
      return inserted;
    }
    return tx.insert(audit_row(services.context, caller, action, row.id));
  });
}

/// What the body asks of a key, into its row.
Status read_key(const json::Value& body, store::CredentialRow& row) {
  json::Reader reader(body, "");
  row.role = reader.required_string("role", kMaxNameBytes);
  if (reader.ok() && row.role != "owner" && row.role != "member") {
    reader.refuse("role", "role must be `owner` or `member`");
  }
  row.name = name_from(reader);
  row.max_sandboxes = reader.optional_int("max_sandboxes", 0, kMaxSandboxLimit).value_or(-1);
  row.max_cpu_cores = reader.optional_number("max_cpu_cores", 0, kMaxCoreLimit).value_or(-1);
  row.max_memory_mb = reader.optional_int("max_memory_mb", 0, kMaxMemoryLimitMb).value_or(-1);
  read_end(reader, row);
  return reader.finish();
}

net::ApiResponse mint_key(Services& services, const Caller& caller, Request request) {
  const auto body = body_of(request);
  if (!body) {
    return refuse(body.error());
  }
  const auto made = store::make_credential("sk", system_random());
  auto row = credential_row(made, caller.tenant, services.context.clock.now());
  if (auto read = read_key(*body, row); !read) {
    return refuse(read.error());
  }
  const Status written = write_credential(services, caller, row, "key.mint");
  return written ? json_answer(201, with_secret(key_view(row), "key", made.text))
                 : refuse(written.error());
}

net::ApiResponse list_credentials(Services& services, const char* kind, const std::string& tenant,
                                  const char* member,
                                  json::Value (*view)(const store::CredentialRow&)) {
  json::Array views;
  const Status read = services.context.store.read([&](store::Tx& tx) -> Status {
    auto rows = tx.credentials(kind, tenant);
    if (!rows) {
      return rows.error();
    }
    for (const store::CredentialRow& row : *rows) {
      views.push_back(view(row));
    }
    return {};
  });
  return read ? json_answer(200, json::Object{{member, std::move(views)}}) : refuse(read.error());
}

/// Without an owner's key nobody could mint one again: the last one without an end stays.
Status keep_an_owner(store::Tx& tx, const std::string& tenant, const std::string& id) {
  auto rows = tx.credentials("sk", tenant);
  if (!rows) {
    return rows.error();
  }
  const auto is_owner = [](const store::CredentialRow& row) {
    return row.role == "owner" && !row.expires;
  };
  const auto owners = std::ranges::count_if(*rows, is_owner);
  const bool ends_one = std::ranges::any_of(
      *rows, [&](const store::CredentialRow& row) { return row.id == id && is_owner(row); });
  if (ends_one && owners == 1) {
    return Error{ErrorCode::kConflict,
                 "this is the last owner key without an end; mint another one first",
                 "last_owner_key"};
  }
  return {};
}

net::ApiResponse revoke(Services& services, const Caller& caller, const char* kind,
                        const std::string& id, const char* action, const char* not_found) {
  const Status written = services.context.store.write([&](store::Tx& tx) -> Status {
    if (kind == std::string_view("sk")) {
      if (auto kept = keep_an_owner(tx, caller.tenant, id); !kept) {
        return kept;
      }
    }
    auto done = tx.revoke_credential(kind, caller.tenant, id, services.context.clock.now());
    if (!done) {
      return done.error();
    }
    if (!*done) {
      return Error{ErrorCode::kNotFound, "no such credential in this workspace", not_found};
    }
    return tx.insert(audit_row(services.context, caller, action, id));
  });
  if (!written) {
    return refuse(written.error());
  }
  net::ApiResponse response;
  response.status = 204;
  return response;
}

/// An optional list as JSON text; "" when there is none. An empty list lets nothing through, and
/// would only be found out later.
std::string list_from(json::Reader& reader, const char* name, std::size_t max_bytes) {
  const auto items = reader.optional_strings(name, kMaxListItems, max_bytes);
  if (!items) {
    return {};
  }
  if (items->empty()) {
    reader.refuse(name, std::string(name) + " must not be empty; leave it out for all");
  }
  return json::dump(json::Value(json::Array(items->begin(), items->end())));
}

/// Like `list_from`, each item in the spelling that is compared.
std::string networks_from(json::Reader& reader) {
  const std::string given = list_from(reader, "networks", kMaxNetworkBytes);
  const auto items = json::parse(given);
  json::Array networks;
  for (const json::Value& item : items ? *items->as_array() : json::Array()) {
    const auto network = canonical_network(*item.as_string());
    if (!network) {
      reader.refuse("networks",
                    "networks must be blocks such as `10.1.0.0/16` or `fd00::/8`, with "
                    "nothing after their bits");
      return {};
    }
    networks.emplace_back(*network);
  }
  return given.empty() ? std::string() : json::dump(json::Value(std::move(networks)));
}

net::ApiResponse mint_join_token(Services& services, const Caller& caller, Request request) {
  const auto body = body_of(request);
  if (!body) {
    return refuse(body.error());
  }
  json::Reader reader(*body, "");
  const std::string name = name_from(reader);
  const std::int64_t uses = reader.optional_int("max_uses", 1, kMaxUses).value_or(1);
  const std::int64_t seconds =
      reader.optional_int("ttl_seconds", 1, kMaxTokenSeconds).value_or(kDefaultTokenSeconds);
  const std::string capabilities = list_from(reader, "capabilities", kMaxCapabilityBytes);
  const std::string networks = networks_from(reader);
  const auto workspace = reader.optional_string("workspace", TenantId::kMaxBytes);
  if (workspace && *workspace != caller.tenant) {
    reader.refuse("workspace", "a token is minted for the credential's own workspace");
  }
  if (caller.role == policy::Role::kOperator && !workspace) {
    // Unscoped workers serve everybody: that is said, never assumed.
    reader.refuse("workspace",
                  "the operator mints unscoped tokens only; say `\"workspace\": \"\"`");
  }
  if (auto status = reader.finish(); !status) {
    return refuse(status.error());
  }
  const WallTime now = services.context.clock.now();
  const auto made = store::make_credential("jn", system_random());
  auto row = credential_row(made, caller.tenant, now);
  row.worker = name;
  row.uses_left = uses;
  row.capabilities = capabilities;
  row.networks = networks;
  row.expires = now + std::chrono::seconds(seconds);
  const Status written = write_credential(services, caller, row, "join_token.mint");
  return written ? json_answer(201, with_secret(join_token_view(row), "token", made.text))
                 : refuse(written.error());
}

/// The three limits; an absent one is the deployment's default.
void read_limits(json::Reader& reader, store::WorkspaceRow& row) {
  row.max_sandboxes = reader.optional_int("max_sandboxes", 0, kMaxSandboxLimit).value_or(-1);
  row.max_cpu_cores = reader.optional_number("max_cpu_cores", 0, kMaxCoreLimit).value_or(-1);
  row.max_memory_mb = reader.optional_int("max_memory_mb", 0, kMaxMemoryLimitMb).value_or(-1);
}

struct NewWorkspace {
  store::WorkspaceRow row;
  Status status;
};

NewWorkspace workspace_from(const json::Value& body) {
  json::Reader reader(body, "");
  NewWorkspace made;
  made.row.id = reader.required_string("id", TenantId::kMaxBytes);
  made.row.name = name_from(reader);
  read_limits(reader, made.row);
  if (reader.ok() && !TenantId::parse(made.row.id)) {
    reader.refuse("id",
                  "id must be 1 to 64 letters, digits, `.`, `_` or `-`, the first one a letter or "
                  "a digit");
  }
  made.status = reader.finish();
  return made;
}

net::ApiResponse create_workspace(Services& services, const Caller& caller, Request request) {
  const auto body = body_of(request);
  if (!body) {
    return refuse(body.error());
  }
  auto wanted = workspace_from(*body);
  if (!wanted.status) {
    return refuse(wanted.status.error());
  }
  const WallTime now = services.context.clock.now();
  wanted.row.created = now;
  const auto made = store::make_credential("sk", system_random());
  auto key = credential_row(made, wanted.row.id, now);
  key.role = "owner";
  key.name = "first owner key";
  const Status written = services.context.store.write([&](store::Tx& tx) -> Status {
    auto taken = tx.workspace(wanted.row.id);
    if (!taken || *taken) {
      return taken ? Status(Error{ErrorCode::kConflict, "this workspace id is taken", "name_taken",
                                  "id"})
                   : Status(taken.error());
    }
    if (auto inserted = tx.insert(wanted.row); !inserted) {
      return inserted;
    }
    if (auto inserted = tx.insert(key); !inserted) {
      return inserted;
    }
    return tx.insert(audit_row(services.context, caller, "workspace.create", wanted.row.id));
  });
  return written ? json_answer(201, with_secret(workspace_view(wanted.row), "key", made.text))
                 : refuse(written.error());
}

/// Replaces a workspace's limits. What runs goes on; only new creates are measured by them.
net::ApiResponse limit_workspace(Services& services, const Caller& caller, Request request) {
  const auto body = body_of(request);
  if (!body) {
    return refuse(body.error());
  }
  store::WorkspaceRow row;
  json::Reader reader(*body, "");
  read_limits(reader, row);
  if (auto status = reader.finish(); !status) {
    return refuse(status.error());
  }
  row.id = request.params[0];
  const Status written = services.context.store.write([&](store::Tx& tx) -> Status {
    auto done = tx.set_workspace_limits(row);
    if (!done || !*done) {
      return done ? Status(Error{ErrorCode::kNotFound, "there is no such workspace",
                                 "workspace_not_found"})
                  : Status(done.error());
    }
    auto changed = tx.workspace(row.id);
    if (!changed) {
      return changed.error();
    }
    row = std::move(**changed);
    return tx.insert(audit_row(services.context, caller, "workspace.limit", row.id));
  });
  return written ? json_answer(200, workspace_view(row)) : refuse(written.error());
}

net::ApiResponse list_workspaces(Services& services) {
  json::Array views;
  const Status read = services.context.store.read([&](store::Tx& tx) -> Status {
    auto rows = tx.workspaces();
    if (!rows) {
      return rows.error();
    }
    for (const store::WorkspaceRow& row : *rows) {
      views.push_back(workspace_view(row));
    }
    return {};
  });
  return read ? json_answer(200, json::Object{{"workspaces", std::move(views)}})
              : refuse(read.error());
}

}  // namespace

void add_key_routes(Api& api, Services& services) {
  api.on("POST", "/v1/keys", [&services](const Caller& caller, Request request, Answer answer) {
    answer(mint_key(services, caller, request));
  });
  api.on("GET", "/v1/keys", [&services](const Caller& caller, Request, Answer answer) {
    answer(list_credentials(services, "sk", caller.tenant, "keys", key_view));
  });
  api.on("DELETE", "/v1/keys/{id}",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(revoke(services, caller, "sk", request.params[0], "key.revoke", "key_not_found"));
         });
}

void add_join_token_routes(Api& api, Services& services) {
  api.on("POST", "/v1/join-tokens",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(mint_join_token(services, caller, request));
         });
  api.on("GET", "/v1/join-tokens", [&services](const Caller& caller, Request, Answer answer) {
    answer(list_credentials(services, "jn", caller.tenant, "join_tokens", join_token_view));
  });
  api.on("DELETE", "/v1/join-tokens/{id}",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(revoke(services, caller, "jn", request.params[0], "join_token.revoke",
                         "join_token_not_found"));
         });
}

void add_workspace_routes(Api& api, Services& services) {
  api.on("POST", "/v1/workspaces",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(create_workspace(services, caller, request));
         });
  api.on("PUT", "/v1/workspaces/{id}/limits",
         [&services](const Caller& caller, Request request, Answer answer) {
           answer(limit_workspace(services, caller, request));
         });
  api.on("GET", "/v1/workspaces",
         [&services](const Caller&, Request, Answer answer) { answer(list_workspaces(services)); });
}

}  // namespace sandboxkit::control
