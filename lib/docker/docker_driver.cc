#include "sandboxkit/docker_driver.h"

#include "base/random.h"
#include "base/text.h"
#include "docker/event_watcher.h"
#include "docker/fleet.h"
#include "docker/images.h"
#include "docker/proxy_questions.h"
#include "docker/wall_probe.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit {
namespace {

using namespace docker;  // NOLINT(google-build-using-namespace)

/// What is left of a path's 4,096 bytes is for the folders and sockets of sandboxes.
constexpr std::size_t kMaxStateDirBytes = 3072;
constexpr std::chrono::minutes kProbeAgainAfter{2};

Error bad_option(const char* option, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), "", option};
}

Status check_binary(const char* option, std::string& path) {
  std::error_code problem;
  const auto absolute = std::filesystem::canonical(path, problem);
  if (problem || !std::filesystem::is_regular_file(absolute, problem) ||
      access(absolute.c_str(), X_OK) != 0) {
    return bad_option(option, sandboxkit::quoted(path) + " is no program");
  }
  path = absolute.string();
  return {};
}

Status check_hosts(const std::vector<std::string>& hosts) {
  for (const std::string& entry : hosts) {
    const std::size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos ||
        !IpAddress::parse(std::string_view(entry).substr(equals + 1))) {
      return bad_option("egress_hosts", sandboxkit::quoted(entry) + " is not `name=address`");
    }
  }
  return {};
}

Status make_state_dir(std::string& path) {
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  const auto absolute = std::filesystem::canonical(path, problem);
  if (path.empty() || problem || chmod(absolute.c_str(), 0700) != 0) {
    return bad_option("state_dir", "cannot use the folder " + sandboxkit::quoted(path));
  }
  path = absolute.string();
  if (path.size() > kMaxStateDirBytes) {
    return bad_option("state_dir", sandboxkit::quoted(path) + " is longer than " +
                                       std::to_string(kMaxStateDirBytes) + " bytes");
  }
  return {};
}

Result<Subnet> check_config(DockerDriverConfig& config) {
  const auto pool = Subnet::parse(config.subnet_pool);
  if (!pool) {
    return bad_option("subnet_pool", pool.error().message);
  }
  if (pool->prefix < kMinPoolPrefix || pool->prefix > kMaxPoolPrefix) {
    return bad_option("subnet_pool", sandboxkit::quoted(config.subnet_pool) +
                                         " is not between a /" + std::to_string(kMinPoolPrefix) +
                                         " and a /" + std::to_string(kMaxPoolPrefix));
  }
  for (const Status& checked : {check_hosts(config.egress_hosts), make_state_dir(config.state_dir),
                                check_binary("guest_binary", config.guest_binary),
                                check_binary("egress_binary", config.egress_binary)}) {
    if (!checked) {
      return checked.error();
    }
  }
  return *pool;
}

bool claims_egress(const DriverCapabilities& found) {
  return std::find(found.capabilities.begin(), found.capabilities.end(), "egress") !=
         found.capabilities.end();
}

Error no_such_sandbox(const SandboxId& sandbox) {
  return Error{ErrorCode::kNotFound,
               "this worker runs no sandbox " + sandboxkit::quoted(sandbox.str()),
               "sandbox_not_found"};
}

}  // namespace

struct DockerDriver::Impl {
  Impl(DockerDriverConfig given, std::unique_ptr<EngineClient> client, Subnet pool)
      : config(std::move(given)),
        engine(std::move(client)),
        fleet(config, *engine, hub, pool),
        watcher(*engine, fleet.owner(),
                {[this](const SeenEvent& event) { fleet.see(event); },
                 [this](const std::string& container) { fleet.see_network(container); },
                 [this] { fleet.look_for_ends(); }}) {}

  const DockerDriverConfig config;
  const std::unique_ptr<EngineClient> engine;
  LinkHub hub;
  Fleet fleet;
  std::mutex probe_mutex;
  std::optional<DriverCapabilities> probed;
  std::string probed_engine;
  std::chrono::steady_clock::time_point probed_at;
  EventWatcher watcher;  // Last: its thread uses all of the above.
};

