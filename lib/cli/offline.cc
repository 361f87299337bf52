// egress check and place: decisions without a controller.

#include "sandboxkit/offline.h"

#include "base/text.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/files.h"
#include "cli/terminal.h"
#include "cli/text.h"

namespace sandboxkit::cli {
namespace {

constexpr std::size_t kMaxPolicyBytes = 1U << 20;
constexpr std::size_t kMaxFleetBytes = 256U << 20;

/// Whatever is wrong with what was given is bad input here.
int bad_input(const Error& error) {
  fail(error);
  return kExitUsage;
}

}  // namespace

int check_egress(const EgressCheckOptions& options) {
  const auto text = read_file(options.policy_file, kMaxPolicyBytes);
  if (!text) {
    return bad_input(text.error());
  }
  const auto policy = parse_egress_policy(*text);
  if (!policy) {
    Error error = policy.error();
    error.message = "policy " + quoted(options.policy_file) + ": " + error.message;
    return bad_input(error);
  }
  bool all_allowed = true;
  for (const std::string& target : options.targets) {
    OfflineEgressQuestion question{.target = target};
    if (!options.resolved.empty()) {
      question.resolved = options.resolved;
    }
    if (!options.server_name.empty()) {
      question.tls_server_name = options.server_name;
    }
    const OfflineDecision decision = check_egress_offline(*policy, question);
    all_allowed = all_allowed && decision.allowed;
    print_line(decision.json);
  }
  return all_allowed ? kExitOk : kExitRefused;
}

int place(const PlaceOptions& options) {
  const auto fleet = read_file(options.fleet_file, kMaxFleetBytes);
  if (!fleet) {
    return bad_input(fleet.error());
  }
  const auto create = read_file(options.create_file, kMaxPolicyBytes);
  if (!create) {
    return bad_input(create.error());
  }
  const auto decisions = place_offline(
      {.fleet = *fleet, .create = *create, .repeat = static_cast<std::size_t>(options.repeat)});
  if (!decisions) {
    return bad_input(decisions.error());
  }
  bool all_placed = true;
  for (const OfflineDecision& decision : *decisions) {
    all_placed = all_placed && decision.allowed;
    print_line(options.json ? decision.json : printable(decision.words));
  }
  return all_placed ? kExitOk : kExitRefused;
}

}  // namespace sandboxkit::cli
