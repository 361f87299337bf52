// gate ask: a session of the gate for a person at a terminal, to see what an agent would meet.

#include "sandboxkit/agent_session.h"
#include "sandboxkit/clock.h"
#include "sandboxkit/gate_files.h"
#include "sandboxkit/system_eyes.h"
#include "sandboxkit/terminal_prompt.h"

#include "base/random.h"
#include "cli/exit_code.h"
#include "cli/gate.h"
#include "cli/gate_session.h"
#include "cli/grant.h"
#include "cli/terminal.h"

#include <memory>
#include <utility>

namespace sandboxkit::cli {
namespace {

constexpr const char* kByHand = "by-hand";
constexpr std::size_t kSessionIdChars = 16;

/// Errors: everything that is wrong with the options, the policy and the gate's folder.
Result<AgentSessionOptions> session_options(GateAskOptions options) {
  if (options.session.policy_file == "-") {
    return usage_error("--policy is a file; standard input is for requests");
  }
  if (options.session.agent.empty()) {
    options.session.agent = kByHand;
  }
  auto local = local_gate(options.session);
  if (!local) {
    return local.error();
  }
  warn_of_tree(local->session.tree);
  local->session.session = "s_" + system_random().text(kSessionIdChars, kBase36);
  return AgentSessionOptions{.session = std::move(local->session),
                             .policy = std::move(local->policy),
                             .mode = local->gate.mode(),
                             .state_folder = options.state_folder.empty()
                                                 ? local->state_folder
                                                 : std::move(options.state_folder),
                             .policy_source = options.session.policy_file,
                             .ask_timeout = std::chrono::seconds(options.timeout_seconds)};
}

int failed(const Error& error) {
  const int code = fail(error);
  return error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kTooLarge
             ? kExitUsage
             : code;
}

int check_all(AgentSession& session, const std::vector<GateRequest>& requests) {
  bool all_allowed = true;
  for (const GateRequest& request : requests) {
    const GateOutcome outcome = session.check(request);
    all_allowed = all_allowed && outcome.decision.answer == GateAnswer::kAllow;
    if (outcome.unaudited) {
      warn("the audit log cannot be written: " + session.status().audit_problem);
    }
    print_line(to_json(outcome.decision));
  }
  if (const std::string problem = session.status().grants_problem; !problem.empty()) {
    warn("permanent grants are ignored: " + problem);
  }
  return all_allowed ? kExitOk : kExitRefused;
}

}  // namespace

int ask_gate(const GateAskOptions& options) {
  if (auto status = check_host(); !status) {
    return fail(status.error());
  }
  auto settings = session_options(options);
  if (!settings) {
    return failed(settings.error());
  }
  const auto requests = read_requests(options.request_file);
  if (!requests) {
    return failed(requests.error());
  }
  // Without a terminal nobody can be asked, and the gate denies.
  const auto terminal = controlling_terminal_handler();
  auto session =
      AgentSession::start(std::move(*settings), {.eyes = system_eyes(),
                                                 .clock = system_clock(),
                                                 .handler = terminal ? terminal->get() : nullptr});
  return session ? check_all(**session, *requests) : failed(session.error());
}

}  // namespace sandboxkit::cli
