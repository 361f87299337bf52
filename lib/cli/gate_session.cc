// The gate of a session on this machine, from the options of a command.

#include "cli/gate_session.h"

#include "sandboxkit/grant_store.h"
#include "sandboxkit/system_eyes.h"

#include "agent/host_programs.h"
#include "base/text.h"
#include "cli/exit_code.h"
#include "cli/files.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "gate/path_text.h"

#include <array>
#include <climits>
#include <cstdlib>
#include <utility>

#include <unistd.h>

namespace sandboxkit::cli {
namespace {

constexpr std::size_t kMaxPolicyBytes = 1U << 20;
constexpr const char* kStateBelowHome = "/.local/state";
constexpr const char* kState = "/sandboxkit/gate";

/// A directory that is there, by its canonical path.
Result<SeenPath> directory(const char* option, const std::string& path) {
  std::array<char, PATH_MAX> here{};
  if (getcwd(here.data(), here.size()) == nullptr) {
    return Error{ErrorCode::kUnavailable, "the current directory cannot be told"};
  }
  auto seen = system_eyes().look({.cwd = here.data(), .path = path});
  if (!seen || !seen->file || seen->file->type != FileType::kDirectory) {
    const std::string why = seen ? std::string("it is no directory") : seen.error().message;
    return usage_error(std::string(option) + " " + quoted(path) + ": " + why);
  }
  return seen;
}

std::string home_of(const GateSessionOptions& options) {
  return options.home.empty() ? variable("HOME") : options.home;
}

Result<SeenPath> seen_home(const GateSessionOptions& options) {
  const std::string home = home_of(options);
  if (home.empty()) {
    return usage_error("whose files are protected is not known: give --home, or set HOME");
  }
  return directory("--home", home);
}

/// Where the state is when no option names a home; or "".
std::string named_state(const GateSessionOptions& options) {
  const std::string state = variable("XDG_STATE_HOME");
  return options.home.empty() && state.starts_with('/') ? gate::plain_path("/", state) + kState
                                                        : std::string();
}

Result<GateSession> session_of(const GateSessionOptions& options) {
  const auto tree = directory("--tree", options.tree);
  if (!tree) {
    return tree.error();
  }
  const auto home = seen_home(options);
  if (!home) {
    return home.error();
  }
  GateSession session{.tree = tree->canonical,
                      .tree_identity = tree->file->identity,
                      .home = home->canonical,
                      .agent = options.agent,
                      .state_dirs = {home->canonical + kStateBelowHome + kState},
                      .own_files = agent::own_files(),
                      .program_dirs = agent::program_dirs(tree->canonical, variable("PATH")),
                      .box_is_active = options.box == "on"};
  if (const std::string state = named_state(options); !state.empty()) {
    session.state_dirs.push_back(state);
  }
  return session;
}

Result<GatePolicy> policy_of(const GateSessionOptions& options, const std::string& state_folder) {
  const std::string file =
      options.policy_file.empty() ? state_folder + "/policy.json" : options.policy_file;
  const auto text = read_file(file, kMaxPolicyBytes);
  if (!text) {
    const bool is_absent = text.error().code == ErrorCode::kNotFound;
    return is_absent && options.policy_file.empty() ? Result<GatePolicy>(GatePolicy::shipped())
                                                    : Result<GatePolicy>(text.error());
  }
  auto policy = parse_gate_policy(*text, file);
  return policy ? std::move(policy) : Result<GatePolicy>(in_file("policy", file, policy.error()));
}

}  // namespace

Error in_file(const char* what, const std::string& file, Error error) {
  error.message = std::string(what) + " " + quoted(file) + ": " + error.message;
  return error;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

void warn(std::string_view text) {
  write_all(kStandardError, "sandboxkit: " + printable(text) + "\n");
}

void warn_of_tree(const std::string& tree) {
  for (const std::string& warning : warnings_of_tree(tree)) {
    warn("warning: " + warning);
  }
}

Result<std::string> state_folder_of(const GateSessionOptions& options) {
  if (std::string named = named_state(options); !named.empty()) {
    return named;
  }
  const auto home = seen_home(options);
  return home ? Result<std::string>(home->canonical + kStateBelowHome + kState)
              : Result<std::string>(home.error());
}

Result<LocalGate> local_gate(const GateSessionOptions& options) {
  const auto state = state_folder_of(options);
  if (!state) {
    return state.error();
  }
  auto policy = policy_of(options, *state);
  if (!policy) {
    return policy.error();
  }
  policy->roots.insert(policy->roots.end(), options.added_roots.begin(), options.added_roots.end());
  const auto mode = permission_mode_from(options.mode);
  if (!mode) {
    return mode.error();
  }
  auto session = session_of(options);
  if (!session) {
    return session.error();
  }
  std::vector<std::string> roots = agent::roots_of(*session, *policy);
  auto gate = PermissionGate::create(*session, *policy, *mode);
  if (!gate) {
    return gate.error();
  }
  return LocalGate{std::move(*session), std::move(*policy), std::move(*gate), *state,
                   std::move(roots)};
}

}  // namespace sandboxkit::cli
