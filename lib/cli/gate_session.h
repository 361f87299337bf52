#pragma once

#include "sandboxkit/gate.h"
#include "sandboxkit/gate_files.h"

#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::cli {

/// Whose session on this machine is judged.
struct GateSessionOptions {
  /// Empty: `policy.json` in the gate's folder, or the shipped lists alone where there is none.
  std::string policy_file{};
  std::string mode = "prompt";
  std::string tree{};
  /// Empty: that of the environment.
  std::string home{};
  std::string box = "on";
  std::string agent{};
  /// Beside the policy's.
  std::vector<GateRoot> added_roots{};
};

/// A gate as the options ask for it.
struct LocalGate {
  GateSession session;
  GatePolicy policy;
  PermissionGate gate;
  /// Where policy, grants, keys and audit are.
  std::string state_folder;
  /// The tree and the owner's roots.
  std::vector<std::string> roots;
};

/// Errors: kInvalidArgument and what the policy's reader says, with the file's name.
Result<LocalGate> local_gate(const GateSessionOptions& options);

/// `$XDG_STATE_HOME/sandboxkit/gate`, or below the home. With a home of the options, below that.
Result<std::string> state_folder_of(const GateSessionOptions& options);

/// Says on standard error what the tree tries to say to the gate.
void warn_of_tree(const std::string& tree);

Error in_file(const char* what, const std::string& file, Error error);
std::string variable(const char* name);
/// One line on standard error.
void warn(std::string_view text);

}  // namespace sandboxkit::cli
