// Workers, join tokens, keys, workspaces, log-in.

#include "sandboxkit/client.h"
#include "sandboxkit/clock.h"

#include "base/text.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/files.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "cli/text.h"

#include <utility>

namespace sandboxkit::cli {
namespace {

constexpr std::size_t kMaxKeyBytes = 4096;

int remove_by_id(const Common& common, const std::string& collection, const std::string& id) {
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  const auto removed = (*api)->remove("/v1/" + collection + "/" + percent_encode(id));
  if (!removed) {
    return fail(removed.error());
  }
  if (!common.json) {
    print_line(printable(id));
  }
  return kExitOk;
}

/// Makes something whose secret is shown once: the secret alone on standard output, so that it can
/// be taken into a variable, and the rest on standard error.
int create_secret(const Common& common, const std::string& target, const json::Value& body,
                  const std::string& member) {
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  const auto made = (*api)->post(target, body);
  if (!made) {
    return fail(made.error());
  }
  if (common.json) {
    print_json(*made);
    return kExitOk;
  }
  print_line(printable(made->text(member)));
  if (is_terminal(kStandardOutput)) {
    write_all(kStandardError, "It is shown this once.\n");
  }
  return kExitOk;
}

json::Array list_of(const std::vector<std::string>& items) {
  return json::Array(items.begin(), items.end());
}

/// How long a credential is to count, where the options say so.
Status add_ttl(json::Object& body, const std::string& text) {
  if (text.empty()) {
    return {};
  }
  const auto ttl = parse_duration(text);
  if (!ttl) {
    return ttl.error();
  }
  body.emplace_back("ttl_seconds", std::int64_t{ttl->count()});
  return {};
}

std::string list_in_words(const json::Value& object, std::string_view member) {
  std::string words;
  const json::Value* list = object.find(member);
  const json::Array* items = list != nullptr ? list->as_array() : nullptr;
  for (const json::Value& item : items != nullptr ? *items : json::Array()) {
    if (const std::string* text = item.as_string()) {
      words += (words.empty() ? "" : ",") + *text;
    }
  }
  return words;
}

std::string scope_of(const json::Value& object) {
  const std::string workspace = cell(object, "workspace");
  return workspace.empty() ? "every workspace" : workspace;
}

std::vector<std::string> worker_row(const json::Value& worker, WallTime now) {
  std::string state = cell(worker, "state");
  if (cell(worker, "connected") == "false" && state == "ready") {
    state += " (not connected)";
  }
  return {cell(worker, "id"),
          cell(worker, "name"),
          state,
          scope_of(worker),
          cell(worker, "sandboxes") + "/" + cell(worker, "max_sandboxes"),
          cell(worker, "used_cpu_cores") + "/" + cell(worker, "cpu_cores"),
          cell(worker, "used_memory_mb") + "/" + cell(worker, "memory_mb"),
          list_in_words(worker, "capabilities"),
          cell(worker, "engine"),
          relative_time(cell(worker, "last_heartbeat_at"), now)};
}

/// Prints the changed object, or a line for people.
int print_change(const Common& common, const Result<json::Value>& changed,
                 const std::string& line) {
  if (!changed) {
    return fail(changed.error());
  }
  if (common.json) {
    print_json(*changed);
  } else {
    print_line(line);
  }
  return kExitOk;
}

void add_limits(json::Object& body, const WorkspaceOptions& options) {
  if (options.max_sandboxes) {
    body.emplace_back("max_sandboxes", *options.max_sandboxes);
  }
  if (options.max_cpu_cores) {
    body.emplace_back("max_cpu_cores", *options.max_cpu_cores);
  }
  if (options.max_memory_mb) {
    body.emplace_back("max_memory_mb", *options.max_memory_mb);
  }
}

}  // namespace

int list_workers(const Common& common) {
  return print_listing(
      common,
      {"/v1/workers",
       "workers",
       {"ID", "NAME", "STATE", "SERVES", "SANDBOXES", "CPU", "MEMORY MB", "CAN", "ENGINE", "SEEN"},
       worker_row,
       "no workers; `sandboxkit token create` makes the token that one joins with"});
}

int change_worker(const Common& common, const std::string& worker, const std::string& action) {
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  const auto changed =
      (*api)->post("/v1/workers/" + percent_encode(worker) + "/" + action, json::Object{});
  if (!changed) {
    return fail(changed.error());
  }
  if (common.json) {
    print_json(*changed);
  } else {
    print_line(printable(worker) + " " + action + "ed");
  }
  return kExitOk;
}

int drain_worker(const Common& common, const std::string& worker, const std::string& deadline) {
  json::Object body;
  if (!deadline.empty()) {
    const auto seconds = parse_duration(deadline);
    if (!seconds) {
      return fail(seconds.error());
    }
    body.emplace_back("deadline_seconds", std::int64_t{seconds->count()});
  }
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  const auto changed =
      (*api)->post("/v1/workers/" + percent_encode(worker) + "/drain", std::move(body));
  const json::Value* drain = changed ? changed->find("drain") : nullptr;
  const std::string remaining = drain != nullptr ? cell(*drain, "remaining") : std::string();
  return print_change(common, changed,
                      printable(worker) + " drains; sandboxes on it: " + remaining);
}

int taint_worker(const Common& common, const std::string& worker,
                 const std::vector<std::string>& taints) {
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  const auto changed =
      (*api)->put("/v1/workers/" + percent_encode(worker) + "/taints",
                  json::Object{{"taints", json::Array(taints.begin(), taints.end())}});
  return print_change(common, changed,
                      printable(worker) + (taints.empty() ? " has no taints" : " is tainted"));
}

int remove_worker(const Common& common, const std::string& worker) {
  return remove_by_id(common, "workers", worker);
}

int create_token(const Common& common, const TokenOptions& options) {
  json::Object body;
  if (!options.name.empty()) {
    body.emplace_back("name", options.name);
  }
  if (options.max_uses) {
    body.emplace_back("max_uses", *options.max_uses);
  }
  if (auto status = add_ttl(body, options.ttl); !status) {
    return fail(status.error());
  }
  if (!options.capabilities.empty()) {
    body.emplace_back("capabilities", list_of(options.capabilities));
  }
  if (!options.networks.empty()) {
    body.emplace_back("networks", list_of(options.networks));
  }
  if (options.unscoped) {
    body.emplace_back("workspace", "");
  }
  return create_secret(common, "/v1/join-tokens", std::move(body), "token");
}

int list_tokens(const Common& common) {
  return print_listing(common, {"/v1/join-tokens",
                                "join_tokens",
                                {"ID", "NAME", "SERVES", "USES LEFT", "CREATED", "EXPIRES"},
                                [](const json::Value& token, WallTime now) {
                                  return std::vector<std::string>{
                                      cell(token, "id"),
                                      cell(token, "name"),
                                      scope_of(token),
                                      cell(token, "uses_left"),
                                      relative_time(cell(token, "created_at"), now),
                                      relative_time(cell(token, "expires_at"), now)};
                                },
                                "no join tokens"});
}

int remove_token(const Common& common, const std::string& id) {
  return remove_by_id(common, "join-tokens", id);
}

int create_key(const Common& common, const KeyOptions& options) {
  json::Object body;
  if (!options.name.empty()) {
    body.emplace_back("name", options.name);
  }
  if (auto status = add_ttl(body, options.ttl); !status) {
    return fail(status.error());
  }
  if (!options.sandbox.empty()) {
    return create_secret(common, sandbox_target(options.sandbox, "/tokens"), std::move(body),
                         "token");
  }
  body.emplace_back("role", options.role);
  if (options.max_sandboxes) {
    body.emplace_back("max_sandboxes", *options.max_sandboxes);
  }
  if (options.max_cpu_cores) {
    body.emplace_back("max_cpu_cores", *options.max_cpu_cores);
  }
  if (options.max_memory_mb) {
    body.emplace_back("max_memory_mb", *options.max_memory_mb);
  }
  return create_secret(common, "/v1/keys", std::move(body), "key");
}

int list_keys(const Common& common, const std::string& sandbox) {
  const bool of_sandbox = !sandbox.empty();
  return print_listing(common, {of_sandbox ? sandbox_target(sandbox, "/tokens") : "/v1/keys",
                                of_sandbox ? "tokens" : "keys",
                                {"ID", "NAME", "ROLE", "CREATED", "EXPIRES", "LAST USED"},
                                [](const json::Value& key, WallTime now) {
                                  const std::string role = cell(key, "role");
                                  return std::vector<std::string>{
                                      cell(key, "id"),
                                      cell(key, "name"),
                                      role.empty() ? "sandbox" : role,
                                      relative_time(cell(key, "created_at"), now),
                                      relative_time(cell(key, "expires_at"), now),
                                      relative_time(cell(key, "last_used_at"), now)};
                                },
                                of_sandbox ? "no tokens" : "no keys"});
}

int remove_key(const Common& common, const std::string& id, const std::string& sandbox) {
  return remove_by_id(
      common, sandbox.empty() ? "keys" : "sandboxes/" + percent_encode(sandbox) + "/tokens", id);
}

int create_workspace(const Common& common, const WorkspaceOptions& options) {
  json::Object body{{"id", options.id}};
  if (!options.name.empty()) {
    body.emplace_back("name", options.name);
  }
  add_limits(body, options);
  return create_secret(common, "/v1/workspaces", std::move(body), "key");
}

int limit_workspace(const Common& common, const WorkspaceOptions& options) {
  json::Object body;
  add_limits(body, options);
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  const auto changed =
      (*api)->put("/v1/workspaces/" + percent_encode(options.id) + "/limits", std::move(body));
  return print_change(common, changed, printable(options.id) + " has new limits");
}

int list_workspaces(const Common& common) {
  return print_listing(
      common, {"/v1/workspaces",
               "workspaces",
               {"ID", "NAME", "MAX SANDBOXES", "MAX CPU", "MAX MEMORY MB", "CREATED"},
               [](const json::Value& workspace, WallTime now) {
                 return std::vector<std::string>{cell(workspace, "id"),
                                                 cell(workspace, "name"),
                                                 cell(workspace, "max_sandboxes"),
                                                 cell(workspace, "max_cpu_cores"),
                                                 cell(workspace, "max_memory_mb"),
                                                 relative_time(cell(workspace, "created_at"), now)};
               },
               "no workspaces"});
}

int log_in(const Common& common) {
  Connection connection = common.connection;
  if (connection.url.empty()) {
    return fail(usage_error("name the controller with --url"));
  }
  if (connection.key.empty()) {
    if (is_terminal(kStandardInput)) {
      write_all(kStandardError, "key: ");
    }
    const auto key = read_all(kStandardInput, kMaxKeyBytes);
    if (!key) {
      return fail(key.error());
    }
    connection.key = std::string(trim(*key));
  }
  auto api = open_api({.connection = connection});
  if (!api) {
    return fail(api.error());
  }
  // Any answer but 401 shows that the key counts, whatever its role.
  const auto seen = (*api)->get("/v1/workers");
  if (!seen && (seen.error().code == ErrorCode::kUnauthenticated ||
                seen.error().code == ErrorCode::kUnavailable)) {
    return fail(seen.error());
  }
  const std::string path = settings_path(process_environment());
  if (auto saved = save_settings(connection, path); !saved) {
    return fail(saved.error());
  }
  write_all(kStandardError, "saved in " + printable(path) + "\n");
  return kExitOk;
}

}  // namespace sandboxkit::cli
