#pragma once

#include "sandboxkit/docker_driver.h"
#include "sandboxkit/driver.h"

#include "docker/engine_client.h"
#include "docker/labels.h"
#include "docker/subnets.h"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace sandboxkit::docker {

// Where things stand inside of the containers.
inline constexpr const char* kGuestInSandbox = "/sbin/sandboxkit-guest";
inline constexpr const char* kGuestFolder = "/run/sandboxkit";
inline constexpr const char* kEgressInImage = "/sandboxkit-egress";
inline constexpr const char* kEgressFolder = "/run/sandboxkit-egress";
inline constexpr int kProxyPort = 3128;
inline constexpr int kDnsPort = 53;
/// Where a sandbox without an interface finds its proxy.
inline constexpr const char* kLoopback = "127.0.0.1";
/// The name in itself of every sandbox that may join another container's namespaces: it then has
/// the other's.
inline constexpr const char* kJoinedHostname = "sandbox";

// Bounds of one sandbox and of one sidecar.
inline constexpr std::int64_t kSandboxPids = 1024;
inline constexpr std::int64_t kSandboxShmBytes = 64LL << 20;
inline constexpr std::int64_t kSidecarPids = 64;
inline constexpr std::int64_t kSidecarMemoryBytes = 128LL << 20;
inline constexpr int kSidecarRestarts = 100;
inline constexpr std::int64_t kAnchorPids = 8;
inline constexpr std::int64_t kAnchorMemoryBytes = 32LL << 20;

enum class Part : std::uint8_t { kSandbox, kSidecar, kAnchor };

/// Where a container is born: the wall of this one sandbox, or the worker's shared network.
/// kNowhere: no network at all. kHolder: likewise, in the namespace of a holder that waited.
/// kAnchor: on the wall, in the namespace of its anchor.
enum class Place : std::uint8_t { kWall, kShared, kNowhere, kHolder, kAnchor };

// The steps of a create, in the order in which they happen.

/// A folder or file of the host (0755, 0644), made anew.
struct MakeFolder {
  std::string path;
};
/// Appears whole: who waits for it reads no part of it.
struct WriteFile {
  std::string path;
  std::string text;
};
/// The folder `target` under a second name. Who finds the name knows whose the folder is.
struct LinkFolder {
  std::string path;
  std::string target;
};
/// Listens for the helper of that container. With `takes_listener` the guest has to pass the socket
/// that its proxy listens on in the sandbox, which starts the proxy of `KeepProxy`.
struct OpenLink {
  Part part;
  std::string socket_path;
  bool takes_listener = false;
};
/// Readies the proxy process of this one sandbox on this host, which starts when it is given its
/// listening socket.
struct KeepProxy {
  std::string program;
  std::string folder;
};
/// Waits until that process serves.
struct AwaitProxy {};
struct CreateNetwork {
  json::Value body;
};
/// `body` lacks the network, whose id is only known later; `request_of` adds it.
struct CreateContainer {
  Part part;
  std::string name;
  json::Value body;
  Place place;
  std::string address{};  ///< Empty: the engine picks one.
};
/// Adds the sidecar, which waits for its policy, to the wall with that address.
struct JoinWall {
  Part part;
  std::string address;
};
struct StartContainer {
  Part part;
};
/// Puts the authority of lent secrets into the sandbox's container, before it starts.
struct TrustAuthority {
  std::string certificate;
  std::string roots;
};
/// Waits until the container's helper is connected; the sidecar also has to say that it serves the
/// policy of that hash.
struct AwaitHelper {
  Part part;
  std::string policy_hash{};
};
struct Branch;
/// Branches that need nothing of each other: each keeps its order, and all have ended before the
/// next step.
struct AtOnce {
  std::vector<Branch> branches;
};

using Step = std::variant<MakeFolder, WriteFile, LinkFolder, OpenLink, KeepProxy, CreateNetwork,
                          CreateContainer, JoinWall, TrustAuthority, StartContainer, AwaitHelper,
                          AwaitProxy, AtOnce>;
using Plan = std::vector<Step>;
struct Branch {
  Plan steps;
};

/// Engine ids that earlier steps brought.
struct Ids {
  std::string shared_network{};
  std::string wall{};
  std::string sandbox{};
  std::string sidecar{};
  std::string holder{};
  std::string anchor{};

  const std::string& of(Part part) const;
};

struct PlanInput {
  const DockerDriverConfig& config;
  const SandboxOrder& order;
};

