#pragma once

#include <string>

namespace sandboxkit::cli {

struct GateCheckOptions {
  std::string policy_file{};
  /// Empty: no grants.
  std::string grants_file{};
  std::string request_file{};
  std::string mode = "prompt";
  std::string tree{};
  /// Empty: that of the environment.
  std::string home{};
  std::string box = "on";
  std::string agent{};
  /// Empty: the machine's time.
  std::string now{};
};

/// Without a controller: prints one decision a line. Ends with 0 when all are allowed, 3 when any
/// is not, 2 for bad input.
int check_gate(const GateCheckOptions& options);

}  // namespace sandboxkit::cli
