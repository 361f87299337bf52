// sandboxkit gate: the permission gate of agent mode.

#include "daemons/cli/command_tree.h"

#include <CLI/CLI.hpp>

namespace sandboxkit::cli {

namespace {

/// Whose session it is about.
void add_session_options(CLI::App* command, GateSessionOptions& session) {
  command->add_option("--home", session.home, "whose home is protected (default: HOME)");
  command->add_option("--box", session.box, "on: children are enclosed; off: they are not")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
}

/// What a grant is about, or a question about one.
void add_use_options(CLI::App* command, GrantOptions& options) {
  command
      ->add_option("--op", options.operations,
                   "read, list, write, ...; may be repeated. Without it: a command after `--`")
      ->allow_extra_args(false);
  command->add_option("what", options.what, "the target, or a command's words")->required();
  command->add_option("--tree", options.session.tree, "the work tree (default: here)");
  command->add_option("--agent", options.session.agent, "the agent's name")->required();
  command->add_option("--policy", options.session.policy_file,
                      "the owner's policy (default: policy.json in the gate's folder)");
  command->add_flag("--json", options.json, "print JSON for programs");
}

void add_grant_add(Commands& commands, CLI::App* grant) {
  GrantOptions& options = commands.args().grant;
  CLI::App* add = commands.add(
      grant, "add", "give a grant for one tree and one agent; prints its id",
      "  sandboxkit grant add --agent claude-code --op read --op list '/srv/data/**'\n"
      "  sandboxkit grant add --agent claude-code --for 7d -- git status\n"
      "  sandboxkit grant add --agent claude-code --prefix -- git log\n\n"
      "Ends with 3 when such a grant could never count (shadowed), is too wide, or is the front of "
      "a program\nthat runs whatever follows.",
      [](Arguments& a) { return add_grant(a.grant); });
  add_use_options(add, options);
  add_session_options(add, options.session);
  add->add_flag("--prefix", options.is_prefix, "more words may follow the command's");
  add->add_flag("--needs-box", options.needs_box, "count while a box is active only");
  add->add_option("--for", options.life, "how long it counts: 12h, 30d (default), never");
  add->add_option("--note", options.note, "why, for whoever reads the list");
}

void add_gate_ask(Commands& commands, CLI::App* gate) {
  GateAskOptions& options = commands.args().gate_ask;
  CLI::App* ask = commands.add(
      gate, "ask", "judge requests in a session: asks on the terminal, and writes the audit log",
      "  echo '{\"cwd\": \"/home/me/proj\", \"items\": [{\"op\": \"write\", \"path\": "
      "\"/srv/data/f\"}]}' |\n"
      "    sandboxkit gate ask --policy policy.json --tree /home/me/proj --request -\n\n"
      "Requests are those of `gate check`. Nothing is done but what the answers say: an `always` "
      "is "
      "kept.\n"
      "Ends with 0 when all are allowed, 3 when any is not, 2 for a bad policy or request.",
      [](Arguments& a) { return ask_gate(a.gate_ask); });
  ask->add_option("--policy", options.session.policy_file, "the owner's policy")->required();
  ask->add_option("--tree", options.session.tree, "the work tree, which may be written")
      ->required();
  ask->add_option("--request", options.request_file, "the requests' file, or - for standard input")
      ->required();
  ask->add_option("--state-dir", options.state_folder,
                  "the gate's folder: grants, keys, audit log (default: the gate's own)");
  ask->add_option("--mode", options.session.mode, "off, prompt or strict")
      ->check(CLI::IsMember({"off", "prompt", "strict"}))
      ->capture_default_str();
  add_session_options(ask, options.session);
  ask->add_option("--agent", options.session.agent, "who asks (default: by-hand)");
  ask->add_option("--timeout", options.timeout_seconds, "seconds that an answer may take")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
}

}  // namespace

void add_grant_commands(Commands& commands) {
  GrantOptions& options = commands.args().grant;
  CLI::App* grant = commands.add(&commands.app(), "grant",
                                 "what an agent may do for good on this machine", "", nullptr);
  grant->require_subcommand(1);
  add_grant_add(commands, grant);
  CLI::App* list = commands.add(grant, "list", "list the grants, and which count no more",
                                "  sandboxkit grant list\n  sandboxkit grant list --tree . --json",
                                [](Arguments& a) { return list_grants(a.grant); });
  list->add_option("--tree", options.session.tree, "of this tree alone");
  list->add_option("--agent", options.session.agent, "of this agent alone");
  list->add_flag("--json", options.json, "print JSON for programs");
  list->add_option("--home", options.session.home, "whose grants (default: HOME)");
  CLI::App* remove =
      commands.add(grant, "rm", "take grants back",
                   "  sandboxkit grant rm g_0123456789abcdefghij\n  sandboxkit grant rm --expired",
                   [](Arguments& a) { return remove_grants(a.grant); });
  remove->add_option("id", options.ids, "their ids");
  remove->add_flag("--expired", options.expired, "those that are over, or whose tree is gone");
  remove->add_flag("--all", options.all, "all, also where the file of grants does not count");
  remove->add_option("--home", options.session.home, "whose grants (default: HOME)");
  CLI::App* why =
      commands.add(grant, "why", "which rule or grant speaks for a request, and who gave it",
                   "  sandboxkit grant why --agent claude-code --op read /srv/data/x.csv\n"
                   "  sandboxkit grant why --agent claude-code --box off -- git status\n\n"
                   "Ends with 0 when it is allowed, else 3.",
                   [](Arguments& a) { return explain_grant(a.grant); });
  add_use_options(why, options);
  add_session_options(why, options.session);
}

void add_gate_commands(Commands& commands) {
  GateCheckOptions& options = commands.args().gate;
  CLI::App* gate =
      commands.add(&commands.app(), "gate", "what an agent may do on this machine", "", nullptr);
  gate->require_subcommand(1);
  CLI::App* check = commands.add(
      gate, "check", "judge requests by a policy file, on the real files; one JSON line each",
      "  echo '{\"version\": 1}' > policy.json\n"
      "  echo '{\"cwd\": \"/home/me/proj\", \"items\": [{\"op\": \"write\", \"path\": "
      "\".git/config\"}]}' |\n"
      "    sandboxkit gate check --policy policy.json --tree /home/me/proj --request -\n\n"
      "request: {\"cwd\": DIR, \"items\": [{\"op\": NAME, ...}]}, one, or one a line; with path "
      "(and to),\n"
      "         command or argv, name, or host and port. It changes nothing.\n"
      "Ends with 0 when all are allowed, 3 when any is not, 2 for a bad policy or request.",
      [](Arguments& a) { return check_gate(a.gate); });
  check
      ->add_option("--policy", options.session.policy_file,
                   "the owner's policy; {\"version\": 1} is the shipped lists alone")
      ->required();
  check->add_option("--grants", options.grants_file, "permanent grants; their MAC is not checked");
  check->add_option("--mode", options.session.mode, "off, prompt or strict")
      ->check(CLI::IsMember({"off", "prompt", "strict"}))
      ->capture_default_str();
  check->add_option("--tree", options.session.tree, "the work tree, which may be written")
      ->required();
  check
      ->add_option("--request", options.request_file, "the request's file, or - for standard input")
      ->required();
  add_session_options(check, options.session);
  check->add_option("--agent", options.session.agent, "the agent whose grants count");
  check->add_option("--now", options.now, "judge grants at this time, RFC 3339");
  add_gate_ask(commands, gate);
}

}  // namespace sandboxkit::cli