/// A wall's own inputs.
struct WallInput {
  Subnet subnet;
  std::string egress_image;
  /// The worker's addresses and the subnets of its engine's networks. A sidecar reaches the machine
  /// by them, though no class of addresses tells a public one from others; no policy lifts them.
  std::vector<Subnet> refused{};
};

/// The steps that make a walled sandbox. The promises that tests read from them: the sandbox is
/// created on its internal network alone, no step adds it to another one, and it starts after its
/// proxy said that it serves.
///
/// Nothing of an order chooses a network, a mount, a capability or a privilege: those are constants
/// here, so a create body cannot undo a wall, whatever it holds.
/// Pure.
Plan plan_walled(const PlanInput& input, const WallInput& wall);

/// A wall that is made before anybody ordered its sandbox.
struct WaitingWall {
  const DockerDriverConfig& config;
  std::string wall;  ///< Its own id.
  Subnet subnet;
  std::string egress_image;
};
/// The steps that make it: its network, an anchor on that network alone, and a sidecar that waits
/// for its policy and opens no socket. No step gives it a policy, or starts anything of a sandbox.
/// Pure.
Plan plan_waiting(const WaitingWall& waiting);

/// What a sandbox takes.
struct TakenWall {
  std::string wall;
  Subnet subnet;
  std::vector<Subnet> refused{};  ///< As in WallInput.
};
/// The steps that make a walled sandbox in a wall that waited. The sidecar gets its policy, for
/// good, and the sandbox starts after it said that it serves that policy. Pure.
Plan plan_taken(const PlanInput& input, const TakenWall& taken);

/// What a sandbox without an interface needs besides its order.
struct IsolatedInput {
  /// The subnets of the engine's networks: its proxy stands on the host beside all of their
  /// containers, so no policy may lift them.
  std::vector<Subnet> refused{};
  /// It joins the namespace of `Ids::holder` in place of a new one.
  bool has_holder = false;
};

/// The steps that make a walled sandbox whose only interface is loopback. The promises that tests
/// read from them: it is created without a network, no step gives it one, and the create is over
/// only when its proxy serves on the socket that the guest passed out. Pure.
Plan plan_isolated(const PlanInput& input, const IsolatedInput& isolated);
/// What a sandbox with lent secrets is to trust. Both are public; no certificate: nothing is lent.
struct Trust {
  std::string certificate{};  ///< Of the sandbox's own authority.
  std::string roots{};        ///< The worker's, for an image without any.
};
/// The plan, in which the sandbox trusts its authority before it runs. Pure.
Plan with_trust(Plan plan, const Trust& trust);
/// The steps that make an unwalled sandbox on the worker's open network.
Plan plan_unwalled(const PlanInput& input);

/// Names are the proxy's work. The engine would write the host's resolvers and search domains into
/// a container without a network; nobody listens on this one, so a lookup fails at once.
void add_dead_resolver(json::Object& host);

/// Whether sandboxes under that runtime use the host's kernel: such a sandbox can pass a socket of
/// its own out, and live in a network namespace that another container made. The word is the
/// order's and may name any runtime of the engine. Pure.
bool shares_kernel(const std::string& runtime);

/// The engine's call for a step that is one; nullopt for a step on the host. Pure.
std::optional<EngineCall> request_of(const Step& step, const Ids& ids);

/// The body that creates one of the worker's shared networks: no traffic between its containers.
json::Value shared_network_body(const Owner& owner, Role role, const Subnet& subnet);
/// The body that creates a sandbox's wall.
json::Value wall_body(const Owner& owner, const SandboxOrder& order, const Subnet& subnet);
/// The sidecar's configuration file.
std::string policy_json(const PlanInput& input, const Subnet& subnet,
                        const std::vector<Subnet>& refused);
/// The configuration file of a proxy process on this host.
std::string isolated_policy_json(const PlanInput& input, const IsolatedInput& isolated);

/// Folders of the host: `<state_dir>/sandboxes/<id>` and what is mounted from it.
std::string sandbox_folder(const std::string& state_dir, const SandboxId& sandbox);
std::string guest_folder(const std::string& state_dir, const SandboxId& sandbox);
std::string egress_folder(const std::string& state_dir, const SandboxId& sandbox);
/// `<state_dir>/walls`, with one folder for each wall that waits or waited: its sidecar's.
std::string walls_folder(const std::string& state_dir);
std::string wall_folder(const std::string& state_dir, const std::string& wall);
inline constexpr const char* kGuestSocket = "/guest.sock";
inline constexpr const char* kEgressSocket = "/egress.sock";
inline constexpr const char* kPolicyFile = "/policy.json";

}  // namespace sandboxkit::docker
