#pragma once

#include "sandboxkit/docker_driver.h"

#include "docker/engine_client.h"
#include "docker/labels.h"
#include "json/value.h"
#include "tests/docker/engine_proxy.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sandboxkit::test {

/// Where the tests' programs lie; set by main().
struct Programs {
  std::string stub;
  std::string guest;   ///< Empty: not built.
  std::string egress;  ///< Empty: not built.
  std::string engine_socket;
};
Programs& programs();

/// The small image of the tests, made once a run: busybox with its applets, a /tmp, users.
const std::string& test_image();

/// A worker of its own on the real engine. Everything that it made is gone after it.
class House {
 public:
  struct Options {
    bool real_helpers = false;
    std::vector<std::string> hosts{};
    /// Long: what else runs on the machine is not what a test is about.
    std::chrono::milliseconds create_timeout{240'000};
    std::string egress_ca_file{};
    std::string subnet_pool = "10.231.0.0/16";
    /// Without a word of its own a test is about the structure that needs no more than the engine.
    EgressStructure structure = EgressStructure::kInternalNet;
    std::size_t wall_pool = 0;
    /// Puts a proxy between the driver (not the test) and the engine.
    EngineProxy::Judge judge{};
  };
  House() : House(Options{}) {}
  explicit House(Options options);
  ~House();
  House(const House&) = delete;
  House& operator=(const House&) = delete;

  DockerDriver& driver() { return *driver_; }
  docker::EngineClient& engine() { return *engine_; }
  EngineProxy& proxy() { return *proxy_; }
  const DockerDriverConfig& config() const { return config_; }
  docker::Owner owner() const { return {config_.controller, config_.worker}; }

  /// Ends the driver and starts a new one, as a worker that was restarted.
  void restart_driver();
  void stop_driver() { driver_.reset(); }

  SandboxOrder walled(const std::vector<std::string>& domains = {}) const;
  SandboxOrder unwalled() const;

  /// What the sandbox's command wrote, and its exit code.
  struct Output {
    std::int64_t exit_code = -1;
    std::string text{};
  };
  Output exec(const SandboxId& sandbox, const std::vector<std::string>& command);
  Output shell(const SandboxId& sandbox, const std::string& script);

  /// `container sbx-..., network sbx-..., folder ...`: what of sandboxes exists; empty: nothing.
  std::string leftovers();
  json::Value inspect(const std::string& container);
  /// Calls the engine past the driver: what somebody else does to our objects.
  void meddle(const std::string& method, const std::string& target, const std::string& body = "");
  std::string container_id(const SandboxId& sandbox, docker::Role role);

 private:
  void remove_all();

  std::string folder_;
  DockerDriverConfig config_;
  std::unique_ptr<docker::EngineClient> engine_;
  std::unique_ptr<EngineProxy> proxy_;
  std::unique_ptr<DockerDriver> driver_;
};

/// The error's message, or nothing: reads well in a failed CHECK.
template <typename T>
std::string problem(const Result<T>& result) {
  return result ? "" : result.error().message;
}

/// Waits for a fact, never for a time.
bool becomes_true(const std::function<bool()>& fact, std::chrono::seconds limit);

/// An address of this machine that containers with a way out reach: the default bridge's.
std::string host_address();

}  // namespace sandboxkit::test
