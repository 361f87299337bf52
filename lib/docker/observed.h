#pragma once

#include "sandboxkit/driver.h"

#include "docker/labels.h"
#include "json/value.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace sandboxkit::docker {

// What an engine says, read into values. All of it is pure.

/// A container in a list.
struct SeenContainer {
  std::string id;
  ObjectLabels labels;  ///< Of a part of a wall that waited: those of the sandbox that took it.
  std::string state;    ///< The engine's word: `running`, `exited`, `created`, ...
  std::vector<std::string> networks{};
  /// As it was created: `none`, `container:<id>`, or a network's id.
  std::string network_mode{};
  /// The names of its networks.
  std::vector<std::string> network_names{};
  bool running() const { return state == "running"; }
};

/// A wall's network in a list.
struct SeenNetwork {
  std::string id;
  ObjectLabels labels;
  bool internal = false;
  bool without_address = false;  ///< `inhibit_ipv4`
  bool ipv6 = false;
};

/// All that an engine has of one sandbox.
struct SeenSandbox {
  std::optional<SeenContainer> sandbox{};
  std::optional<SeenContainer> sidecar{};
  std::optional<SeenContainer> anchor{};
  std::optional<SeenNetwork> wall{};
  /// Objects that carry the sandbox's labels twice: nobody of ours makes them.
  bool doubled = false;

  /// The labels of whichever object stands for it.
  const ObjectLabels& labels() const;
};

/// Sorts the answers to `/containers/json?all=1` and `/networks` by sandbox; others' objects,
/// shared networks and walls that no sandbox took are left out.
std::map<SandboxId, SeenSandbox> read_sandboxes(const json::Value& containers,
                                                const json::Value& networks, const Owner& owner);

/// The walls that waited of which the answers show a part, and no sandbox that took it.
std::set<std::string> read_untaken_walls(const json::Value& containers, const json::Value& networks,
                                         const Owner& owner);

/// The id of the owner's shared network of that role; nullopt when there is none. A network whose
/// options would let its containers talk to each other is refused (kConflict).
Result<std::optional<std::string>> read_shared_network(const json::Value& networks,
                                                       const Owner& owner, Role role);

/// Why the sandbox, which runs, does not stand as its labels promise; empty when it does.
/// `shared` is the network that it (unwalled) or its sidecar (walled) belongs on.
std::string isolation_problem(const SeenSandbox& seen, const std::string& shared);

/// `State` of an inspect.
struct ContainerState {
  bool running = false;
  pid_t pid = 0;
  std::int64_t exit_code = 0;
  bool out_of_memory = false;
};
ContainerState read_state(const json::Value& inspect);
/// `out of memory`, `exit 137`, ...
std::string end_reason(const ContainerState& state);

/// An answer to `/containers/{id}/stats`.
SandboxStats read_stats(const json::Value& stats);
/// The sidecar's answer to `/denied`.
Result<std::vector<DeniedEgress>> read_denied(std::string_view text);

/// One line of `/events` about a container of the owner's sandboxes or walls.
struct SeenEvent {
  std::string action;  ///< `start`, `die`, `oom`
  std::string container;
  std::string exit_code{};
};
std::optional<SeenEvent> read_event(std::string_view line, const Owner& owner);
/// The container of an event of a network's; nullopt for other lines.
std::optional<std::string> read_network_event(std::string_view line);

/// The text in an answer to `/containers/{id}/logs`: without its frames, one line, cut short.
std::string read_log(std::string_view frames);

}  // namespace sandboxkit::docker
