#include "docker/observed.h"

#include "base/text.h"
#include "json/reader.h"

#include <algorithm>
#include <set>
#include <utility>

namespace sandboxkit::docker {
namespace {

constexpr std::size_t kMaxDenied = 1000;
constexpr std::size_t kMaxDeniedBytes = 4 << 20;
constexpr std::size_t kMaxLogBytes = 400;
constexpr std::size_t kLogHeadBytes = 8;
constexpr const char* kNoNetwork = "none";
constexpr std::string_view kJoined = "container:";

const json::Array& list_of(const json::Value& value) {
  static const json::Array kEmpty;
  const json::Array* list = value.as_array();
  return list != nullptr ? *list : kEmpty;
}

bool flag(const json::Value& value, std::string_view name) {
  const json::Value* member = value.find(name);
  const bool* set = member != nullptr ? member->as_bool() : nullptr;
  return set != nullptr && *set;
}

std::string option(const json::Value& network, std::string_view name) {
  const json::Value* options = network.find("Options");
  return options != nullptr ? options->text(name) : std::string();
}

std::vector<std::string> network_ids(const json::Value& container) {
  std::vector<std::string> ids;
  const json::Value* settings = container.find("NetworkSettings");
  const json::Value* networks = settings != nullptr ? settings->find("Networks") : nullptr;
  const json::Object* members = networks != nullptr ? networks->as_object() : nullptr;
  if (members != nullptr) {
    for (const auto& [name, endpoint] : *members) {
      ids.push_back(endpoint.text("NetworkID"));
    }
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<std::string> network_names(const json::Value& container) {
  std::vector<std::string> names;
  const json::Value* settings = container.find("NetworkSettings");
  const json::Value* networks = settings != nullptr ? settings->find("Networks") : nullptr;
  const json::Object* members = networks != nullptr ? networks->as_object() : nullptr;
  if (members != nullptr) {
    for (const auto& [name, endpoint] : *members) {
      names.push_back(name);
    }
  }
  return names;
}

std::string network_mode(const json::Value& container) {
  const json::Value* host = container.find("HostConfig");
  return host != nullptr ? host->text("NetworkMode") : std::string();
}

template <typename T>
void put(std::optional<T>& place, T value, bool& doubled) {
  doubled = doubled || place.has_value();
  place = std::move(value);
}

/// Adds the parts of the walls that sandboxes took, which carry the wall's id and not theirs.
class TakenParts {
 public:
  TakenParts(std::map<SandboxId, SeenSandbox>& found, const Owner& owner) : owner_(owner) {
    for (auto& [sandbox, seen] : found) {
      if (seen.sandbox && !seen.sandbox->labels.wall.empty()) {
        SeenSandbox*& taker = takers_[seen.sandbox->labels.wall];
        if (taker != nullptr) {
          seen.doubled = taker->doubled = true;  // A wall has one sandbox.
        } else {
          taker = &seen;
        }
      }
    }
  }

  /// Who took the wall that this is a part of, and which part it is.
  std::optional<std::pair<SeenSandbox*, Role>> taker_of(const json::Value& entry) const {
    const auto labels = read_wall_labels(entry.find("Labels"), owner_);
    const auto taker = labels ? takers_.find(labels->wall) : takers_.end();
    return taker != takers_.end() ? std::optional(std::pair(taker->second, labels->role))
                                  : std::nullopt;
  }

 private:
  const Owner& owner_;
  std::map<std::string, SeenSandbox*> takers_;
};

SeenContainer read_container(const json::Value& entry, const ObjectLabels& labels) {
  return {entry.text("Id"),    labels, entry.text("State"), network_ids(entry), network_mode(entry),
          network_names(entry)};
}

SeenNetwork read_network(const json::Value& entry, const ObjectLabels& labels) {
  return {entry.text("Id"), labels, flag(entry, "Internal"),
          option(entry, "com.docker.network.bridge.inhibit_ipv4") == "true",
          flag(entry, "EnableIPv6")};
}

void put_container(SeenSandbox& seen, Role role, SeenContainer container) {
  std::optional<SeenContainer>& place = role == Role::kSandbox  ? seen.sandbox
                                        : role == Role::kEgress ? seen.sidecar
                                                                : seen.anchor;
  put(place, std::move(container), seen.doubled);
}

bool is_container_role(Role role) {
  return role == Role::kSandbox || role == Role::kEgress || role == Role::kAnchor;
}

std::string sidecar_problem(const SeenSandbox& seen, const std::string& egress_network) {
  const SeenContainer& sidecar = *seen.sidecar;
  const bool paused = sidecar.state == "paused";  // Everything is denied; its policy stays.
  if (!sidecar.running() && !paused && sidecar.state != "restarting") {
    return "its egress proxy is " + sidecar.state;
  }
  std::vector<std::string> expected{seen.wall->id, egress_network};
  std::sort(expected.begin(), expected.end());
  if ((sidecar.running() || paused) && sidecar.networks != expected) {
    return "its egress proxy is on other networks than it should be";
  }
  if (sidecar.labels.policy_hash != seen.sandbox->labels.policy_hash) {
    return "its egress proxy has another policy";
  }
  return {};
}

/// Of a sandbox that is in the namespace of another container: that has to be its anchor, on the
/// wall alone. The engine lets nobody connect the sandbox itself to a network.
std::string anchor_problem(const SeenSandbox& seen) {
  if (!seen.anchor) {
    return "the container that holds its network is gone";
  }
  const SeenContainer& anchor = *seen.anchor;
  if (!anchor.running() && anchor.state != "paused") {
    return "the container that holds its network is " + anchor.state;
  }
  if (seen.sandbox->network_mode != std::string(kJoined) + anchor.id ||
      !seen.sandbox->networks.empty()) {
    return "it is in another network namespace than its own";
  }
  return anchor.networks == std::vector<std::string>{seen.wall->id}
             ? ""
             : "it is on another network than its own";
}

/// Of a sandbox whose own container is on its internal network.
std::string network_problem(const SeenSandbox& seen) {
  const bool alone = seen.sandbox->networks == std::vector<std::string>{seen.wall->id};
  return alone && !seen.anchor ? "" : "it is on another network than its own";
}

/// Of a sandbox that may have no interface but loopback.
std::string isolated_problem(const SeenSandbox& seen) {
  const SeenContainer& sandbox = *seen.sandbox;
  if (seen.wall || seen.sidecar || seen.anchor) {
    return "it has a network or a sidecar beside it";
  }
  const bool joined = sandbox.network_mode.starts_with(kJoined);
  if (sandbox.network_mode != kNoNetwork && !joined) {
    return "it is in another network namespace than its own";
  }
  // The engine shows the mode that it was created with, and what it was connected to since.
  const bool alone = sandbox.network_names.empty() ||
                     (!joined && sandbox.network_names == std::vector<std::string>{kNoNetwork});
  return alone ? "" : "it is on a network";
}

}  // namespace

const ObjectLabels& SeenSandbox::labels() const {
  if (sandbox) {
    return sandbox->labels;
  }
  return sidecar ? sidecar->labels : anchor ? anchor->labels : wall->labels;
}

std::map<SandboxId, SeenSandbox> read_sandboxes(const json::Value& containers,
                                                const json::Value& networks, const Owner& owner) {
  std::map<SandboxId, SeenSandbox> found;
  for (const json::Value& entry : list_of(containers)) {
    const auto labels = read_labels(entry.find("Labels"), owner);
    if (labels && is_container_role(labels->role)) {
      put_container(found[labels->sandbox], labels->role, read_container(entry, *labels));
    }
  }
  for (const json::Value& entry : list_of(networks)) {
    const auto labels = read_labels(entry.find("Labels"), owner);
    if (labels && labels->role == Role::kNetwork) {
      SeenSandbox& seen = found[labels->sandbox];
      put(seen.wall, read_network(entry, *labels), seen.doubled);
    }
  }
  const TakenParts taken(found, owner);
  for (const json::Value& entry : list_of(containers)) {
    const auto taker = taken.taker_of(entry);
    if (taker && is_container_role(taker->second)) {
      put_container(*taker->first, taker->second, read_container(entry, taker->first->labels()));
    }
  }
  for (const json::Value& entry : list_of(networks)) {
    const auto taker = taken.taker_of(entry);
    if (taker && taker->second == Role::kNetwork) {
      SeenSandbox& seen = *taker->first;
      put(seen.wall, read_network(entry, seen.labels()), seen.doubled);
    }
  }
  return found;
}

std::set<std::string> read_untaken_walls(const json::Value& containers, const json::Value& networks,
                                         const Owner& owner) {
  std::set<std::string> walls;
  for (const json::Value* list : {&containers, &networks}) {
    for (const json::Value& entry : list_of(*list)) {
      if (const auto labels = read_wall_labels(entry.find("Labels"), owner)) {
        walls.insert(labels->wall);
      }
    }
  }
  for (const json::Value& entry : list_of(containers)) {
    if (const auto labels = read_labels(entry.find("Labels"), owner)) {
      walls.erase(labels->wall);
    }
  }
  return walls;
}

Result<std::optional<std::string>> read_shared_network(const json::Value& networks,
                                                       const Owner& owner, Role role) {
  for (const json::Value& entry : list_of(networks)) {
    if (!has_role(entry.find("Labels"), owner, role)) {
      continue;
    }
    if (option(entry, "com.docker.network.bridge.enable_icc") != "false" ||
        entry.text("Driver") != "bridge") {
      return Error{ErrorCode::kConflict, "the network " + quoted(entry.text("Name")) +
                                             " lets its containers talk to each other; remove it"};
    }
    return std::optional(entry.text("Id"));
  }
  return std::optional<std::string>();
}

std::string isolation_problem(const SeenSandbox& seen, const std::string& shared) {
  if (!seen.sandbox || seen.doubled) {
    return "half made";
  }
  const SeenContainer& sandbox = *seen.sandbox;
  if (sandbox.labels.policy_hash.empty()) {
    const bool alone = sandbox.networks == std::vector<std::string>{shared};
    const bool bare = !seen.wall && !seen.sidecar && !seen.anchor;
    return alone && bare ? "" : "it is on another network than it should be";
  }
  if (sandbox.labels.structure == Structure::kIsolatedNs) {
    const std::string problem = isolated_problem(seen);
    return problem.empty() ? "" : "no wall: " + problem;
  }
  if (!seen.wall || !seen.sidecar) {
    return !seen.wall ? "no wall: its network is gone" : "no wall: its egress proxy is gone";
  }
  if (!seen.wall->internal || !seen.wall->without_address || seen.wall->ipv6) {
    return "no wall: its network is not internal";
  }
  const bool joined = sandbox.network_mode.starts_with(kJoined);
  std::string problem = joined ? anchor_problem(seen) : network_problem(seen);
  problem = problem.empty() ? sidecar_problem(seen, shared) : problem;
  return problem.empty() ? "" : "no wall: " + problem;
}

ContainerState read_state(const json::Value& inspect) {
  const json::Value* state = inspect.find("State");
  if (state == nullptr) {
    return {};
  }
  return ContainerState{flag(*state, "Running"), static_cast<pid_t>(state->integer("Pid")),
                        state->integer("ExitCode"), flag(*state, "OOMKilled")};
}

std::string end_reason(const ContainerState& state) {
  return state.out_of_memory ? "out of memory" : "exit " + std::to_string(state.exit_code);
}

SandboxStats read_stats(const json::Value& stats) {
  SandboxStats read;
  const json::Value none;
  const auto child = [&](const json::Value& value, std::string_view name) -> const json::Value& {
    const json::Value* member = value.find(name);
    return member != nullptr ? *member : none;
  };
  constexpr double kNanoseconds = 1e9;
  const json::Value& usage = child(child(stats, "cpu_stats"), "cpu_usage");
  read.cpu_seconds = static_cast<double>(usage.integer("total_usage")) / kNanoseconds;
  const json::Value& memory = child(stats, "memory_stats");
  // The page cache that the kernel can take back at once is not what the sandbox "uses"; its name
  // differs between cgroup v1 and v2.
  const json::Value& detail = child(memory, "stats");
  const std::int64_t cache = detail.integer("total_inactive_file", detail.integer("inactive_file"));
  read.memory_bytes = std::max<std::int64_t>(0, memory.integer("usage") - cache);
  read.memory_limit_bytes = memory.integer("limit");
  read.processes = child(stats, "pids_stats").integer("current");
  return read;
}

Result<std::vector<DeniedEgress>> read_denied(std::string_view text) {
  const Error bad{ErrorCode::kInternal, "the egress proxy's denied log cannot be read"};
  const auto value = json::parse(text, json::Limits{kMaxDeniedBytes, 8, 100'000});
  if (!value) {
    return bad;
  }
  const json::Value* list = value->find("denied");
  if (list == nullptr || list->as_array() == nullptr) {
    return bad;
  }
  std::vector<DeniedEgress> denied;
  for (const json::Value& line : *list->as_array()) {
    const auto first = parse_rfc3339(line.text("first"));
    const auto last = parse_rfc3339(line.text("last"));
    const std::int64_t port = line.integer("port", -1);
    if (!first || !last || port < 0 || port > 65535) {
      return bad;
    }
    denied.push_back(DeniedEgress{line.text("host"), static_cast<std::uint16_t>(port),
                                  line.text("reason"), line.integer("count"), *first, *last});
  }
  std::stable_sort(denied.begin(), denied.end(),
                   [](const DeniedEgress& a, const DeniedEgress& b) { return a.last < b.last; });
  if (denied.size() > kMaxDenied) {
    denied.erase(denied.begin(), denied.end() - static_cast<std::ptrdiff_t>(kMaxDenied));
  }
  return denied;
}

std::optional<SeenEvent> read_event(std::string_view line, const Owner& owner) {
  const auto event = json::parse(line);
  if (!event) {
    return std::nullopt;
  }
  const json::Value* actor = event->find("Actor");
  const json::Value* attributes = actor != nullptr ? actor->find("Attributes") : nullptr;
  if (!read_labels(attributes, owner) && !read_wall_labels(attributes, owner)) {
    return std::nullopt;
  }
  return SeenEvent{event->text("Action"), actor->text("ID"), attributes->text("exitCode")};
}

std::optional<std::string> read_network_event(std::string_view line) {
  const auto event = json::parse(line);
  if (!event || event->text("Type") != "network") {
    return std::nullopt;
  }
  const json::Value* actor = event->find("Actor");
  const json::Value* attributes = actor != nullptr ? actor->find("Attributes") : nullptr;
  const std::string container = attributes != nullptr ? attributes->text("container") : "";
  return container.empty() ? std::nullopt : std::optional(container);
}

std::string read_log(std::string_view frames) {
  std::string text;
  // Each frame: stream, three zeros, length (big endian), bytes.
  while (frames.size() >= kLogHeadBytes) {
    std::size_t length = 0;
    for (std::size_t i = 4; i < kLogHeadBytes; ++i) {
      length = length << 8 | static_cast<unsigned char>(frames[i]);
    }
    frames.remove_prefix(kLogHeadBytes);
    const std::string_view line = frames.substr(0, length);
    frames.remove_prefix(line.size());
    text += text.empty() ? "" : "; ";
    text += trim(line);
  }
  if (text.size() > kMaxLogBytes) {
    text.erase(0, text.size() - kMaxLogBytes);
  }
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text;
}

}  // namespace sandboxkit::docker
