// sandboxkit gate: the permission gate of agent mode.

#include "daemons/cli/command_tree.h"

#include <CLI/CLI.hpp>

namespace sandboxkit::cli {

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
      ->add_option("--policy", options.policy_file,
                   "the owner's policy; {\"version\": 1} is the shipped lists alone")
      ->required();
  check->add_option("--grants", options.grants_file, "permanent grants; their MAC is not checked");
  check->add_option("--mode", options.mode, "off, prompt or strict")
      ->check(CLI::IsMember({"off", "prompt", "strict"}))
      ->capture_default_str();
  check->add_option("--tree", options.tree, "the work tree, which may be written")->required();
  check
      ->add_option("--request", options.request_file, "the request's file, or - for standard input")
      ->required();
  check->add_option("--home", options.home, "whose home is protected (default: HOME)");
  check->add_option("--box", options.box, "on: children are enclosed; off: they are not")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  check->add_option("--agent", options.agent, "the agent whose grants count");
  check->add_option("--now", options.now, "judge grants at this time, RFC 3339");
}

}  // namespace sandboxkit::cli
