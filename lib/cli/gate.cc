// gate check: what the gate would say, on the real files, without anything that enforces it.

#include "cli/gate.h"

#include "sandboxkit/clock.h"
#include "sandboxkit/gate_files.h"
#include "sandboxkit/system_eyes.h"

#include "base/text.h"
#include "cli/exit_code.h"
#include "cli/files.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "gate/path_text.h"
#include "gate/pattern.h"

#include <array>
#include <climits>
#include <cstdlib>
#include <utility>

#include <unistd.h>

namespace sandboxkit::cli {
namespace {

constexpr std::size_t kMaxPolicyBytes = 1U << 20;
constexpr std::size_t kMaxGrantsBytes = 8U << 20;
constexpr std::size_t kMaxRequestBytes = 64U << 20;
constexpr const char* kStateBelowHome = "/.local/state";
constexpr const char* kState = "/sandboxkit/gate";
constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

int bad_input(const Error& error) {
  fail(error);
  return kExitUsage;
}

Error in_file(const char* what, const std::string& file, Error error) {
  error.message = std::string(what) + " " + quoted(file) + ": " + error.message;
  return error;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

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

/// Our own programs, wherever they were installed.
std::vector<std::string> own_files() {
  std::array<char, PATH_MAX> self{};
  const ssize_t size = readlink("/proc/self/exe", self.data(), self.size() - 1);
  if (size <= 0) {
    return {};
  }
  const std::string folder(gate::parent_of(std::string_view(self.data())));
  return {gate::escape_pattern(folder) + "/sandboxkit*",
          gate::escape_pattern(std::string(gate::parent_of(folder))) + "/libexec/sandboxkit",
          gate::escape_pattern(std::string(gate::parent_of(folder))) + "/lib/**/libsandboxkit*"};
}

/// The folders of PATH in which nobody but the owner puts programs: none of the tree.
std::vector<std::string> program_dirs(const std::string& tree) {
  const std::string path = variable("PATH");
  std::vector<std::string> folders;
  for (const std::string_view folder : split(path.empty() ? kDefaultPath : path, ':')) {
    if (folder.starts_with('/') && !gate::covers(tree, folder)) {
      folders.push_back(gate::plain_path("/", folder));
    }
  }
  return folders;
}

Result<GateSession> session_of(const GateCheckOptions& options) {
  const auto tree = directory("--tree", options.tree);
  if (!tree) {
    return tree.error();
  }
  const std::string home_path = options.home.empty() ? variable("HOME") : options.home;
  if (home_path.empty()) {
    return usage_error("whose files are protected is not known: give --home, or set HOME");
  }
  const auto home = directory("--home", home_path);
  if (!home) {
    return home.error();
  }
  GateSession session{.tree = tree->canonical,
                      .tree_identity = tree->file->identity,
                      .home = home->canonical,
                      .agent = options.agent,
                      .state_dirs = {home->canonical + kStateBelowHome + kState},
                      .own_files = own_files(),
                      .program_dirs = program_dirs(tree->canonical),
                      .box_is_active = options.box == "on"};
  const std::string state = variable("XDG_STATE_HOME");
  if (options.home.empty() && state.starts_with('/')) {
    session.state_dirs.push_back(gate::plain_path("/", state) + kState);
  }
  return session;
}

Result<PermissionGate> gate_of(const GateCheckOptions& options) {
  const auto text = read_file(options.policy_file, kMaxPolicyBytes);
  if (!text) {
    return text.error();
  }
  auto policy = parse_gate_policy(*text, options.policy_file);
  if (!policy) {
    return in_file("policy", options.policy_file, policy.error());
  }
  const auto mode = permission_mode_from(options.mode);
  if (!mode) {
    return mode.error();
  }
  auto session = session_of(options);
  if (!session) {
    return session.error();
  }
  return PermissionGate::create(std::move(*session), std::move(*policy), *mode);
}

/// Grants that cannot be read grant nothing, and that is said.
GateGrants grants_of(const GateCheckOptions& options, const PermissionGate& gate) {
  if (options.grants_file.empty()) {
    return {};
  }
  const auto ignored = [&](const Error& error) {
    const Error told = in_file("grants", options.grants_file, error);
    write_all(kStandardError,
              "sandboxkit: grants are ignored, all of them: " + printable(told.message) + "\n");
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

/// One JSON value, or one a line.
Result<std::vector<GateRequest>> requests_of(const GateCheckOptions& options) {
  const auto text = read_file(options.request_file, kMaxRequestBytes);
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
      return in_file("request", options.request_file + ":" + std::to_string(number),
                     request.error());
    }
    requests.push_back(std::move(*request));
  }
  if (requests.empty()) {
    return usage_error("request " + quoted(options.request_file) + " holds nothing to judge");
  }
  return requests;
}

}  // namespace

int check_gate(const GateCheckOptions& options) {
  if (options.policy_file == "-" || options.grants_file == "-") {
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
  const auto gate = gate_of(options);
  if (!gate) {
    return bad_input(gate.error());
  }
  const GateGrants grants = grants_of(options, *gate);
  const auto requests = requests_of(options);
  if (!requests) {
    return bad_input(requests.error());
  }
  const ProtectedObjects objects = gate->look_at_protected(system_eyes());
  bool all_allowed = true;
  for (const GateRequest& request : *requests) {
    const GateDecision decision = gate->decide(request, grants, system_eyes(), now, objects);
    all_allowed = all_allowed && decision.answer == GateAnswer::kAllow;
    print_line(to_json(decision));
  }
  return all_allowed ? kExitOk : kExitRefused;
}

}  // namespace sandboxkit::cli
