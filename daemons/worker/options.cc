#include "daemons/worker/options.h"

#include "sandboxkit/terminal_prompt.h"

#include "daemons/settings/settings.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include <unistd.h>

namespace sandboxkit::daemons {
namespace {

/// The first line of a file, for a token that must not stand on a command line; "" when there is
/// none.
std::string first_line(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                             &std::fclose);
  std::array<char, 512> line{};
  if (!file || std::fgets(line.data(), static_cast<int>(line.size()), file.get()) == nullptr) {
    return {};
  }
  std::string token(line.data());
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) {
    token.pop_back();
  }
  return token;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// What agent mode must know before the worker joins anything.
void note_problems_of_agent_mode(const WorkerOptions& options, Settings& settings) {
  if (options.driver != "local") {
    return;
  }
  const auto note = [&](const char* key, const char* problem) {
    settings.reading.problems.push_back({settings.reading.origin_of(key).where, problem});
  };
  if (options.work_tree.empty()) {
    note("work_tree",
         "the driver `local` needs the folder that agents may change: --work-tree DIR");
  }
  if (::geteuid() == 0 && !options.allow_root) {
    note(
        "driver",
        "agent mode does not run as root: start the worker as the person whose work tree it is, or "
        "say --allow-root");
  }
}

Result<std::unique_ptr<Driver>> make_local_driver(const WorkerOptions& options,
                                                  const WorkerIdentity& identity) {
  LocalDriverConfig config{.controller = identity.controller,
                           .worker = identity.worker,
                           .state_dir = options.config.state_dir,
                           .guest_binary = options.guest_binary,
                           .egress_binary = options.egress_binary,
                           .tree = options.work_tree,
                           .home = options.home.empty() ? variable("HOME") : options.home,
                           .gate_dir = options.gate_dir,
                           .mode = options.permission_mode,
                           .agent = options.agent,
                           .allow_root = options.allow_root,
                           .ask_timeout = options.ask_timeout};
  if (config.gate_dir.empty()) {
    const std::string state = variable("XDG_STATE_HOME");
    config.gate_dir = (state.empty() ? config.home + "/.local/state" : state) + "/sandboxkit/gate";
  }
  config.dns_servers = options.dns_servers;
  config.egress_hosts = options.egress_hosts;
  if (options.asks_on_terminal) {
    auto terminal = controlling_terminal_handler();
    if (!terminal) {
      Error error = terminal.error();
      error.field = "ask_on";
      return error;
    }
    config.prompts = std::move(*terminal);
  }
  auto driver = LocalDriver::create(std::move(config), system_clock());
  if (!driver) {
    return driver.error();
  }
  return std::unique_ptr<Driver>(std::move(*driver));
}

}  // namespace

std::optional<WorkerOptions> read_worker_options(int argc, char** argv, int& exit_code) {
  const Program program{.name = "sandboxkit-worker",
                        .purpose = "Keeps a machine's sandboxes as the controller orders them."};
  WorkerOptions options;
  const config::Table table = table_of(options);
  Settings settings = read_settings(program, table, argc, argv);
  const std::string token =
      options.join_token_file.empty() ? options.join_token : first_line(options.join_token_file);
  if (!options.join_token_file.empty() && token.empty()) {
    settings.reading.problems.push_back(
        {settings.reading.origin_of("join_token_file").where,
         "no token can be read from `" + options.join_token_file + "`"});
  }
  note_problems_of_agent_mode(options, settings);
  if (const auto end = conclude(program, table, settings)) {
    exit_code = *end;
    return std::nullopt;
  }
  if (options.driver == "local" && options.permission_mode != PermissionMode::kOff) {
    options.config.max_sandboxes = 1;  // One box works in a tree.
  }
  // After what was shown: the option itself says where the token is from.
  options.join_token = token;
  return options;
}

Result<std::unique_ptr<Driver>> make_driver(const WorkerOptions& options,
                                            const WorkerIdentity& identity) {
  if (options.driver == "local") {
    return make_local_driver(options, identity);
  }
  DockerDriverConfig config{.controller = identity.controller,
                            .worker = identity.worker,
                            .state_dir = options.config.state_dir,
                            .guest_binary = options.guest_binary,
                            .egress_binary = options.egress_binary};
  config.engine_socket = options.engine_socket;
  config.egress_structure = options.egress_structure;
  config.subnet_pool = options.subnet_pool;
  config.wall_pool = static_cast<std::size_t>(options.wall_pool);
  config.dns_servers = options.dns_servers;
  config.egress_hosts = options.egress_hosts;
  config.egress_ca_file = options.egress_ca_file;
  auto driver = DockerDriver::create(std::move(config));
  if (!driver) {
    return driver.error();
  }
  return std::unique_ptr<Driver>(std::move(*driver));
}

}  // namespace sandboxkit::daemons
