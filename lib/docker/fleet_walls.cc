// Fleet: walled sandboxes on internal networks, and walls that wait for one.
#include "base/random.h"
#include "base/text.h"
#include "docker/fleet.h"

#include <filesystem>
#include <utility>

namespace sandboxkit::docker {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kWallIdLength = 16;

const json::Array& list_of(const json::Value& value) {
  static const json::Array kEmpty;
  const json::Array* list = value.as_array();
  return list != nullptr ? *list : kEmpty;
}

/// The names in a folder that may not be there.
std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  std::error_code problem;
  std::filesystem::directory_iterator entry(folder, problem);
  for (; !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem)) {
    names.insert(entry->path().filename().string());
  }
  return names;
}

/// Adds the parts of a wall, which are no sandbox's by their labels.
void add_parts(json::Value& all, const json::Value& more, const Owner& owner) {
  json::Array joined = list_of(all);
  for (const json::Value& entry : list_of(more)) {
    if (read_wall_labels(entry.find("Labels"), owner)) {
      joined.push_back(entry);
    }
  }
  all = std::move(joined);
}

}  // namespace

Result<Fleet::Seen> Fleet::look(const SandboxId* sandbox) {
  const std::string filters = filters_for(owner_, sandbox);
  auto containers = engine_.get("/containers/json?all=1&" + filters);
  if (!containers) {
    return containers.error();
  }
  auto networks = engine_.get("/networks?" + filters);
  if (!networks) {
    return networks.error();
  }
  auto sandboxes = read_sandboxes(*containers, *networks, owner_);
  const auto found = sandbox != nullptr ? sandboxes.find(*sandbox) : sandboxes.end();
  if (found != sandboxes.end() && !found->second.labels().wall.empty()) {
    const std::string parts = filters_for_wall(owner_, found->second.labels().wall);
    const auto more_containers = engine_.get("/containers/json?all=1&" + parts);
    if (!more_containers) {
      return more_containers.error();
    }
    const auto more_networks = engine_.get("/networks?" + parts);
    if (!more_networks) {
      return more_networks.error();
    }
    add_parts(*containers, *more_containers, owner_);
    add_parts(*networks, *more_networks, owner_);
    sandboxes = read_sandboxes(*containers, *networks, owner_);
  }
  return Seen{std::move(sandboxes), read_untaken_walls(*containers, *networks, owner_)};
}

Result<Built> Fleet::build_walled(const SandboxOrder& order, const Trust& trust,
                                  const BuildLimits& limits) {
  const auto never = machine_blocks();
  if (!never) {
    return never.error();
  }
  auto waited = build_in_waiting(order, trust, *never, limits);
  if (!waited) {
    return waited.error();
  }
  if (*waited) {
    return std::move(**waited);
  }
  auto image = egress_image();
  if (!image) {
    return image.error();
  }
  auto shared = shared_network(Role::kEgressNetwork);
  if (!shared) {
    return shared.error();
  }
  const auto build = [&](const Subnet& subnet) {
    Built start;
    start.ids.shared_network = *shared;
    return run_plan(
        engine_, hub_,
        with_trust(plan_walled(PlanInput{config_, order}, WallInput{subnet, *image, *never}),
                   trust),
        std::move(start), limits);
  };
  return in_free_subnet(build, [&] { return take_down(order.sandbox); });
}

/// In a wall that waited; nullopt when none did, or it was of no use: then a new one is made.
Result<std::optional<Built>> Fleet::build_in_waiting(const SandboxOrder& order, const Trust& trust,
                                                     const std::vector<Subnet>& refused,
                                                     const BuildLimits& limits) {
  // Another kernel than the host's would take the network's end out of the anchor's namespace.
  const auto name = shares_kernel(order.spec.runtime) ? waiting_walls_.take() : std::nullopt;
  if (!name) {
    return std::optional<Built>();
  }
  const Waiting waiting = walls_.with([&](const auto& all) { return all.at(*name).value(); });
  Built start;
  start.ids = waiting.ids;
  start.sidecar_pid = waiting.sidecar_pid;
  const Plan plan =
      plan_taken(PlanInput{config_, order}, TakenWall{*name, waiting.subnet, refused});
  auto built = run_plan(engine_, hub_, with_trust(plan, trust), std::move(start), limits);
  if (built) {
    return std::optional(std::move(*built));
  }
  // It was taken, and has the policy perhaps: nobody gets it again.
  Status gone = take_down(order.sandbox);
  gone = gone ? remove_wall(*name) : gone;
  if (limits.stop.stop_requested() || steady_clock::now() >= limits.deadline || !gone) {
    return built.error();
  }
  waiting_walls_.discard_all();  // The engine may have lost what waited.
  return std::optional<Built>();
}

