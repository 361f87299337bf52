#pragma once

#include "cli/box.h"
#include "cli/commands.h"
#include "cli/gate.h"
#include "cli/grant.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

namespace sandboxkit::cli {

/// All that the options can set. Lives as long as the parser.
struct Arguments {
  Common common{};
  CreateOptions create{};
  RunOptions run{};
  ExecOptions exec{};
  ListOptions list{};
  RemoveOptions remove{};
  TokenOptions token{};
  KeyOptions key{};
  WorkspaceOptions workspace{};
  EgressCheckOptions check{};
  DeniedOptions denied{};
  EgressSetOptions egress{};
  PlaceOptions place{};
  GateCheckOptions gate{};
  GateAskOptions gate_ask{};
  GrantOptions grant{};
  BoxRunOptions box{};
  GateAuditOptions gate_audit{};
  std::string from{}, to{}, id{}, name{}, timeout{};
  std::vector<std::string> names{};
  std::int64_t wait_seconds = 0;
  std::string shell = "bash";
  /// What the chosen command does.
  std::function<int()> action{};
};

/// Adds commands that share the arguments and the connection's options.
class Commands {
 public:
  Commands(CLI::App& app, Arguments& arguments) : app_(app), args_(arguments) {}

  CLI::App* add(CLI::App* parent, const std::string& name, const std::string& what,
                const std::string& examples, std::function<int(Arguments&)> action) {
    CLI::App* command = parent->add_subcommand(name, what);
    command->footer(examples.empty() ? "" : "Examples:\n" + examples);
    if (action) {
      command->callback([this, action = std::move(action)] {
        if (!args_.action) {  // The inner command's comes first.
          args_.action = [this, action] { return action(args_); };
        }
      });
    }
    return command;
  }

  /// A command that calls the controller.
  CLI::App* calling(CLI::App* parent, const std::string& name, const std::string& what,
                    const std::string& examples, std::function<int(Arguments&)> action) {
    CLI::App* command = add(parent, name, what, examples, std::move(action));
    command->add_option("--url", args_.common.connection.url, "the controller, http://host:port");
    command->add_option(
        "--key", args_.common.connection.key,
        "your key (others can see it in the process list: SANDBOXKIT_KEY is better)");
    return command;
  }

  /// One that prints what the controller answers: for people, or as JSON.
  CLI::App* online(CLI::App* parent, const std::string& name, const std::string& what,
                   const std::string& examples, std::function<int(Arguments&)> action) {
    CLI::App* command = calling(parent, name, what, examples, std::move(action));
    command->add_flag("--json", args_.common.json, "print JSON for programs");
    return command;
  }

  CLI::App& app() { return app_; }
  Arguments& args() { return args_; }

 private:
  CLI::App& app_;
  Arguments& args_;
};

/// Workers and join tokens; keys and workspaces; the audit log.
void add_worker_commands(Commands& commands);
void add_approval_commands(Commands& commands);
void add_key_commands(Commands& commands);
void add_audit_commands(Commands& commands);
/// The permission gate, and its grants.
void add_gate_commands(Commands& commands);
void add_grant_commands(Commands& commands);
/// A local command in a box.
void add_box_command(Commands& commands);

}  // namespace sandboxkit::cli
