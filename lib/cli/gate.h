#pragma once

#include "cli/gate_session.h"

#include <string>
#include <vector>

namespace sandboxkit::cli {

struct GateCheckOptions {
  GateSessionOptions session{};
  /// Empty: no grants.
  std::string grants_file{};
  std::string request_file{};
  /// Empty: the machine's time.
  std::string now{};
};

/// One JSON value, or one a line; `-` is standard input. Errors: kInvalidArgument, and the file's.
Result<std::vector<GateRequest>> read_requests(const std::string& file);

/// Without a controller: prints one decision a line. Ends with 0 when all are allowed, 3 when any
/// is not, 2 for bad input.
int check_gate(const GateCheckOptions& options);

struct GateAskOptions {
  GateSessionOptions session{};
  std::string request_file{};
  /// Empty: the gate's own.
  std::string state_folder{};
  int timeout_seconds = 120;
};

/// The same in a session: asks on the terminal, remembers "always", writes the audit log.
int ask_gate(const GateAskOptions& options);

}  // namespace sandboxkit::cli
