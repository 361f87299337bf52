// What a sandbox may reach, after its creation: what was refused, and another policy.
#include "cli/egress.h"

#include "sandboxkit/client.h"
#include "sandboxkit/clock.h"
#include "sandboxkit/egress.h"

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "cli/text.h"

#include <algorithm>
#include <span>
#include <utility>

namespace sandboxkit::cli {
namespace {

constexpr std::int64_t kHttpPort = 80;
constexpr std::int64_t kHttpsPort = 443;

void add_once(json::Array& entries, std::string entry) {
  if (std::ranges::find(entries, json::Value(entry)) == entries.end()) {
    entries.emplace_back(std::move(entry));
  }
}

std::vector<std::string> denied_row(const json::Value& line, WallTime now) {
  return {cell(line, "host"),
          cell(line, "port"),
          cell(line, "reason"),
          cell(line, "count"),
          relative_time(cell(line, "first"), now),
          relative_time(cell(line, "last"), now)};
}

int suggest(const Common& common, const std::string& sandbox) {
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  const auto denied = fetch_all(**api, sandbox_target(sandbox, "/egress/denied"), "denied");
  if (!denied) {
    return fail(denied.error());
  }
  print_json(suggested_policy(*denied));
  return kExitOk;
}

/// One line for people: `14:02:11  evil.test:443  not_in_allow_list  2`.
void print_denied(const std::string& line, bool as_json) {
  const auto told = json::parse(line);
  const json::Value* list = told ? told->find("denied") : nullptr;
  const json::Array* items = list != nullptr ? list->as_array() : nullptr;
  for (const json::Value& each : items != nullptr ? *items : json::Array()) {
    if (as_json) {
      print_json(each);
      continue;
    }
    print_line(printable(cell(each, "last")) + "  " + printable(cell(each, "host")) + ":" +
               printable(cell(each, "port")) + "  " + printable(cell(each, "reason")) + "  " +
               printable(cell(each, "count")));
  }
}

int follow(const Common& common, const std::string& sandbox) {
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  Lines lines;
  ClientRequest request{.target = sandbox_target(sandbox, "/egress/denied/stream")};
  request.timeout = std::chrono::milliseconds{0};
  request.on_body = [&](std::span<const char> bytes) {
    lines.take({bytes.data(), bytes.size()},
               [&](const std::string& line) { print_denied(line, common.json); });
    return true;
  };
  const auto ended = (*api)->send(request);
  if (!ended) {
    return fail(ended.error());
  }
  write_all(kStandardError, "the sandbox ended, or its worker is away\n");
  return kExitOk;
}

}  // namespace

json::Value suggested_policy(const json::Array& denied) {
  json::Array domains;
  json::Array networks;
  for (const json::Value& line : denied) {
    const std::string host = line.text("host");
    const std::int64_t port = line.integer("port");
    const std::string suffix = ":" + std::to_string(port);
    if (const auto address = IpAddress::parse(host)) {
      add_once(networks, address->to_string() + (address->is_v6 ? "/128" : "/32") + suffix);
    } else if (line.text("reason") != "resolved_address_denied") {
      // Without a port an entry allows 80 for plain HTTP and 443 for CONNECT.
      add_once(domains, port == kHttpPort || port == kHttpsPort ? host : host + suffix);
    }
  }
  json::Object policy{{"allowed_domains", std::move(domains)}};
  if (!networks.empty()) {
    policy.emplace_back("allowed_networks", std::move(networks));
  }
  return policy;
}

int list_denied(const Common& common, const DeniedOptions& options) {
  if (options.suggest && options.follow) {
    return fail(usage_error("--suggest reads what was denied so far: leave --follow away"));
  }
  if (options.suggest) {
    return suggest(common, options.sandbox);
  }
  if (options.follow) {
    return follow(common, options.sandbox);
  }
  return print_listing(common, {sandbox_target(options.sandbox, "/egress/denied"),
                                "denied",
                                {"HOST", "PORT", "REASON", "COUNT", "FIRST", "LAST"},
                                denied_row,
                                "nothing was denied"});
}

int set_egress(const Common& common, const EgressSetOptions& options) {
  json::Object body{{"allowed_domains", json::Array(options.allow.begin(), options.allow.end())}};
  if (options.allow.empty() && options.allow_networks.empty() && !options.deny_all) {
    return fail(usage_error("say what it may reach: --allow, --allow-network, or --deny-all"));
  }
  if (options.deny_all && !(options.allow.empty() && options.allow_networks.empty())) {
    return fail(usage_error("--deny-all allows nothing: it cannot stand beside --allow"));
  }
  if (!options.allow_networks.empty()) {
    body.emplace_back("allowed_networks",
                      json::Array(options.allow_networks.begin(), options.allow_networks.end()));
  }
  body.emplace_back("apply", options.now ? "now" : "next_creation");
  auto api = open_api(common);
  if (!api) {
    return fail(api.error());
  }
  const auto changed =
      (*api)->put(sandbox_target(options.sandbox, "/egress"), json::Value(std::move(body)));
  if (!changed) {
    return fail(changed.error());
  }
  if (common.json) {
    print_json(*changed);
    return kExitOk;
  }
  const json::Value* applied = changed->find("applied");
  const bool in_force = applied != nullptr && applied->as_bool() != nullptr && *applied->as_bool();
  print_line(!options.now ? "recorded for the next creation: create with `recorded_of`"
             : in_force   ? "narrowed: in force now"
                          : "recorded: in force once its worker is back");
  return kExitOk;
}

}  // namespace sandboxkit::cli
