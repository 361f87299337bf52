#include "daemons/controller/options.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>

#include <CLI/CLI.hpp>

namespace sandboxkit::daemons {
namespace {

constexpr int kExitUsage = 2;
constexpr unsigned long kMaxPort = 65535;

/// `HOST:PORT` or `[HOST]:PORT`; empty on success, else what is wrong.
std::string read_listen(const std::string& text, ControllerConfig& config) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size() ||
      text.find_first_not_of("0123456789", colon + 1) != std::string::npos) {
    return "must be HOST:PORT";
  }
  const std::string port = text.substr(colon + 1);
  if (port.size() > 5 || std::stoul(port) > kMaxPort) {
    return "the port must be 0 to 65535";
  }
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  config.listen_address = host;
  config.port = static_cast<std::uint16_t>(std::stoul(port));
  return {};
}

void add_time(CLI::App& app, const char* name, const char* text, std::chrono::milliseconds& value) {
  app.add_option_function<std::int64_t>(
         name, [&value](const std::int64_t& ms) { value = std::chrono::milliseconds(ms); }, text)
      ->check(CLI::PositiveNumber);
}

void add_limits(CLI::App& app, ControllerConfig& config) {
  app.add_option("--max-sandboxes-per-workspace", config.max_sandboxes_per_workspace,
                 "sandboxes that a workspace may have at once")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--max-connections", config.max_connections, "connections at once");
  app.add_option("--api-threads", config.api_threads, "threads for short API calls");
  add_time(app, "--create-wait-ms", "how long a create may take to run", config.create_wait);
  add_time(app, "--unreachable-after-ms", "a worker without a heartbeat gets no new work",
           config.unreachable_after);
  app.add_option_function<std::int64_t>(
         "--audit-retention-days",
         [&config](const std::int64_t& days) {
           config.audit_retention = std::chrono::hours(24) * days;
         },
         "how long lines of the audit log are kept; negative: for ever")
      ->check(CLI::Range(-1, 36'500))
      ->default_str("400");
  add_time(app, "--lost-after-ms", "a worker without heartbeat and tunnel is lost",
           config.lost_after);
}

}  // namespace

std::optional<ControllerOptions> read_options(int argc, char** argv, int& exit_code) {
  ControllerOptions options;
  CLI::App app("The control plane: API, gateway, tunnels, store and scheduler.",
               "sandboxkit-controller");
  app.set_version_flag("--version", SANDBOXKIT_VERSION);
  app.add_option("--state-dir", options.config.state_dir,
                 "folder of the store and of operator.key; made when absent")
      ->required();
  app.add_option_function<std::string>(
         "--listen",
         [&options](const std::string& text) {
           if (auto problem = read_listen(text, options.config); !problem.empty()) {
             throw CLI::ValidationError("--listen", problem);
           }
         },
         "HOST:PORT; port 0 lets the kernel pick one")
      ->default_str("127.0.0.1:7070");
  app.add_option("--port-file", options.port_file, "file that gets the port once it is known");
  add_limits(app, options.config);
  static const std::map<std::string, Severity> kLevels = {{"debug", Severity::kDebug},
                                                          {"info", Severity::kInfo},
                                                          {"warning", Severity::kWarning},
                                                          {"error", Severity::kError}};
  app.add_option("--log-level", options.log_level, "debug, info, warning or error")
      ->transform(CLI::CheckedTransformer(kLevels, CLI::ignore_case));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : kExitUsage;
    return std::nullopt;
  }
  return options;
}

Status write_port_file(const std::string& path, std::uint16_t port) {
  const std::string part = path + ".part";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(part.c_str(), "we"),
                                                             &std::fclose);
  if (!file || std::fprintf(file.get(), "%u\n", unsigned{port}) < 0 ||
      std::fflush(file.get()) != 0 || std::rename(part.c_str(), path.c_str()) != 0) {
    return Error{ErrorCode::kUnavailable,
                 "port file `" + path + "` cannot be written: " + std::strerror(errno)};
  }
  return {};
}

}  // namespace sandboxkit::daemons
