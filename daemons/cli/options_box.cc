// sandboxkit box: a local command behind walls of this machine's kernel.

#include "daemons/cli/command_tree.h"

#include <CLI/CLI.hpp>

namespace sandboxkit::cli {

void add_box_command(Commands& commands) {
  BoxRunOptions& options = commands.args().box;
  CLI::App* box = commands.add(
      &commands.app(), "box", "run a command of this machine in a box, without a controller",
      "  sandboxkit box -- make test\n"
      "  sandboxkit box --profile claude -- claude\n"
      "  sandboxkit box --profile aider --review --allow docs.example.org -- aider\n"
      "  sandboxkit box --probe\n\n"
      "It sees the tree, /usr and the like, an empty home, and what the policy or a grant names. "
      "It reaches\nnothing but what --allow, the profile or the policy name. Keys stay outside.\n"
      "--live (default) changes the tree at once and sets apart what nobody may make; --staged "
      "keeps changes\naside and makes those that the gate allows when the command ends; --review "
      "asks you first.\nEnds with the command's code; 2 to 5 beside a line `sandboxkit: ...` when "
      "it did not start.",
      [](Arguments& a) { return run_box(a.box); });
  box->add_option("--profile", options.profile,
                  "what a program needs: claude, aider, goose, codex, shell, or a file");
  box->add_option("--policy", options.session.policy_file,
                  "the owner's policy (default: policy.json in the gate's folder)");
  box->add_option("--tree", options.session.tree, "the work tree (default: here)");
  box->add_option("--home", options.session.home, "whose home is protected (default: HOME)");
  box->add_option("--allow", options.allow,
                  "DOMAIN[:PORT] or *.DOMAIN that it may reach; may be repeated")
      ->allow_extra_args(false);
  box->add_option("--allow-network", options.allow_networks,
                  "CIDR[:PORT] of a private network that it may reach; may be repeated")
      ->allow_extra_args(false);
  box->add_option("--host", options.hosts,
                  "NAME=ADDRESS that you state: not resolved, and not refused as private")
      ->allow_extra_args(false);
  box->add_option("--env", options.env, "NAME=VALUE, or NAME to pass ours on; may be repeated")
      ->allow_extra_args(false);
  box->add_flag("--live", options.live, "change the tree at once (default)");
  box->add_flag("--staged", options.staged, "keep changes aside until the command ended");
  box->add_flag("--review", options.review, "staged, and you are asked before they are made");
  box->add_flag("--nested", options.allow_nested, "it may build a sandbox of its own inside");
  box->add_flag("--fresh-home", options.fresh_home, "an empty home in memory, with a profile too");
  box->add_flag("--allow-root", options.allow_root, "run it although you are root");
  box->add_flag("--probe", options.probe, "tell what this machine's kernel gives, and end");
  box->add_option("--egress-binary", options.egress_binary,
                  "the static sandboxkit-egress (default: where it was installed)");
  box->add_option("command", options.command, "the command, after `--`");
}

}  // namespace sandboxkit::cli
