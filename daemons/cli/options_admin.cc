#include "cli/commands.h"
#include "cli/exit_code.h"
#include "daemons/cli/command_tree.h"

#include <string>

// The commands of whoever looks after workers, credentials and the log.

namespace sandboxkit::cli {

void add_worker_commands(Commands& commands) {
  Arguments& args = commands.args();
  CLI::App* workers = commands.online(
      &commands.app(), "workers", "list workers, and change them",
      "  sandboxkit workers\n  sandboxkit workers cordon w-0123456789ab   # no new sandboxes on it",
      [](Arguments& a) { return list_workers(a.common); });
  workers->require_subcommand(0, 1);
  const auto with_id = [&](CLI::App* command) {
    command->add_option("worker", args.id, "the worker's id")->required();
  };
  with_id(commands.online(workers, "cordon", "give it no new sandboxes", "",
                          [](Arguments& a) { return change_worker(a.common, a.id, "cordon"); }));
  with_id(commands.online(workers, "uncordon", "give it new sandboxes again", "",
                          [](Arguments& a) { return change_worker(a.common, a.id, "uncordon"); }));
  CLI::App* drain = commands.online(
      workers, "drain", "give it no new sandboxes, and stop what runs at the deadline",
      "  sandboxkit workers drain w-0123456789ab                 # until all have ended\n"
      "  sandboxkit workers drain w-0123456789ab --deadline 10m",
      [](Arguments& a) { return drain_worker(a.common, a.id, a.timeout); });
  with_id(drain);
  drain->add_option("--deadline", args.timeout, "how long what runs may go on, such as 90s or 2h");
  CLI::App* taint = commands.online(
      workers, "taint", "replace its taints: only creates that tolerate them land on it",
      "  sandboxkit workers taint w-0123456789ab gpu-only\n"
      "  sandboxkit workers taint w-0123456789ab              # lift all",
      [](Arguments& a) { return taint_worker(a.common, a.id, a.names); });
  with_id(taint);
  taint->add_option("taint", args.names, "the taints");
  with_id(commands.online(workers, "rm", "forget it and revoke its credential", "",
                          [](Arguments& a) { return remove_worker(a.common, a.id); }));

  CLI::App* token = commands.add(&commands.app(), "token", "join tokens for workers", "", nullptr);
  token->require_subcommand(1);
  CLI::App* create = commands.online(
      token, "create", "make a join token; prints it, once",
      "  sandboxkit token create                 # one use, 15 minutes\n"
      "  sandboxkit token create --name build-1  # for a worker of that name\n"
      "  sandboxkit token create --unscoped      # operator: a worker for every workspace",
      [](Arguments& a) { return create_token(a.common, a.token); });
  create->add_option("--name", args.token.name, "the worker's name");
  create->add_option("--ttl", args.token.ttl, "how long it counts (default 15m)");
  create->add_option("--uses", args.token.max_uses, "how many workers may join (default 1)");
  create
      ->add_option("--capability", args.token.capabilities,
                   "the most that its workers may offer; may be repeated (default: all)")
      ->allow_extra_args(false);
  create
      ->add_option("--network", args.token.networks,
                   "ADDRESS/BITS from which it counts; may be repeated (default: any)")
      ->allow_extra_args(false);
  create->add_flag("--unscoped", args.token.unscoped,
                   "for the fleet of every workspace (operator)");
  commands.online(token, "ls", "list join tokens", "",
                  [](Arguments& a) { return list_tokens(a.common); });
  commands
      .online(token, "rm", "revoke a join token", "",
              [](Arguments& a) { return remove_token(a.common, a.id); })
      ->add_option("id", args.id, "the token's id")
      ->required();
}

void add_approval_commands(Commands& commands) {
  Arguments& args = commands.args();
  CLI::App* approvals = commands.online(
      &commands.app(), "approvals", "what agents on people's machines ask, and answer it",
      "  sandboxkit approvals --wait 60\n"
      "  sandboxkit approvals answer i0123456789ab.p_0123456789 once",
      [](Arguments& a) { return list_approvals(a.common, a.wait_seconds); });
  approvals->require_subcommand(0, 1);
  approvals
      ->add_option("--wait", args.wait_seconds, "seconds to wait for a question when there is none")
      ->check(CLI::Range(0, 60));
  CLI::App* answer =
      commands.online(approvals, "answer", "answer one question", "",
                      [](Arguments& a) { return answer_approval(a.common, a.id, a.name); });
  answer->add_option("id", args.id, "the question's id")->required();
  answer
      ->add_option("answer", args.name,
                   "once, session, always_this, always_folder, no or no_for_session, as far as the "
                   "question offers it; of a budget continue or stop")
      ->required();
}

void add_key_commands(Commands& commands) {
  Arguments& args = commands.args();
  CLI::App* key = commands.add(&commands.app(), "key", "keys of the workspace", "", nullptr);
  key->require_subcommand(1);
  CLI::App* create =
      commands.online(key, "create", "make a key; prints it, once",
                      "  sandboxkit key create --role member --name ci --max-sandboxes 5\n"
                      "  sandboxkit key create --sandbox build --ttl 1h   # opens that one alone",
                      [](Arguments& a) { return create_key(a.common, a.key); });
  create->add_option("--role", args.key.role, "owner or member")->capture_default_str();
  create->add_option("--name", args.key.name, "what it is for");
  create->add_option("--ttl", args.key.ttl, "how long it counts (default: until it is revoked)");
  create->add_option("--max-sandboxes", args.key.max_sandboxes,
                     "sandboxes that it may have at once");
  create->add_option("--max-cpu-cores", args.key.max_cpu_cores, "cores of all of them");
  create->add_option("--max-memory-mb", args.key.max_memory_mb, "memory of all of them");
  create->add_option("--sandbox", args.key.sandbox, "make a token for this sandbox, and no key");
  commands
      .online(key, "ls", "list keys", "",
              [](Arguments& a) { return list_keys(a.common, a.key.sandbox); })
      ->add_option("--sandbox", args.key.sandbox, "list the tokens of this sandbox");
  CLI::App* remove = commands.online(key, "rm", "revoke a key", "", [](Arguments& a) {
    return remove_key(a.common, a.id, a.key.sandbox);
  });
  remove->add_option("id", args.id, "the key's id")->required();
  remove->add_option("--sandbox", args.key.sandbox, "revoke a token of this sandbox");

  CLI::App* workspace =
      commands.add(&commands.app(), "workspace", "workspaces (operator)", "", nullptr);
  workspace->require_subcommand(1);
  CLI::App* made =
      commands.online(workspace, "create", "make a workspace; prints its first owner's key, once",
                      "  sandboxkit workspace create acme --max-sandboxes 50",
                      [](Arguments& a) { return create_workspace(a.common, a.workspace); });
  made->add_option("id", args.workspace.id, "its id")->required();
  made->add_option("--name", args.workspace.name, "its name for people");
  CLI::App* limit = commands.online(
      workspace, "limit", "replace a workspace's limits; what is absent is the default",
      "  sandboxkit workspace limit acme --max-sandboxes 50 --max-memory-mb 65536",
      [](Arguments& a) { return limit_workspace(a.common, a.workspace); });
  limit->add_option("id", args.workspace.id, "its id")->required();
  for (CLI::App* command : {made, limit}) {
    command->add_option("--max-sandboxes", args.workspace.max_sandboxes,
                        "how many may exist at once");
    command->add_option("--max-cpu-cores", args.workspace.max_cpu_cores,
                        "cores that they may reserve together");
    command->add_option("--max-memory-mb", args.workspace.max_memory_mb,
                        "memory that they may reserve together");
  }
  commands.online(workspace, "ls", "list workspaces", "",
                  [](Arguments& a) { return list_workspaces(a.common); });
}

namespace {

constexpr std::int64_t kMaxShownLines = 100'000;

int verify_either(Arguments& a) {
  if (a.from.empty() && a.gate_audit.dir.empty()) {
    return fail(usage_error("name the log: --state-dir for a controller's, --dir for a gate's"));
  }
  if (!a.from.empty()) {
    return verify_audit_log(a.from, a.common.json);
  }
  a.gate_audit.json = a.common.json;
  return verify_gate_audit(a.gate_audit);
}

/// The lines of a permission gate's log.
void add_gate_audit_commands(Commands& commands, CLI::App* audit) {
  GateAuditOptions& options = commands.args().gate_audit;
  CLI::App* show = commands.add(
      audit, "show", "lines of a permission gate's log, oldest first",
      "  sandboxkit audit show --dir ~/.local/state/sandboxkit/gate/audit --decision deny",
      [](Arguments& a) {
        a.gate_audit.limit = a.gate_audit.limit > 0 ? a.gate_audit.limit : 1000;
        return show_gate_audit(a.gate_audit);
      });
  CLI::App* tail =
      commands.add(audit, "tail", "the last lines of a permission gate's log, and what follows",
                   "  sandboxkit audit tail --dir ~/.local/state/sandboxkit/gate/audit --follow",
                   [](Arguments& a) {
                     a.gate_audit.limit = a.gate_audit.limit > 0 ? a.gate_audit.limit : 10;
                     return tail_gate_audit(a.gate_audit);
                   });
  for (CLI::App* command : {show, tail}) {
    command->add_option("--dir", options.dir, "the folder of the log")->required();
    command->add_option("--session", options.session, "only lines of this session");
    command->add_option("--kind", options.kind, "only lines of this kind, such as decision");
    command->add_option("--decision", options.decision, "only allow, deny or ask");
    command->add_flag("--json", options.json, "print the lines as they stand in the files");
    command->add_option("--lines", options.limit, "how many, the newest (show: 1000, tail: 10)")
        ->check(CLI::Range(std::int64_t{1}, kMaxShownLines));
  }
  tail->add_flag("-f,--follow", options.follow, "go on with what is written from now on");
}

}  // namespace

void add_audit_commands(Commands& commands) {
  Arguments& args = commands.args();
  CLI::App* audit = commands.add(&commands.app(), "audit", "who did what", "", nullptr);
  audit->require_subcommand(1);
  commands
      .online(audit, "list", "lines of your workspace (operator: those of none), oldest first",
              "  sandboxkit audit list --json > lines.json",
              [](Arguments& a) { return list_audit(a.common, a.id); })
      ->add_option("--after", args.id, "only what follows the line of this id");
  CLI::App* verify = commands.add(
      audit, "verify", "check a log's chain of hashes where it lies, also while it is written",
      "  sandboxkit audit verify --state-dir /var/lib/sandboxkit/controller\n"
      "  sandboxkit audit verify --dir ~/.local/state/sandboxkit/gate/audit --key-file FILE\n"
      "Says where it is broken. Ends with 0 when it is intact and 3 when it is broken; with --dir: "
      "0,\n"
      "1, and 2 when that cannot be told.",
      verify_either);
  CLI::Option* state_dir =
      verify->add_option("--state-dir", args.from, "the controller's state folder");
  CLI::Option* dir =
      verify->add_option("--dir", args.gate_audit.dir, "the folder of a permission gate's log");
  dir->excludes(state_dir);
  verify
      ->add_option("--key-file", args.gate_audit.key_file,
                   "what the heads of that log are signed with")
      ->needs(dir);
  verify->add_flag("--json", args.common.json, "print JSON for programs");
  add_gate_audit_commands(commands, audit);
}

}  // namespace sandboxkit::cli
