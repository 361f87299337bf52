#pragma once

#include "cli/gate_session.h"

#include <string>

namespace sandboxkit::cli {

struct GateCheckOptions {
  GateSessionOptions session{};
  /// Empty: no grants.
  std::string grants_file{};
  std::string request_file{};
  /// Empty: the machine's time.
  std::string now{};
};

/// Without a controller: prints one decision a line. Ends with 0 when all are allowed, 3 when any
/// is not, 2 for bad input.
int check_gate(const GateCheckOptions& options);

}  // namespace sandboxkit::cli
