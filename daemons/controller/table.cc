#include "daemons/controller/options.h"
#include "daemons/settings/listen.h"
#include "daemons/settings/logging.h"
#include "daemons/settings/settings.h"

namespace sandboxkit::daemons {
namespace {

constexpr std::int64_t kDayMs = 86'400'000;

void add_limits(config::Table& table, ControllerConfig& config) {
  table.integer(
      {.key = "max_sandboxes_per_workspace", .help = "sandboxes that a workspace may have at once"},
      config.max_sandboxes_per_workspace, {0, 1'000'000});
  table.decimal({.key = "max_cpu_cores_per_workspace",
                 .help = "cores that they may reserve together; -1: no limit"},
                config.max_cpu_cores_per_workspace, -1, 1e6);
  table.integer({.key = "max_memory_mb_per_workspace",
                 .help = "memory that they may reserve together; -1: no limit"},
                config.max_memory_mb_per_workspace, {-1, 1'000'000'000});
  table.integer({.key = "max_connections", .help = "connections at once"}, config.max_connections,
                {1, 1'000'000});
  table.integer({.key = "api.threads", .help = "threads for short API calls"}, config.api_threads,
                {1, 256});
  table.integer({.key = "api.queue", .help = "short API calls that may wait for a thread"},
                config.api_queue, {1, 1'000'000});
  table.integer({.key = "api.max_body_bytes", .help = "body of a short API call"},
                config.max_body_bytes, {1024, 64 << 20});
  table.integer(
      {.key = "rate_limit_per_key", .help = "calls a second of one credential; 0: no limit"},
      config.rate_limit_per_key, {0, 1'000'000});
  table.integer({.key = "rate_limit_burst", .help = "calls of one credential at once"},
                config.rate_limit_burst, {1, 1'000'000});
  table.integer({.key = "failed_auth_per_minute",
                 .help = "wrong credentials of one address; 0 (behind a reverse proxy): no limit"},
                config.failed_auth_per_minute, {0, 1'000'000});
  table.time<std::chrono::milliseconds>(
      {.key = "shutdown_grace_ms", .help = "how long a stop waits for calls and streams"},
      config.shutdown_grace, {0, kDayMs});
  table.time<std::chrono::milliseconds>(
      {.key = "create_wait_ms", .help = "how long a create may take to run"}, config.create_wait,
      {1, kDayMs});
  table.time<std::chrono::milliseconds>(
      {.key = "unreachable_after_ms",
       .help = "a worker without a heartbeat for this long gets no new work"},
      config.unreachable_after, {1, kDayMs});
  table.time<std::chrono::milliseconds>(
      {.key = "lost_after_ms",
       .help = "a worker without heartbeat and tunnel for this long is lost"},
      config.lost_after, {1, kDayMs});
  table.time<std::chrono::days>(
      {.key = "worker_credential_ttl_days", .help = "how long a worker's credential counts"},
      config.worker_credential_ttl, {1, 36'500});
  table.time<std::chrono::days>(
      {.key = "worker_renewal_window_days",
       .help = "how long after its end a worker's credential may still be renewed"},
      config.worker_renewal_window, {0, 36'500});
  table.time<std::chrono::days>({.key = "audit_retention_days",
                                 .help = "how long lines of the audit log are kept; -1: for ever"},
                                config.audit_retention, {-1, 36'500});
  table.rule({{"lost_after_ms", "unreachable_after_ms"}, [&config]() -> std::string {
                return config.lost_after < config.unreachable_after
                           ? "`lost_after_ms` must be at least `unreachable_after_ms`"
                           : "";
              }});
}

void add_placement(config::Table& table, PlacementPolicy& placement) {
  table.decimal({.key = "placement.cpu_overcommit",
                 .help = "cores that may be reserved, as a multiple of a worker's"},
                placement.cpu_overcommit, 0.1, 100);
  table.decimal({.key = "placement.memory_overcommit",
                 .help = "memory that may be reserved, as a multiple of a worker's"},
                placement.memory_overcommit, 0.1, 100);
  table.choice({.key = "placement.strategy",
                .help = "spread over the fleet, or fill one worker before the next"},
               placement.strategy,
               {{"spread", PlacementStrategy::kSpread}, {"pack", PlacementStrategy::kPack}});
  table.integer({.key = "placement.candidates", .help = "workers that are compared; 0: all"},
                placement.candidates, {0, 10'000});
  table.time<std::chrono::seconds>({.key = "placement.retry_after_seconds",
                                    .help = "how long a caller without room is told to wait"},
                                   placement.retry_after, {1, 3600});
}

}  // namespace

config::Table table_of(ControllerOptions& options) {
  config::Table table("SANDBOXKIT_CONTROLLER_");
  add_config_option(table, options.config_file);
  table.text({.key = "state_dir",
              .help = "folder of the store and of operator.key; made when absent",
              .required = true},
             options.config.state_dir);
  add_listen(table,
             {.key = "listen", .help = "address of all traffic; port 0: the kernel's choice"},
             options.config.listen_address, options.config.port);
  add_listen(table,
             {.key = "metrics_listen",
              .help = "address of /metrics, /healthz and /readyz, which need no credential",
              .default_words = "off"},
             options.config.metrics_address, options.config.metrics_port);
  table.text({.key = "secrets_key_file",
              .help = "32 random bytes, mode 0600, that seal lent secrets in the store; without it "
                      "none are lent"},
             options.config.secrets_key_file);
  table.text({.key = "port_file", .help = "file that gets the port once it is known"},
             options.port_file);
  add_limits(table, options.config);
  add_placement(table, options.config.placement);
  add_logging(table, options.log_level, options.log_json);
  return table;
}

}  // namespace sandboxkit::daemons
