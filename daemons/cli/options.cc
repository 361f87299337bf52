#include "daemons/cli/options.h"

#include "sandboxkit/version.h"

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/terminal.h"
#include "daemons/cli/command_tree.h"
#include "daemons/cli/completion.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>

namespace sandboxkit::cli {
namespace {

constexpr const char* kExitCodes = R"(Exit codes:
  0    done (run, exec, shell: the command's own code; 128+n when signal n ended it)
  1    failed
  2    wrong options or input
  3    refused: by policy, placement, role or limit (egress check: something is denied)
  4    not found
  5    controller or worker do not answer: try again
  6    no key, or one that does not count
  124  out of time      126, 127  command not executable, not found      130  Ctrl-C
run, exec and shell use 1 to 6 only beside a line `sandboxkit: ...` on standard error.

Environment:
  SANDBOXKIT_URL   the controller, http://host:port
  SANDBOXKIT_KEY   your key, sk_... (or op_... of the operator)
Without them ~/.config/sandboxkit/config.json counts; `sandboxkit login` writes it.)";

void add_create_options(CLI::App* command, CreateOptions& create) {
  command->add_option("--image", create.image, "image on the worker's engine")
      ->capture_default_str();
  command->add_option("--name", create.name, "a name of its own in the workspace");
  command
      ->add_option("--allow", create.allow,
                   "DOMAIN[:PORT] or *.DOMAIN that it may reach; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--allow-network", create.allow_networks,
                   "CIDR[:PORT] of a private network that it may reach; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--strict-tls", create.strict_tls,
                    "what goes through CONNECT must be TLS that names the host of the CONNECT");
  command->add_flag("--deny-all", create.deny_all,
                    "it may reach nothing (so too without any word about egress)");
  command->add_flag("--open", create.open, "no wall: it may reach what its worker reaches");
  command->add_option("--env", create.env, "NAME=VALUE, or NAME to pass ours on; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--timeout", create.timeout,
                      "how long it lives: 90s, 10m, 2h, 1d (default 1h)");
  command->add_option("--cpu", create.cpu_cores, "cores (default 1)");
  command->add_option("--memory", create.memory, "512m, 2g (default 512m)");
  command->add_option("--profile", create.profile,
                      "hardened (default: no way to root inside) or sudo");
  command->add_option("--runtime", create.runtime,
                      "the engine's runtime, runc or runsc for instance");
  command->add_option("--persistence", create.persistence, "ephemeral (default)");
  command->add_option("--tolerate", create.tolerations, "taint of workers that may run it")
      ->allow_extra_args(false);
  command->add_option("--label", create.labels, "NAME=VALUE that the worker must carry")
      ->allow_extra_args(false);
  command->add_option("--metadata", create.metadata, "NAME=VALUE, your own note")
      ->allow_extra_args(false);
}

void add_sandbox_commands(Commands& commands) {
  CLI::App* app = &commands.app();
  Arguments& args = commands.args();
  CLI::App* create =
      commands.online(app, "create", "make a sandbox; prints its id",
                      "  sandboxkit create --allow packages.example.org --name build --timeout 2h\n"
                      "  sandboxkit create --allow '*.github.com' --allow pypi.org --memory 2g\n"
                      "  id=$(sandboxkit create --deny-all)",
                      [](Arguments& a) { return create_sandbox(a.common, a.create); });
  add_create_options(create, args.create);

  CLI::App* run = commands.calling(
      app, "run", "make a sandbox, run a command in it, remove it",
      "  sandboxkit run -- uname -a\n"
      "  sandboxkit run --allow packages.test -- curl -sS http://packages.test/\n"
      "  sandboxkit run --open --timeout 10m --memory 2g -- sh -c 'apt-get update'\n"
      "Without --allow, --deny-all or --open the sandbox may reach nothing.",
      [](Arguments& a) {
        a.run.create = a.create;
        return run_command(a.common, a.run);
      });
  add_create_options(run, args.create);
  run->add_option("--workdir,--cwd", args.run.cwd, "where the command runs");
  run->add_option("--user", args.run.user, "as whom the command runs");
  run->add_flag("--keep", args.run.keep, "do not remove the sandbox");
  run->add_option("command", args.run.command, "the command, after `--`");

  CLI::App* list =
      commands.online(app, "ls", "list sandboxes", "  sandboxkit ls\n  sandboxkit ls --all --json",
                      [](Arguments& a) { return list_sandboxes(a.common, a.list); });
  list->add_flag("-a,--all", args.list.all, "also those that ended by themselves");
  list->add_flag("-q,--quiet", args.list.quiet, "ids alone");
  list->add_flag("--names", args.list.names, "names alone, ids where there is none");

  CLI::App* remove =
      commands.online(app, "rm", "remove sandboxes", "  sandboxkit rm build\n  sandboxkit rm --all",
                      [](Arguments& a) { return remove_sandboxes(a.common, a.remove); });
  remove->add_option("sandbox", args.remove.sandboxes, "names or ids");
  remove->add_flag("--all", args.remove.all, "all of the workspace");
  remove->add_flag("-f,--force", args.remove.force, "one that is not there is no error");

  commands
      .online(app, "show", "show a sandbox",
              "  sandboxkit show build\n  sandboxkit show build --json",
              [](Arguments& a) { return show_sandbox(a.common, a.id); })
      ->add_option("sandbox", args.id, "name or id")
      ->required();
  commands
      .online(app, "isolation", "how a sandbox is closed, and how that is known",
              "  sandboxkit isolation build\n  sandboxkit isolation build --json",
              [](Arguments& a) { return show_isolation(a.common, a.id); })
      ->add_option("sandbox", args.id, "name or id")
      ->required();
  CLI::App* renew = commands.online(
      app, "renew", "set how much longer a sandbox lives, from now", "  sandboxkit renew build 2h",
      [](Arguments& a) { return renew_sandbox(a.common, a.id, a.timeout); });
  renew->add_option("sandbox", args.id, "name or id")->required();
  renew->add_option("timeout", args.timeout, "90s, 10m, 2h, 1d")->required();
}

void add_use_commands(Commands& commands) {
  CLI::App* app = &commands.app();
  Arguments& args = commands.args();
  CLI::App* exec =
      commands.calling(app, "exec", "run a command in a sandbox",
                       "  sandboxkit exec build -- git clone https://github.com/you/repo\n"
                       "  tar c src | sandboxkit exec -i build -- tar x\n"
                       "  sandboxkit exec --env CI=1 --cwd /srv build -- make test",
                       [](Arguments& a) { return exec_command(a.common, a.exec); });
  exec->add_option("sandbox", args.exec.sandbox, "name or id")->required();
  exec->add_option("command", args.exec.command, "the command, after `--`");
  exec->add_option("--env", args.exec.env, "NAME=VALUE, or NAME to pass ours on; may be repeated")
      ->allow_extra_args(false);
  exec->add_option("--cwd,--workdir", args.exec.cwd, "where it runs");
  exec->add_option("--user", args.exec.user, "as whom it runs");
  exec->add_option("--timeout", args.exec.timeout, "end it after 90s, 10m, ...");
  exec->add_flag("-i,--interactive,--stdin", args.exec.interactive, "feed it our standard input");
  exec->add_flag("-t,--tty", args.exec.terminal, "give it a terminal");

  CLI::App* shell =
      commands.calling(app, "shell", "open a shell in a sandbox",
                       "  sandboxkit shell build\n  sandboxkit shell build -- python3",
                       [](Arguments& a) { return open_shell(a.common, a.exec); });
  shell->add_option("sandbox", args.exec.sandbox, "name or id")->required();
  shell->add_option("command", args.exec.command, "another program than the shell, after `--`");
  shell->add_option("--cwd,--workdir", args.exec.cwd, "where it runs");
  shell->add_option("--env", args.exec.env, "NAME=VALUE; may be repeated")->allow_extra_args(false);

  CLI::App* copy =
      commands.calling(app, "cp", "copy files and directories into or out of a sandbox",
                       "  sandboxkit cp ./src build:/home/user/src\n"
                       "  sandboxkit cp build:/home/user/out/report.html .\n"
                       "  pg_dump db | sandboxkit cp - build:/tmp/db.sql\n"
                       "  sandboxkit cp build:/var/log/app.log - | tail",
                       [](Arguments& a) { return copy_files(a.common, a.from, a.to); });
  copy->add_option("from", args.from, "LOCAL, SANDBOX:PATH, or - for standard input")->required();
  copy->add_option("to", args.to, "SANDBOX:PATH, LOCAL, or - for standard output")->required();
}

void add_egress_commands(Commands& commands, CLI::App* egress) {
  Arguments& args = commands.args();
  CLI::App* denied = commands.online(
      egress, "denied", "what a sandbox's wall refused",
      "  sandboxkit egress denied build\n  sandboxkit egress denied build --follow\n"
      "  sandboxkit egress denied build --suggest > policy.json",
      [](Arguments& a) { return list_denied(a.common, a.denied); });
  denied->add_option("sandbox", args.denied.sandbox, "name or id")->required();
  denied->add_flag("-f,--follow", args.denied.follow, "go on with what is refused from now on");
  denied->add_flag("--suggest", args.denied.suggest,
                   "print the policy entries that would allow it, for review");
  CLI::App* set = commands.online(
      egress, "set", "record the policy of a sandbox's next creation, or narrow its wall now",
      "  sandboxkit egress set build --allow packages.example.org --allow pypi.org\n"
      "  sandboxkit egress set build --deny-all --now",
      [](Arguments& a) { return set_egress(a.common, a.egress); });
  set->add_option("sandbox", args.egress.sandbox, "name or id")->required();
  set->add_option("--allow", args.egress.allow, "DOMAIN[:PORT] or *.DOMAIN; may be repeated")
      ->allow_extra_args(false);
  set->add_option("--allow-network", args.egress.allow_networks,
                  "CIDR[:PORT] of a private network; may be repeated")
      ->allow_extra_args(false);
  set->add_flag("--deny-all", args.egress.deny_all, "nothing may be reached");
  set->add_flag("--now", args.egress.now,
                "narrow the wall of the sandbox that runs; what allows more is refused");
}

void add_policy_commands(Commands& commands) {
  Arguments& args = commands.args();
  CLI::App* egress =
      commands.add(&commands.app(), "egress", "what sandboxes may reach", "", nullptr);
  egress->require_subcommand(1);
  CLI::App* check = commands.add(
      egress, "check", "judge targets by a policy file, without a controller; one JSON line each",
      "  echo '{\"allowed_domains\": [\"*.example.org\"]}' > policy.json\n"
      "  sandboxkit egress check --policy policy.json https://api.example.org/ evil.test:443\n"
      "  sandboxkit egress check --policy policy.json --resolved 169.254.169.254 "
      "api.example.org:443\n"
      "Ends with 0 when all are allowed, 3 when any is denied, 2 for a bad policy.",
      [](Arguments& a) { return check_egress(a.check); });
  check
      ->add_option(
          "--policy", args.check.policy_file,
          "JSON: {\"allowed_domains\": [], \"allowed_networks\": [], \"strict_tls\": false}; - for "
          "standard input")
      ->required();
  check->add_option("--resolved", args.check.resolved, "judge this address of the name as well");
  check->add_option("--sni", args.check.server_name,
                    "judge this TLS server name as well, by the rule of strict TLS");
  check->add_option("target", args.check.targets, "URL or HOST:PORT")->required();
  add_egress_commands(commands, egress);

  CLI::App* place_command = commands.add(
      &commands.app(), "place", "decide where a create would go, from files, without a controller",
      "  sandboxkit place --fleet fleet.json --create create.json --json\n\n"
      "fleet:  {\"workers\": [{\"id\": \"w-1\", \"workspace\": \"acme\"}], \"overcommit\": "
      "{\"cpu\": 4, \"memory\": 1},\n"
      "         \"seed\": 1}; a worker's id and workspace (\"\": every workspace) are required, "
      "and else:\n"
      "         state ready, capabilities [], labels {}, runtimes [\"runc\"], arch amd64, "
      "cpu_cores 1,\n"
      "         memory_mb 1024, used_cpu_cores 0, used_memory_mb 0, sandboxes 0, max_sandboxes "
      "100,\n"
      "         starting 0, max_starting 4, images [], warm {}\n"
      "create: {\"tenant\": \"acme\"} is required, and else: image sandboxkit/base, cpu_cores 1,\n"
      "         memory_mb 512, egress null (no wall), runtime any, labels {}, policy spread (or "
      "pack)\n"
      "Ends with 0 when placed, 3 when refused, 2 for bad input.",
      [](Arguments& a) { return place(a.place); });
  place_command->add_option("--fleet", args.place.fleet_file, "the fleet's file")->required();
  place_command->add_option("--create", args.place.create_file, "the create's file")->required();
  place_command
      ->add_option("--repeat", args.place.repeat,
                   "place that many in a row, each on the fleet that the one before left")
      ->check(CLI::Range(1, 1'000'000));
  place_command->add_flag("--json", args.place.json, "one JSON object a line");
}

void add_own_commands(Commands& commands) {
  Arguments& args = commands.args();
  commands.calling(&commands.app(), "login", "keep the controller's address and your key",
                   "  sandboxkit login --url http://controller:7070 < key-file",
                   [](Arguments& a) { return log_in(a.common); });
  CLI::App* app = &commands.app();
  commands
      .add(app, "completion", "print the shell's completion script",
           "  source <(sandboxkit completion bash)\n"
           "  sandboxkit completion bash > /etc/bash_completion.d/sandboxkit",
           [app](Arguments&) {
             write_all(kStandardOutput, bash_completion(*app));
             return kExitOk;
           })
      ->add_option("shell", args.shell, "bash")
      ->check(CLI::IsMember({"bash"}));
  commands.add(app, "version", "print the version", "", [](Arguments&) {
    print_line(std::string("sandboxkit ") + version());
    return kExitOk;
  });
}

bool takes_command(const std::string& name) {
  return name == "run" || name == "exec" || name == "shell" || name == "box";
}

/// What stands after the first `--` is the remote command's, whatever it looks like.
std::vector<std::string> take_tail(std::vector<std::string>& arguments) {
  const auto mark = std::ranges::find(arguments, "--");
  if (arguments.empty() || mark == arguments.end()) {
    return {};
  }
  if (!takes_command(arguments.front())) {
    return {};
  }
  std::vector<std::string> tail(mark + 1, arguments.end());
  arguments.erase(mark, arguments.end());
  return tail;
}

int usage_failure(const CLI::App& app, const CLI::ParseError& error) {
  std::string path = "sandboxkit";
  const CLI::App* at = &app;
  for (auto chosen = at->get_subcommands(); !chosen.empty(); chosen = at->get_subcommands()) {
    at = chosen.front();
    path += " " + at->get_name();
  }
  std::string hint = "see `" + path + " --help`";
  if (takes_command(at->get_name())) {
    hint += "; the command stands after `--`";
  }
  write_all(kStandardError, "sandboxkit: " + std::string(error.what()) + "\n  " + hint + "\n");
  return kExitUsage;
}

bool has_command(const CLI::App& app, const std::string& name) {
  return !app.get_subcommands([&](const CLI::App* sub) { return sub->get_name() == name; }).empty();
}

/// A first word that is no command.
std::optional<std::string> unknown_command(const CLI::App& app,
                                           const std::vector<std::string>& arguments) {
  const bool known = arguments.empty() || arguments.front().starts_with('-') ||
                     has_command(app, arguments.front());
  return known ? std::nullopt : std::optional(arguments.front());
}

}  // namespace

int run_with_arguments(std::vector<std::string> arguments) {
  CLI::App app{"Sandboxes for agents, on your own machines.", "sandboxkit"};
  app.footer(kExitCodes);
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("sandboxkit ") + version());
  Arguments args;
  Commands commands(app, args);
  add_sandbox_commands(commands);
  add_use_commands(commands);
  add_worker_commands(commands);
  add_approval_commands(commands);
  add_key_commands(commands);
  add_policy_commands(commands);
  add_audit_commands(commands);
  add_gate_commands(commands);
  add_grant_commands(commands);
  add_box_command(commands);
  add_own_commands(commands);

  const std::vector<std::string> tail = take_tail(arguments);
  if (arguments.empty()) {
    arguments.emplace_back("--help");
  }
  if (const auto unknown = unknown_command(app, arguments)) {
    return fail(usage_error("there is no command `" + *unknown + "`: see `sandboxkit --help`"));
  }
  std::ranges::reverse(arguments);
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return usage_failure(app, error);
  }
  args.run.command.insert(args.run.command.end(), tail.begin(), tail.end());
  args.exec.command.insert(args.exec.command.end(), tail.begin(), tail.end());
  args.box.command.insert(args.box.command.end(), tail.begin(), tail.end());
  return args.action();
}

}  // namespace sandboxkit::cli
