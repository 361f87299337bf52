#pragma once

#include "sandboxkit/docker_driver.h"

#include "base/guarded.h"
#include "docker/builder.h"
#include "docker/engine_client.h"
#include "docker/helper_link.h"
#include "docker/holders.h"
#include "docker/observed.h"
#include "docker/operations.h"
#include "docker/plan.h"
#include "docker/proxy_process.h"
#include "docker/ready_pool.h"
#include "docker/secret_feed.h"
#include "egress/authority.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace sandboxkit::docker {

/// Ids that begin so are throw-away sandboxes of a probe: never listed, swept by an adoption.
inline constexpr const char* kProbePrefix = "probe-";

/// A sandbox that this process made or adopted.
struct Known {
  TenantId tenant;
  std::int64_t generation = 0;
  Ids ids;
  std::shared_ptr<HelperLink> guest{};
  std::shared_ptr<HelperLink> egress{};   ///< Null when unwalled.
  std::shared_ptr<ProxyProcess> proxy{};  ///< `egress` once more, when it is a process of ours.
  bool ended = false;
  std::shared_ptr<SecretFeed> secrets{};  ///< Null until something was lent. Shared with callers.
};

/// The owner's sandboxes on one engine: makes, finds and removes them.
/// Thread-safety: any thread.
class Fleet {
 public:
  Fleet(const DockerDriverConfig& config, EngineClient& engine, LinkHub& hub, Subnet pool);

  /// Without a structure the worker's option and what was proved decide.
  Status create(const SandboxOrder& order, std::stop_token stop,
                std::optional<Structure> structure = std::nullopt);
  /// What stood on this engine; `auto` means the strongest of it. Begins to fill the pool that this
  /// structure takes from.
  void prove(bool internal_net, bool isolated_ns);
  Status remove(const SandboxId& sandbox);
  Result<std::vector<SandboxReport>> list();
  Result<std::vector<SandboxReport>> adopt();
  std::optional<Known> find(const SandboxId& sandbox) const;
  Status lend(const SandboxId& sandbox, std::span<const LentSecret> secrets);
  Status narrow(const SandboxId& sandbox, const EgressPolicy& policy,
                const std::string& policy_hash);
  /// The name of the sidecar's image, which is made unless the engine has it.
  Result<std::string> egress_image();

  /// Waits a little for helpers whose link is down though their container runs: after an event that
  /// came before the sandbox was known, or an adoption.
  void meet_again(const Known& known);

  void on_event(std::function<void(const DriverEvent&)> handler);
  /// What the engine told.
  void see(const SeenEvent& event);
  /// A container came onto a network.
  void see_network(const std::string& container);
  /// Looks for what ended while no events came.
  void look_for_ends();

  const Owner& owner() const { return owner_; }

 private:
  struct Seen {
    std::map<SandboxId, SeenSandbox> sandboxes;
    std::set<std::string> untaken_walls;
  };

  /// A wall that this process made before its sandbox was ordered.
  struct Waiting {
    Ids ids;
    Subnet subnet;
    pid_t sidecar_pid = 0;
  };

  struct Proved {
    bool internal_net = false;
    bool isolated_ns = false;
  };

  Result<Seen> look(const SandboxId* sandbox);
  ReadyPool::Maker wall_maker();
  Result<std::string> make_wall(std::stop_token stop);
  Result<Built> in_free_subnet(const std::function<Result<Built>(const Subnet&)>& build,
                               const std::function<Status()>& undo);
  Result<std::optional<Built>> build_in_waiting(const SandboxOrder& order, const Trust& trust,
                                                const std::vector<Subnet>& refused,
                                                const BuildLimits& limits);
  Status remove_parts(const std::string& wall);
  Status remove_wall(const std::string& wall);
  Status remove_containers(const std::vector<std::string>& containers);
  std::string wall_of(const SandboxId& sandbox, const SeenSandbox* seen) const;
  void clear_walls(const Seen& seen);
  std::optional<std::pair<SandboxId, Known>> find_container(const std::string& container) const;
  Result<bool> settle_existing(const SandboxOrder& order, const Seen& seen);
  Status build(const SandboxOrder& order, Structure structure, const BuildLimits& limits);
  /// What an order with secrets needs before its plan.
  struct Lending {
    egress::CertifiedKey authority{};
    Trust trust{};
  };
  Status lend_known(const SandboxId& sandbox, std::span<const LentSecret> secrets);
  Result<Lending> prepare_lending(const SandboxOrder& order) const;
  /// Keeps the authority and gives the proxy its first secrets; null when none are lent.
  Result<std::shared_ptr<SecretFeed>> begin_lending(const SandboxOrder& order,
                                                    const Lending& lending, const Built& built);
  Result<Built> build_walled(const SandboxOrder& order, const Trust& trust,
                             const BuildLimits& limits);
  Result<Built> build_isolated(const SandboxOrder& order, const Trust& trust,
                               const BuildLimits& limits);
  Status check_holder(const SeenContainer& sandbox);
  Result<Structure> structure_of(const SandboxOrder& order) const;
  Result<std::vector<Subnet>> engine_subnets();
  Result<std::vector<Subnet>> machine_blocks();
  Result<Built> build_unwalled(const SandboxOrder& order, const BuildLimits& limits);
  Result<std::string> shared_network(Role role);
  Result<std::string> make_shared_network(Role role);
  Result<Subnet> reserve(int prefix);
  void release(const Subnet& subnet);
  Status take_down(const SandboxId& sandbox);
  Status take_down(const SeenSandbox& old);
  Status remove_container(const std::string& container);
  Status remove_network(const std::string& network);
  SandboxReport report_of(const SandboxId& sandbox, const SeenSandbox& seen);
  bool proxy_runs(const SandboxId& sandbox, const SeenSandbox& seen) const;
  Result<std::string> look_at_wall(const SandboxId& sandbox, const SeenSandbox& seen);
  bool sidecar_ended_unseen(const Known& known);
  std::string problem_of(const SandboxId& sandbox, const SeenSandbox& seen);
  Status reopen(const SandboxId& sandbox, const SeenSandbox& seen);
  Status reopen_guest(const std::string& container, const std::string& path, Known& known);
  SandboxReport adopt_one(const SandboxId& sandbox, const SeenSandbox& seen);
  void clear_probes(const Seen& seen);
  void wait_for_guests(std::vector<SandboxReport>& reports);
  void end(const SandboxId& sandbox, const std::string& container, std::string reason);
  std::string broken_wall(const SandboxId& sandbox, const SeenSandbox& seen);
  std::string stop_broken(const SandboxId& sandbox);

  const DockerDriverConfig& config_;
  EngineClient& engine_;
  LinkHub& hub_;
  const Owner owner_;
  const Subnet pool_;
  Operations operations_;
  Guarded<std::map<SandboxId, Known>> known_;
  Guarded<std::vector<Subnet>> reserved_;
  Guarded<std::optional<Proved>> proved_;
  std::mutex shared_mutex_;
  std::mutex image_mutex_;
  std::string egress_image_;
  Guarded<std::function<void(const DriverEvent&)>> handler_;
  /// All that this process made and did not remove, taken or not; nullopt while it is made.
  Guarded<std::map<std::string, std::optional<Waiting>>> walls_;
  // Last: their threads use all of the above.
  ReadyPool holders_;
  ReadyPool waiting_walls_;
};

}  // namespace sandboxkit::docker
