#include "daemons/settings/listen.h"
#include "daemons/settings/logging.h"
#include "daemons/settings/settings.h"
#include "daemons/worker/options.h"

namespace sandboxkit::daemons {
namespace {

constexpr std::int64_t kDayMs = 86'400'000;
/// The worker asks for no less.
constexpr std::int64_t kLeastIntervalMs = 100;

void add_joining(config::Table& table, WorkerOptions& options) {
  table.text({.key = "controller", .help = "the controller: http://HOST:PORT", .required = true},
             options.config.controller_url);
  table.text({.key = "state_dir",
              .help = "folder of the credential, the journal and the sandboxes' sockets; "
                      "absolute, made when absent",
              .required = true},
             options.config.state_dir);
  table.text({.key = "join_token",
              .help = "needed once, to join the controller",
              .variable = "SANDBOXKIT_JOIN_TOKEN",
              .secret = true},
             options.join_token);
  table.text({.key = "join_token_file", .help = "file whose first line is the join token"},
             options.join_token_file);
  table.exclusive("join_token", "join_token_file");
  table.text(
      {.key = "name", .help = "the worker's name for people", .default_words = "the host's name"},
      options.name);
}

void add_driver(config::Table& table, WorkerOptions& options) {
  table.choice({.key = "driver", .help = "what runs the sandboxes"}, options.driver,
               {{"docker", std::string("docker")}, {"local", std::string("local")}});
  table.text({.key = "engine_socket", .help = "unix socket of the Docker Engine"},
             options.engine_socket);
  table.text({.key = "guest_binary",
              .help = "the static sandboxkit-guest",
              .default_words = "LIBEXECDIR/sandboxkit/sandboxkit-guest"},
             options.guest_binary);
  table.text({.key = "egress_binary",
              .help = "the static sandboxkit-egress",
              .default_words = "LIBEXECDIR/sandboxkit/sandboxkit-egress"},
             options.egress_binary);
  table.choice({.key = "egress_structure",
                .help = "how walls are made; auto: the strongest that this machine proved"},
               options.egress_structure,
               {{"auto", EgressStructure::kAuto},
                {"isolated-ns", EgressStructure::kIsolatedNs},
                {"internal-net", EgressStructure::kInternalNet}});
  table.text({.key = "subnet_pool", .help = "block from which each walled sandbox gets a /29"},
             options.subnet_pool);
  table.integer({.key = "wall_pool",
                 .help = "walls that are made before a sandbox needs one: an idle container each "
                         "(isolated-ns), or a network with two (internal-net); 0: none"},
                options.wall_pool, {0, 64});
  table.list({.key = "dns",
              .help = "resolver of the egress proxies, ADDRESS[:PORT]",
              .default_words = "the engine's"},
             options.dns_servers);
  table.pairs({.key = "egress_hosts",
               .help = "name with its address that the egress proxies take for granted",
               .flag = "--egress-host"},
              options.egress_hosts);
  table.text({.key = "egress_ca_file",
              .help = "PEM file with the roots that servers of lent secrets are proven by"},
             options.egress_ca_file);
}

/// Agent mode: sandboxes are boxes on this machine.
void add_agent_mode(config::Table& table, WorkerOptions& options) {
  table.choice({.key = "permission_mode",
                .help = "driver local: what becomes of what the permission gate does not settle; "
                        "off: nothing is judged, and there is no box"},
               options.permission_mode,
               {{"off", PermissionMode::kOff},
                {"prompt", PermissionMode::kPrompt},
                {"strict", PermissionMode::kStrict}});
  table.text({.key = "work_tree",
              .help = "driver local: the folder that agents may change; absolute",
              .default_words = "none: it must be named"},
             options.work_tree);
  table.text({.key = "home",
              .help = "driver local: the home whose files are protected",
              .default_words = "HOME"},
             options.home);
  table.text({.key = "gate_dir",
              .help = "driver local: folder of the gate's policy.json, grants and audit log",
              .default_words = "XDG_STATE_HOME/sandboxkit/gate, or HOME/.local/state/..."},
             options.gate_dir);
  table.text({.key = "agent", .help = "driver local: the name that grants are kept for"},
             options.agent);
  table.time<std::chrono::milliseconds>(
      {.key = "ask_timeout_ms", .help = "driver local: what nobody answers by then is denied"},
      options.ask_timeout, {1'000, 3'600'000});
  table.choice({.key = "ask_on",
                .help = "driver local: where a person is asked: `sandboxkit approvals` of the "
                        "controller's owners, or the terminal that the worker was started on"},
               options.asks_on_terminal, {{"controller", false}, {"terminal", true}});
  table.boolean({.key = "allow_root", .help = "driver local: let agents be root on this machine"},
                options.allow_root);
}

void add_limits(config::Table& table, WorkerConfig& config) {
  table.pairs({.key = "labels", .help = "what creates can ask for", .flag = "--label"},
              config.labels);
  table.integer({.key = "max_sandboxes", .help = "sandboxes at once"}, config.max_sandboxes,
                {1, 100'000});
  table.integer({.key = "max_starting", .help = "creates at once; 0: one a core"},
                config.max_starting, {0, 256});
  table.time<std::chrono::milliseconds>(
      {.key = "heartbeat_interval_ms", .help = "between two heartbeats"}, config.heartbeat_interval,
      {kLeastIntervalMs, kDayMs});
  table.time<std::chrono::milliseconds>(
      {.key = "reconcile_interval_ms", .help = "between two comparisons of journal and engine"},
      config.reconcile_interval, {kLeastIntervalMs, kDayMs});
  table.time<std::chrono::milliseconds>(
      {.key = "start_lease_ms",
       .help = "creates under way are undone when the tunnel is down for this long"},
      config.start_lease, {kLeastIntervalMs, kDayMs});
  table.time<std::chrono::milliseconds>(
      {.key = "orphan_grace_ms", .help = "sandboxes that nobody explains are removed after this"},
      config.orphan_grace, {1, kDayMs});
}

}  // namespace

config::Table table_of(WorkerOptions& options) {
  config::Table table("SANDBOXKIT_WORKER_");
  add_config_option(table, options.config_file);
  add_joining(table, options);
  add_driver(table, options);
  add_agent_mode(table, options);
  add_limits(table, options.config);
  add_listen(table,
             {.key = "metrics_listen",
              .help = "address of /metrics, /healthz and /readyz, which need no credential",
              .default_words = "off"},
             options.config.metrics_address, options.config.metrics_port);
  add_logging(table, options.log_level, options.log_json);
  return table;
}

}  // namespace sandboxkit::daemons
