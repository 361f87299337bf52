#pragma once

#include "sandboxkit/driver.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sandboxkit {

/// How the walls of a DockerDriver are made (docs/egress.md). `isolated-ns`: the sandbox has no
/// interface but loopback, and its proxy is a process on the worker's host. `internal-net`: an
/// internal network with a proxy sidecar.
enum class EgressStructure : std::uint8_t { kAuto, kIsolatedNs, kInternalNet };

/// How a DockerDriver reaches its engine and what it builds with.
struct DockerDriverConfig {
  /// Identity on every object's labels: only objects with both are ever touched.
  ControllerId controller;
  WorkerId worker;
  /// A folder that this driver owns (mode 0700); holds one folder a sandbox with its sockets.
  /// Must be visible to the engine under the same path.
  std::string state_dir;
  /// The static helpers that travel into containers.
  std::string guest_binary;
  std::string egress_binary;
  std::string engine_socket = "/var/run/docker.sock";
  /// Subnets (/29) of the walls are cut from this block; networks that exist are stepped over.
  std::string subnet_pool = "10.231.0.0/16";
  /// Resolvers of the egress proxy (`address` or `address:port`); empty: the engine's.
  std::vector<std::string> dns_servers{};
  /// Names with an address that the worker's owner vouches for (`packages.test=172.30.0.2`): they
  /// are not asked from a resolver, and that one address is not refused for its class.
  std::vector<std::string> egress_hosts{};
  /// kAuto: the strongest that was proved on the engine.
  EgressStructure egress_structure = EgressStructure::kAuto;
  /// PEM file with the roots that prove the real servers of domains that secrets are lent for. Read
  /// when it is needed.
  std::string egress_ca_file = "/etc/ssl/certs/ca-certificates.crt";
  /// Walls that are made before a sandbox needs one (at most 64), of the structure that orders get:
  /// a create then takes less than half of the time of a plain container's. Each is an idle
  /// container, and for kInternalNet a network and a second container besides. 0: none.
  std::size_t wall_pool = 0;
  /// Upper bounds of one engine call and of one whole create.
  std::chrono::milliseconds call_timeout{30'000};
  std::chrono::milliseconds create_timeout{60'000};
};

/// Progress of a long call, for people: a step's name and how far it is (0..1, negative: unknown).
using ProgressHandler = std::function<void(const std::string& step, double fraction)>;

/// Runs sandboxes as containers of a Docker Engine (API 1.41 and newer, over its unix socket).
///
/// An order chooses no network, mount, capability or privilege, so nothing in it can undo a wall.
/// Thread-safety: any thread. Ownership: keeps two threads, for events and for guest links.
class SANDBOXKIT_API DockerDriver final : public Driver {
 public:
  /// Errors: kInvalidArgument naming the option; kUnavailable `engine_unavailable`.
  static Result<std::unique_ptr<DockerDriver>> create(DockerDriverConfig config);
  ~DockerDriver() override;

  /// Tries a wall from inside once for each engine version, and again every two minutes while that
  /// fails. Blocking: some seconds the first time.
  Result<DriverCapabilities> probe() override;
  Status create(const SandboxOrder& order, std::stop_token stop) override;
  Status remove(const SandboxId& sandbox) override;
  Result<std::vector<SandboxReport>> list() override;
  Result<std::vector<SandboxReport>> adopt() override;
  Result<SandboxStats> stats(const SandboxId& sandbox) override;
  Result<int> connect_guest(const SandboxId& sandbox) override;
  Result<std::vector<DeniedEgress>> denied(const SandboxId& sandbox) override;
  Status narrow(const SandboxId& sandbox, const EgressPolicy& policy,
                const std::string& policy_hash) override;
  Status lend(const SandboxId& sandbox, std::span<const LentSecret> secrets) override;
  void on_event(std::function<void(const DriverEvent&)> handler) override;

  /// Whether the engine has the image.
  Result<bool> has_image(const std::string& image);
  /// Makes an image from a root file system in a tar archive (optionally compressed), streamed.
  Status import_image(const std::string& tar_path, const std::string& image,
                      const ProgressHandler& progress);

 private:
  struct Impl;
  explicit DockerDriver(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandboxkit
