#pragma once

#include "sandboxkit/docker_driver.h"
#include "sandboxkit/events.h"
#include "sandboxkit/local_driver.h"
#include "sandboxkit/worker.h"

#include "config/table.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::daemons {

struct WorkerOptions {
  std::string config_file;
  WorkerConfig config;
  /// Used once; empty when the worker joined already.
  std::string join_token;
  std::string join_token_file;
  std::string name;
  std::string driver = "docker";
  std::string engine_socket = "/var/run/docker.sock";
  std::string guest_binary = SANDBOXKIT_HELPER_DIR "/sandboxkit-guest";
  std::string egress_binary = SANDBOXKIT_HELPER_DIR "/sandboxkit-egress";
  EgressStructure egress_structure = EgressStructure::kAuto;
  std::string subnet_pool = "10.231.0.0/16";
  std::int64_t wall_pool = 2;
  std::vector<std::string> dns_servers;
  std::vector<std::string> egress_hosts;
  std::string egress_ca_file = "/etc/ssl/certs/ca-certificates.crt";
  /// Of the driver `local`.
  std::string work_tree;
  std::string home;
  std::string gate_dir;
  std::string agent = "agent";
  PermissionMode permission_mode = PermissionMode::kPrompt;
  std::chrono::milliseconds ask_timeout{120'000};
  bool asks_on_terminal = false;
  bool allow_root = false;
  Severity log_level = Severity::kInfo;
  bool log_json = false;
};

/// Every option, bound to `options`, which must outlive the table. A new option is a line there.
config::Table table_of(WorkerOptions& options);

/// Reads file, flags and environment. Empty when there is nothing to run: `exit_code` says how to
/// end (help, version and a good `--check-config` end well; the reason was printed).
std::optional<WorkerOptions> read_worker_options(int argc, char** argv, int& exit_code);

/// The driver that the options name, under the worker's identity.
Result<std::unique_ptr<Driver>> make_driver(const WorkerOptions& options,
                                            const WorkerIdentity& identity);

}  // namespace sandboxkit::daemons
