#pragma once

#include "sandboxkit/controller.h"

#include "config/table.h"

#include <optional>
#include <string>

namespace sandboxkit::daemons {

struct ControllerOptions {
  std::string config_file;
  ControllerConfig config;
  /// Where the port is written once it is known; empty: nowhere.
  std::string port_file;
  Severity log_level = Severity::kInfo;
  bool log_json = false;
};

/// Every option, bound to `options`, which must outlive the table. A new option is a line there.
config::Table table_of(ControllerOptions& options);

/// Reads file, flags and environment. Empty when there is nothing to run: `exit_code` says how to
/// end (help, version and a good `--check-config` end well; the reason was printed).
std::optional<ControllerOptions> read_controller_options(int argc, char** argv, int& exit_code);

/// Writes the port whole: a reader never sees a part of it.
Status write_port_file(const std::string& path, std::uint16_t port);

}  // namespace sandboxkit::daemons
