// gate check: what the gate would say, on the real files, without anything that enforces it.

#include "cli/gate.h"

#include "sandboxkit/clock.h"
#include "sandboxkit/gate_files.h"
#include "sandboxkit/system_eyes.h"

#include "base/text.h"
#include "cli/exit_code.h"
#include "cli/files.h"
#include "cli/gate_session.h"
#include "cli/terminal.h"
#include "cli/text.h"

#include <utility>

namespace sandboxkit::cli {
namespace {

constexpr std::size_t kMaxRequestBytes = 64U << 20;

int bad_input(const Error& error) {
  fail(error);
  return kExitUsage;
}

/// Grants that cannot be read grant nothing, and that is said.
GateGrants grants_of(const GateCheckOptions& options, const PermissionGate& gate) {
  if (options.grants_file.empty()) {
    return {};
  }
  const auto ignored = [&](const Error& error) {
    const Error told = in_file("grants", options.grants_file, error);
    warn("grants are ignored, all of them: " + told.message);
    return GateGrants();
  };
  const auto text = read_file(options.grants_file, kMaxGrantsBytes);
  if (!text) {
    return ignored(text.error());
  }
  const auto grants = parse_gate_grants(*text);
  if (!grants) {
    return ignored(grants.error());
  }
  auto compiled = gate.compile(*grants, {});
  return compiled ? std::move(*compiled) : ignored(compiled.error());
}

}  // namespace

Result<std::vector<GateRequest>> read_requests(const std::string& file) {
  const auto text = read_file(file, kMaxRequestBytes);
  if (!text) {
    return text.error();
  }
  std::vector<GateRequest> requests;
  if (auto whole = parse_gate_request(*text)) {
    requests.push_back(std::move(*whole));
    return requests;
  }
  std::size_t number = 0;
  for (const std::string_view line : split(*text, '\n')) {
    ++number;
    if (trim(line).empty()) {
      continue;
    }
    auto request = parse_gate_request(line);
    if (!request) {
      return in_file("request", file + ":" + std::to_string(number), request.error());
    }
    requests.push_back(std::move(*request));
  }
  if (requests.empty()) {
    return usage_error("request " + quoted(file) + " holds nothing to judge");
  }
  return requests;
}

int check_gate(const GateCheckOptions& options) {
  if (options.session.policy_file == "-" || options.grants_file == "-") {
    return bad_input(
        usage_error("--policy and --grants are files; standard input is for requests"));
  }
  WallTime now = system_clock().now();
  if (!options.now.empty()) {
    const auto given = parse_gate_time(options.now);
    if (!given) {
      return bad_input(usage_error("--now " + given.error().message));
    }
    now = *given;
  }
  const auto local = local_gate(options.session);
  if (!local) {
    return bad_input(local.error());
  }
  warn_of_tree(local->session.tree);
  const PermissionGate& gate = local->gate;
  const GateGrants grants = grants_of(options, gate);
  const auto requests = read_requests(options.request_file);
  if (!requests) {
    return bad_input(requests.error());
  }
  const ProtectedObjects objects = gate.look_at_protected(system_eyes());
  bool all_allowed = true;
  for (const GateRequest& request : *requests) {
    const GateDecision decision = gate.decide(request, grants, system_eyes(), now, objects);
    all_allowed = all_allowed && decision.answer == GateAnswer::kAllow;
    print_line(to_json(decision));
  }
  return all_allowed ? kExitOk : kExitRefused;
}

}  // namespace sandboxkit::cli
