#pragma once

#include "cli/gate_session.h"

#include <string>
#include <vector>

namespace sandboxkit::cli {

struct BoxRunOptions {
  GateSessionOptions session{};
  /// A name, or a file; empty: none.
  std::string profile{};
  std::vector<std::string> allow{};
  std::vector<std::string> allow_networks{};
  /// `NAME=ADDRESS` that the person states; not resolved.
  std::vector<std::string> hosts{};
  std::vector<std::string> env{};
  bool staged = false;
  bool live = false;
  bool review = false;
  bool allow_nested = false;
  bool allow_root = false;
  bool fresh_home = false;
  bool probe = false;
  /// Where sandboxkit-egress is; empty: where it was installed.
  std::string egress_binary{};
  std::vector<std::string> command{};
};

/// Runs a command of this machine in a box, without a controller. The exit code is the command's.
int run_box(const BoxRunOptions& options);

}  // namespace sandboxkit::cli
