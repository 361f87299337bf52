#pragma once

#include "sandboxkit/controller.h"

#include <optional>
#include <string>

namespace sandboxkit::daemons {

struct ControllerOptions {
  ControllerConfig config;
  /// Where the port is written once it is known; empty: nowhere.
  std::string port_file;
  Severity log_level = Severity::kInfo;
};

/// Reads the command line. Empty when there is nothing to run: `exit_code` says how to end (help
/// and version end well, bad options do not; the reason was printed).
std::optional<ControllerOptions> read_options(int argc, char** argv, int& exit_code);

/// Writes the port whole: a reader never sees a part of it.
Status write_port_file(const std::string& path, std::uint16_t port);

}  // namespace sandboxkit::daemons
