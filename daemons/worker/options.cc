#include "daemons/worker/options.h"

#include <array>
#include <cstdio>
#include <map>
#include <utility>

#include <CLI/CLI.hpp>

namespace sandboxkit::daemons {
namespace {

constexpr int kExitUsage = 2;
constexpr const char* kTokenVariable = "SANDBOXKIT_JOIN_TOKEN";

void add_time(CLI::App& app, const char* name, const char* text, std::chrono::milliseconds& value) {
  app.add_option_function<std::int64_t>(
         name, [&value](const std::int64_t& ms) { value = std::chrono::milliseconds(ms); }, text)
      ->check(CLI::PositiveNumber)
      ->default_str(std::to_string(value.count()));
}

/// The first line of a file, for a token that must not stand on a command line.
std::string first_line(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                             &std::fclose);
  std::array<char, 512> line{};
  if (!file || std::fgets(line.data(), static_cast<int>(line.size()), file.get()) == nullptr) {
    throw CLI::ValidationError("--join-token-file", "cannot read a token from " + path);
  }
  std::string token(line.data());
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) {
    token.pop_back();
  }
  return token;
}

void add_joining(CLI::App& app, WorkerOptions& options) {
  app.add_option("--controller", options.config.controller_url, "the controller: http://HOST:PORT")
      ->required();
  app.add_option("--state-dir", options.config.state_dir,
                 "folder of the credential, the journal and the sandboxes' sockets; absolute, made "
                 "when absent")
      ->required();
  auto* token =
      app.add_option("--join-token", options.join_token, "needed once, to join the controller")
          ->envname(kTokenVariable);
  app.add_option_function<std::string>(
         "--join-token-file",
         [&options](const std::string& path) { options.join_token = first_line(path); },
         "file whose first line is the join token")
      ->excludes(token);
  app.add_option("--name", options.name, "the worker's name for people")
      ->default_str("the host's name");
}

void add_driver(CLI::App& app, WorkerOptions& options) {
  app.add_option("--driver", options.driver, "what runs the sandboxes")
      ->check(CLI::IsMember({"docker"}))
      ->default_str("docker");
  app.add_option("--engine-socket", options.engine_socket, "unix socket of the Docker Engine")
      ->capture_default_str();
  options.guest_binary = SANDBOXKIT_HELPER_DIR "/sandboxkit-guest";
  app.add_option("--guest-binary", options.guest_binary, "the static sandboxkit-guest")
      ->capture_default_str();
  options.egress_binary = SANDBOXKIT_HELPER_DIR "/sandboxkit-egress";
  app.add_option("--egress-binary", options.egress_binary, "the static sandboxkit-egress")
      ->capture_default_str();
  app.add_option("--subnet-pool", options.subnet_pool,
                 "block from which each walled sandbox gets a /29")
      ->capture_default_str();
  app.add_option("--dns", options.dns_servers,
                 "resolver of the egress proxies, ADDRESS[:PORT]; may be repeated")
      ->default_str("the engine's");
  app.add_option("--egress-host", options.egress_hosts,
                 "NAME=ADDRESS that the egress proxies take for granted; may be repeated")
      ->default_str("none");
}

/// `key=value` pairs; the last one of a key counts.
void read_labels(const std::vector<std::string>& pairs,
                 std::map<std::string, std::string>& labels) {
  for (const std::string& pair : pairs) {
    const auto equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw CLI::ValidationError("--label", "`" + pair + "` is not KEY=VALUE");
    }
    labels[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
}

void add_limits(CLI::App& app, WorkerConfig& config) {
  app.add_option_function<std::vector<std::string>>(
         "--label",
         [&config](const std::vector<std::string>& pairs) { read_labels(pairs, config.labels); },
         "KEY=VALUE that creates can ask for; may be repeated")
      ->default_str("none");
  app.add_option("--max-sandboxes", config.max_sandboxes, "sandboxes at once")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--max-starting", config.max_starting, "creates at once")
      ->check(CLI::NonNegativeNumber)
      ->default_str("one a core");
  add_time(app, "--heartbeat-interval-ms", "between two heartbeats", config.heartbeat_interval);
  add_time(app, "--reconcile-interval-ms", "between two comparisons of journal and engine",
           config.reconcile_interval);
  add_time(app, "--orphan-grace-ms", "sandboxes that nobody explains are removed after this",
           config.orphan_grace);
}

void add_logging(CLI::App& app, WorkerOptions& options) {
  static const std::map<std::string, Severity> kLevels = {{"debug", Severity::kDebug},
                                                          {"info", Severity::kInfo},
                                                          {"warning", Severity::kWarning},
                                                          {"error", Severity::kError}};
  app.add_option_function<std::string>(
         "--log-level",
         [&options](const std::string& name) { options.log_level = kLevels.at(name); },
         "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->default_str("info");
  app.add_option_function<std::string>(
         "--log-format", [&options](const std::string& f) { options.log_json = f == "json"; },
         "text or json, one line an event, to standard error")
      ->check(CLI::IsMember({"text", "json"}))
      ->default_str("text");
}

}  // namespace

std::optional<WorkerOptions> read_options(int argc, char** argv, int& exit_code) {
  WorkerOptions options;
  CLI::App app("Keeps a machine's sandboxes as the controller orders them.", "sandboxkit-worker");
  app.set_version_flag("--version", SANDBOXKIT_VERSION);
  add_joining(app, options);
  add_driver(app, options);
  add_limits(app, options.config);
  add_logging(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : kExitUsage;
    return std::nullopt;
  }
  return options;
}

Result<std::unique_ptr<Driver>> make_driver(const WorkerOptions& options,
                                            const WorkerIdentity& identity) {
  DockerDriverConfig config{.controller = identity.controller,
                            .worker = identity.worker,
                            .state_dir = options.config.state_dir,
                            .guest_binary = options.guest_binary,
                            .egress_binary = options.egress_binary};
  config.engine_socket = options.engine_socket;
  config.subnet_pool = options.subnet_pool;
  config.dns_servers = options.dns_servers;
  config.egress_hosts = options.egress_hosts;
  auto driver = DockerDriver::create(std::move(config));
  if (!driver) {
    return driver.error();
  }
  return std::unique_ptr<Driver>(std::move(*driver));
}

}  // namespace sandboxkit::daemons