DockerDriver::DockerDriver(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DockerDriver::~DockerDriver() = default;

Result<std::unique_ptr<DockerDriver>> DockerDriver::create(DockerDriverConfig config) {
  const auto pool = check_config(config);
  if (!pool) {
    return pool.error();
  }
  auto engine = EngineClient::connect(config.engine_socket, config.call_timeout);
  if (!engine) {
    return engine.error();
  }
  auto impl = std::make_unique<Impl>(std::move(config), std::move(*engine), *pool);
  return std::unique_ptr<DockerDriver>(new DockerDriver(std::move(impl)));
}

Result<DriverCapabilities> DockerDriver::probe() {
  const std::lock_guard lock(impl_->probe_mutex);
  // What was tried holds while the engine is the same; a failure may have been the moment's.
  const auto version = impl_->engine->get("/version");
  if (!version) {
    return version.error();
  }
  const auto now = std::chrono::steady_clock::now();
  const std::string engine = version->text("Version");
  const bool try_again =
      impl_->probed && !claims_egress(*impl_->probed) && now - impl_->probed_at > kProbeAgainAfter;
  if (!impl_->probed || impl_->probed_engine != engine || try_again) {
    auto found = probe_engine(*impl_->engine, impl_->fleet, impl_->config.egress_structure);
    if (!found) {
      return found.error();
    }
    found->engine = "docker " + engine;
    impl_->probed = std::move(*found);
    impl_->probed_engine = engine;
    impl_->probed_at = now;
  }
  DriverCapabilities current = *impl_->probed;
  auto images = list_images(*impl_->engine);
  if (!images) {
    return images.error();
  }
  current.images = std::move(*images);
  if (claims_egress(current) && access(impl_->config.egress_ca_file.c_str(), R_OK) == 0) {
    current.capabilities.emplace_back("secrets");
  } else {
    current.problems.emplace_back("secrets: they need a wall, and root certificates in " +
                                  sandboxkit::quoted(impl_->config.egress_ca_file));
  }
  return current;
}

Status DockerDriver::create(const SandboxOrder& order, std::stop_token stop) {
  return impl_->fleet.create(order, std::move(stop));
}

Status DockerDriver::remove(const SandboxId& sandbox) { return impl_->fleet.remove(sandbox); }

Result<std::vector<SandboxReport>> DockerDriver::list() { return impl_->fleet.list(); }

Result<std::vector<SandboxReport>> DockerDriver::adopt() { return impl_->fleet.adopt(); }

Result<SandboxStats> DockerDriver::stats(const SandboxId& sandbox) {
  const auto known = impl_->fleet.find(sandbox);
  if (!known) {
    return no_such_sandbox(sandbox);
  }
  const auto answer =
      impl_->engine->get("/containers/" + known->ids.sandbox + "/stats?stream=false&one-shot=true");
  if (!answer) {
    return answer.error();
  }
  return read_stats(*answer);
}

Result<int> DockerDriver::connect_guest(const SandboxId& sandbox) {
  const auto known = impl_->fleet.find(sandbox);
  if (!known) {
    return no_such_sandbox(sandbox);
  }
  auto connection = known->guest->connect();
  if (!connection) {
    return connection.error();
  }
  return connection->release();
}

Result<std::vector<DeniedEgress>> DockerDriver::denied(const SandboxId& sandbox) {
  const auto known = impl_->fleet.find(sandbox);
  if (!known) {
    return no_such_sandbox(sandbox);
  }
  if (!known->egress) {
    return std::vector<DeniedEgress>();  // Unwalled: nothing is denied.
  }
  if (!known->egress->ready()) {
    impl_->fleet.meet_again(*known);
  }
  return ask_denied(*known->egress);
}

Status DockerDriver::narrow(const SandboxId& sandbox, const EgressPolicy& policy,
                            const std::string& policy_hash) {
  return impl_->fleet.narrow(sandbox, policy, policy_hash);
}

Status DockerDriver::lend(const SandboxId& sandbox, std::span<const LentSecret> secrets) {
  return impl_->fleet.lend(sandbox, secrets);
}

void DockerDriver::on_event(std::function<void(const DriverEvent&)> handler) {
  impl_->fleet.on_event(std::move(handler));
}

Result<bool> DockerDriver::has_image(const std::string& image) {
  return docker::has_image(*impl_->engine, image);
}

Status DockerDriver::import_image(const std::string& tar_path, const std::string& image,
                                  const ProgressHandler& progress) {
  return import_tar(*impl_->engine, tar_path, image, progress);
}

}  // namespace sandboxkit