ReadyPool::Maker Fleet::wall_maker() {
  return {
      [this](std::stop_token stop) { return make_wall(std::move(stop)); },
      [this](const std::string& wall) { static_cast<void>(remove_wall(wall)); },
      [this] {
        if (const auto seen = look(nullptr)) {
          clear_walls(*seen);
        }
      },
  };
}

Result<std::string> Fleet::make_wall(std::stop_token stop) {
  auto image = egress_image();
  if (!image) {
    return image.error();
  }
  auto shared = shared_network(Role::kEgressNetwork);
  if (!shared) {
    return shared.error();
  }
  const std::string name = system_random().text(kWallIdLength, kBase36);
  walls_.with([&](auto& all) { all.emplace(name, std::nullopt); });
  const BuildLimits limits{std::move(stop), steady_clock::now() + config_.create_timeout,
                           config_.call_timeout};
  Subnet used;
  const auto build = [&](const Subnet& subnet) {
    used = subnet;
    Built start;
    start.ids.shared_network = *shared;
    return run_plan(engine_, hub_, plan_waiting(WaitingWall{config_, name, subnet, *image}),
                    std::move(start), limits);
  };
  const auto built = in_free_subnet(build, [&] { return remove_parts(name); });
  if (!built) {
    static_cast<void>(remove_wall(name));
    return built.error();
  }
  walls_.with([&](auto& all) { all[name] = Waiting{built->ids, used, built->sidecar_pid}; });
  return name;
}

/// What carries the wall's id, and is no sandbox.
Status Fleet::remove_parts(const std::string& wall) {
  const std::string filters = filters_for_wall(owner_, wall);
  const auto containers = engine_.get("/containers/json?all=1&" + filters);
  if (!containers) {
    return containers.error();
  }
  std::vector<std::string> found;
  for (const json::Value& entry : list_of(*containers)) {
    if (read_wall_labels(entry.find("Labels"), owner_)) {
      found.push_back(entry.text("Id"));
    }
  }
  if (Status gone = remove_containers(found); !gone) {
    return gone;
  }
  const auto networks = engine_.get("/networks?" + filters);
  if (!networks) {
    return networks.error();
  }
  for (const json::Value& entry : list_of(*networks)) {
    if (Status gone = remove_network(entry.text("Id")); !gone) {
      return gone;
    }
  }
  return {};
}

/// What stays after a failure is nobody's any more: the next look finds it.
Status Fleet::remove_wall(const std::string& wall) {
  Status gone = remove_parts(wall);
  if (gone) {
    std::error_code ignored;
    std::filesystem::remove_all(wall_folder(config_.state_dir, wall), ignored);
  }
  walls_.with([&](auto& all) { all.erase(wall); });
  return gone;
}

/// The wall that a sandbox took, by the engine or by its folder; empty when its wall is its own.
std::string Fleet::wall_of(const SandboxId& sandbox, const SeenSandbox* seen) const {
  if (seen != nullptr && !seen->labels().wall.empty()) {
    return seen->labels().wall;
  }
  std::error_code none;
  const auto folder =
      std::filesystem::read_symlink(egress_folder(config_.state_dir, sandbox), none);
  return none ? std::string() : folder.filename().string();
}

/// Removes what a worker that died had made for sandboxes that nobody will order of it any more.
void Fleet::clear_walls(const Seen& seen) {
  std::set<std::string> walls = seen.untaken_walls;
  walls.merge(names_in(walls_folder(config_.state_dir)));
  for (const auto& [sandbox, found] : seen.sandboxes) {
    walls.erase(found.labels().wall);
  }
  for (const std::string& wall : walls) {
    const bool ours = walls_.with([&](const auto& all) { return all.contains(wall); });
    if (!ours) {
      static_cast<void>(remove_wall(wall));  // What fails is tried again at the next look.
    }
  }
}

}  // namespace sandboxkit::docker
