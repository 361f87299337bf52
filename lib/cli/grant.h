#pragma once

#include "cli/gate_session.h"

#include <string>
#include <vector>

namespace sandboxkit::cli {

struct GrantOptions {
  /// `tree` empty: the current directory.
  GateSessionOptions session{};
  /// Names of operations; none: `what` is a command's words.
  std::vector<std::string> operations{};
  /// One target, or the words of a command.
  std::vector<std::string> what{};
  bool is_prefix = false;
  bool needs_box = false;
  /// Empty: 30 days. A duration, or `never`.
  std::string life{};
  std::string note{};
  /// Of `rm`.
  std::vector<std::string> ids{};
  bool expired = false;
  bool all = false;
  bool json = false;
};

/// Answers and grants are a person's on the host. Errors: kPermissionDenied inside of a box.
Status check_host();

/// The permanent grants of this user on this machine. All of them end with 3 inside of a box.

/// Prints the new grant's id. Ends with 3 when the gate refuses such a grant.
int add_grant(const GrantOptions& options);
/// Ends with 1 when the file of grants does not count.
int list_grants(const GrantOptions& options);
/// Ends with 4 when there is no such grant; then none was taken back.
int remove_grants(const GrantOptions& options);
/// Says which rule or grant speaks for a request: 0 when it is allowed, else 3.
int explain_grant(const GrantOptions& options);

}  // namespace sandboxkit::cli
