#pragma once

#include "config/read.h"
#include "config/table.h"

#include <optional>
#include <string>

namespace sandboxkit::daemons {

struct Program {
  std::string name;
  /// What it does, for `--help`.
  std::string purpose;
};

struct Settings {
  config::Reading reading{};
  /// `--check-config`: say what counts and from where, then end.
  bool check_only = false;
  /// Set when the command line itself ended it (`--help`, `--version`, no such flag's value).
  std::optional<int> exit_code{};
};

/// The option that says where the file is; `--check-config` and the rest come by themselves.
void add_config_option(config::Table& table, std::string& path);

/// Reads file, flags and environment into what the table is bound to. Opens the file that they
/// name, and touches nothing else.
Settings read_settings(const Program& program, const config::Table& table, int argc, char** argv);

/// Prints what is to be said: all problems, or what counts where only that was asked for. The exit
/// code, or nullopt when the daemon shall run.
std::optional<int> conclude(const Program& program, const config::Table& table,
                            const Settings& settings);

}  // namespace sandboxkit::daemons
