// Fleet: what it finds on the engine, takes over after a restart, and hears in between.
#include "base/text.h"
#include "docker/fleet.h"
#include "docker/narrowing.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

namespace sandboxkit::docker {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// How long an adoption waits for the guests of all sandboxes to dial again.
constexpr milliseconds kAdoptWait{5000};
/// A helper that lost its link dials at least every second.
constexpr milliseconds kMeetWait{2500};

bool is_probe(const SandboxId& sandbox) { return sandbox.str().starts_with(kProbePrefix); }

std::set<SandboxId> probe_folders(const std::string& state_dir) {
  std::set<SandboxId> found;
  std::error_code problem;
  std::filesystem::directory_iterator folder(state_dir + "/sandboxes", problem);
  for (; !problem && folder != std::filesystem::directory_iterator(); folder.increment(problem)) {
    const auto sandbox = SandboxId::parse(folder->path().filename().string());
    if (sandbox && is_probe(*sandbox)) {
      found.insert(*sandbox);
    }
  }
  return found;
}

bool folder_has(const std::string& path) { return std::ifstream(path).good(); }

/// The policy that the sidecar has read is the one that the label names.
bool policy_file_fits(const std::string& folder, const std::string& policy_hash) {
  std::ifstream file(folder + kPolicyFile);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto value = json::parse(text);
  return value && value->text("policy_hash") == policy_hash;
}

SandboxState state_of(const std::string& engine_word) {
  if (engine_word == "running") {
    return SandboxState::kRunning;
  }
  if (engine_word == "paused") {
    return SandboxState::kPaused;
  }
  if (engine_word == "removing") {
    return SandboxState::kStopping;
  }
  return engine_word == "exited" || engine_word == "dead" ? SandboxState::kStopped
                                                          : SandboxState::kError;
}

}  // namespace

Result<std::vector<SandboxReport>> Fleet::list() {
  const auto seen = look(nullptr);
  if (!seen) {
    return seen.error();
  }
  clear_probes(*seen);
  clear_walls(*seen);
  std::vector<SandboxReport> reports;
  for (const auto& [sandbox, found] : seen->sandboxes) {
    if (is_probe(sandbox)) {
      continue;
    }
    SandboxReport report = report_of(sandbox, found);
    if (!operations_.is_busy(sandbox) && !broken_wall(sandbox, found).empty()) {
      if (std::string reason = stop_broken(sandbox); !reason.empty()) {
        report.state = SandboxState::kError;
        report.reason = std::move(reason);
      }
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

/// Why a walled sandbox that runs may not go on; empty when it may, when somebody is at work on it,
/// and when the engine does not say.
std::string Fleet::broken_wall(const SandboxId& sandbox, const SeenSandbox& seen) {
  const bool runs = seen.sandbox && (seen.sandbox->running() || seen.sandbox->state == "paused");
  if (!runs || seen.labels().policy_hash.empty()) {
    return {};
  }
  return look_at_wall(sandbox, seen).value_or("");
}

/// Looks once more when nobody else is at work on it, and removes a sandbox whose wall does not
/// stand. Returns why; empty when it may go on.
std::string Fleet::stop_broken(const SandboxId& sandbox) {
  const Operations::Turn turn = operations_.begin(sandbox, false);
  const auto known = find(sandbox);
  const auto seen = look(&sandbox);
  if (!known || known->ended || !seen) {
    return {};
  }
  const auto found = seen->sandboxes.find(sandbox);
  std::string reason =
      found != seen->sandboxes.end() ? broken_wall(sandbox, found->second) : std::string();
  if (reason.empty()) {
    return {};
  }
  if (const Status gone = take_down(sandbox); !gone) {
    reason += "; it could not be removed: " + gone.error().message;
  }
  const auto handler = handler_.with([](const auto& current) { return current; });
  if (handler) {
    handler(DriverEvent{sandbox, known->generation, SandboxState::kStopped, reason});
  }
  return reason;
}

std::optional<std::pair<SandboxId, Known>> Fleet::find_container(
    const std::string& container) const {
  return known_.with([&](const auto& all) -> std::optional<std::pair<SandboxId, Known>> {
    for (const auto& [sandbox, known] : all) {
      const Ids& ids = known.ids;
      if (ids.sandbox == container || ids.sidecar == container || ids.anchor == container) {
        return std::pair(sandbox, known);
      }
    }
    return std::nullopt;
  });
}

void Fleet::see_network(const std::string& container) {
  const auto found = find_container(container);
  if (!found || found->second.ended || operations_.is_busy(found->first)) {
    return;
  }
  // The engine tells before its lists show it; an inspect waits until the connect is over.
  static_cast<void>(inspect_state(engine_, container));
  stop_broken(found->first);
}

/// A worker that died in its probe left it behind. Not only a new start looks for it: the engine
/// may make what was ordered of it after the successor's first look.
void Fleet::clear_probes(const Seen& seen) {
  std::set<SandboxId> probes = probe_folders(config_.state_dir);
  for (const auto& [sandbox, found] : seen.sandboxes) {
    if (is_probe(sandbox)) {
      probes.insert(sandbox);
    }
  }
  for (const SandboxId& probe : probes) {
    // One that is being made is busy, one that stands is known.
    if (!operations_.is_busy(probe) && !find(probe)) {
      const Operations::Turn turn = operations_.begin(probe, true);
      static_cast<void>(take_down(probe));  // What fails is tried again at the next look.
    }
  }
}

SandboxReport Fleet::report_of(const SandboxId& sandbox, const SeenSandbox& seen) {
  const ObjectLabels& labels = seen.labels();
  SandboxReport report{.sandbox = sandbox,
                       .tenant = labels.tenant,
                       .generation = labels.generation,
                       .state = SandboxState::kError,
                       .expires_at = labels.expires_at,
                       .policy_hash = labels.policy_hash,
                       .structure = name_of(labels.structure)};
  const auto narrowed = read_narrowing(egress_folder(config_.state_dir, sandbox));
  if (narrowed && *narrowed) {
    report.policy_hash = (*narrowed)->policy_hash;
  }
  const bool complete = seen.sandbox && seen.sandbox->state != "created";
  if (!complete) {
    const bool busy = operations_.is_busy(sandbox);
    report.state = busy ? SandboxState::kStarting : SandboxState::kError;
    report.reason = busy ? "" : "half made";
    return report;
  }
  report.state = state_of(seen.sandbox->state);
  if (report.state == SandboxState::kStopped) {
    const auto state = inspect_state(engine_, seen.sandbox->id);
    report.reason = state ? end_reason(*state) : "ended";
  } else if (!labels.policy_hash.empty() && !proxy_runs(sandbox, seen)) {
    report.reason = "its egress proxy is down: everything is denied";
  }
  return report;
}

bool Fleet::proxy_runs(const SandboxId& sandbox, const SeenSandbox& seen) const {
  if (seen.labels().structure != Structure::kIsolatedNs) {
    return seen.sidecar && seen.sidecar->running();
  }
  const auto known = find(sandbox);
  return known && known->egress && known->egress->ready();
}

/// Errors: of the engine, which then told nothing about the wall.
Result<std::string> Fleet::look_at_wall(const SandboxId& sandbox, const SeenSandbox& seen) {
  const bool walled = !seen.labels().policy_hash.empty();
  const bool isolated = seen.labels().structure == Structure::kIsolatedNs;
  const auto shared = isolated ? Result<std::string>("")
                               : shared_network(walled ? Role::kEgressNetwork : Role::kOpenNetwork);
  if (!shared) {
    return shared.error();
  }
  std::string problem = isolation_problem(seen, *shared);
  if (!problem.empty()) {
    return problem;
  }
  if (!folder_has(guest_folder(config_.state_dir, sandbox))) {
    return std::string("the folder of its guest's socket is gone");
  }
  const std::string folder = egress_folder(config_.state_dir, sandbox);
  if (walled && !policy_file_fits(folder, seen.labels().policy_hash)) {
    return std::string("no wall: its policy file is not the one that it was made with");
  }
  if (const auto narrowed = read_narrowing(folder); !narrowed) {
    return "no wall: " + narrowed.error().message;
  }
  const auto known = find(sandbox);
  if (known && known->proxy && known->proxy->given_up()) {
    return "no wall: its egress proxy is gone: " + known->proxy->problem();
  }
  if (known && sidecar_ended_unseen(*known)) {
    return std::string(
        "no wall: its egress proxy has ended, and the engine does not start it again");
  }
  return std::string();
}

/// An engine whose disk is full cannot write down that a container ended: its lists go on to show
/// it as running, for ever, and nothing starts it again. An inspect knows better.
bool Fleet::sidecar_ended_unseen(const Known& known) {
  if (known.ids.sidecar.empty() || !known.egress || known.egress->ready()) {
    return false;
  }
  const auto state = inspect_state(engine_, known.ids.sidecar);
  return state && !state->running;  // One that is paused or restarts counts as running there.
}

std::string Fleet::problem_of(const SandboxId& sandbox, const SeenSandbox& seen) {
  auto problem = look_at_wall(sandbox, seen);
  return problem ? *std::move(problem) : "no wall: " + problem.error().message;
}

Status Fleet::reopen_guest(const std::string& container, const std::string& path, Known& known) {
  const auto state = inspect_state(engine_, container);
  if (!state) {
    return state.error();
  }
  auto opened = known.proxy ? open_guest_of_proxy(hub_, path, known.proxy) : hub_.open(path);
  if (!opened) {
    return opened.error();
  }
  known.guest = std::move(*opened);
  known.guest->expect_pid(state->pid);
  return {};
}

/// Opens the links of a sandbox that runs and stands as it should.
Status Fleet::reopen(const SandboxId& sandbox, const SeenSandbox& seen) {
  Known known{seen.labels().tenant, seen.labels().generation, Ids{}};
  known.ids.sandbox = seen.sandbox->id;
  const std::string folder = egress_folder(config_.state_dir, sandbox);
  if (seen.labels().structure == Structure::kIsolatedNs) {
    if (Status held = check_holder(*seen.sandbox); !held) {
      return Error{held.error().code, "no wall: " + held.error().message};
    }
    // It starts when the guest, which kept its socket, passes it again.
    known.proxy = ProxyProcess::make(hub_, config_.egress_binary, folder);
    known.egress = known.proxy;
  }
  Status opened = reopen_guest(seen.sandbox->id,
                               guest_folder(config_.state_dir, sandbox) + kGuestSocket, known);
  if (opened && seen.sidecar) {
    known.ids.sidecar = seen.sidecar->id;
    known.ids.wall = seen.wall->id;
    known.ids.anchor = seen.anchor ? seen.anchor->id : "";
    const auto state = inspect_state(engine_, seen.sidecar->id);
    auto link = hub_.open(folder + kEgressSocket);
    if (state && link) {
      known.egress = std::move(*link);
      known.egress->expect_pid(state->pid);
    } else {
      opened = state ? link.error() : state.error();
    }
  }
  if (opened) {
    known_.with([&](auto& all) { all.insert_or_assign(sandbox, std::move(known)); });
  }
  return opened;
}

Result<std::vector<SandboxReport>> Fleet::adopt() {
  const auto first = look(nullptr);
  if (!first) {
    return first.error();
  }
  clear_probes(*first);
  clear_walls(*first);
  holders_.clear_left_over();
  std::vector<SandboxReport> reports;
  for (const auto& [sandbox, stale] : first->sandboxes) {
    if (is_probe(sandbox)) {
      continue;
    }
    const Operations::Turn turn = operations_.begin(sandbox, false);
    const auto seen = look(&sandbox);  // It may have changed before our turn came.
    if (!seen) {
      return seen.error();
    }
    const auto found = seen->sandboxes.find(sandbox);
    if (found == seen->sandboxes.end()) {
      continue;
    }
    reports.push_back(adopt_one(sandbox, found->second));
  }
  wait_for_guests(reports);
  return reports;
}

SandboxReport Fleet::adopt_one(const SandboxId& sandbox, const SeenSandbox& seen) {
  SandboxReport report = report_of(sandbox, seen);
  const bool stands = seen.sandbox && (seen.sandbox->running() || seen.sandbox->state == "paused");
  std::string problem = stands ? problem_of(sandbox, seen) : "";
  if (stands && problem.empty()) {
    const auto known = find(sandbox);
    if (known && known->ids.sandbox == seen.sandbox->id) {
      return report;
    }
    const Status opened = reopen(sandbox, seen);
    if (opened) {
      return report;
    }
    problem = opened.error().message;
  }
  if (stands || report.state == SandboxState::kStarting) {
    report.state = SandboxState::kError;
    report.reason = problem.empty() ? "half made" : problem;
  }
  if (const Status gone = take_down(sandbox); !gone) {
    report.reason += "; it could not be removed: " + gone.error().message;
  }
  return report;
}

/// A guest that does not come back in time stays: its link opens whenever it dials.
void Fleet::wait_for_guests(std::vector<SandboxReport>& reports) {
  const auto deadline = steady_clock::now() + kAdoptWait;
  for (SandboxReport& report : reports) {
    const auto known = find(report.sandbox);
    if (!known || report.state != SandboxState::kRunning) {
      continue;
    }
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    if (!known->guest->wait_ready(std::max(left, milliseconds{0}), std::stop_token{})) {
      report.reason = "its guest has not connected again yet";
    }
  }
}

void Fleet::meet_again(const Known& known) {
  for (const auto& [link, container] : {std::pair{&known.guest, &known.ids.sandbox},
                                        std::pair{&known.egress, &known.ids.sidecar}}) {
    if (!*link || (*link)->ready()) {
      continue;
    }
    if (container->empty()) {
      (*link)->wait_ready(kMeetWait, std::stop_token{});
      continue;
    }
    if (const auto state = inspect_state(engine_, *container); state && state->running) {
      (*link)->expect_pid(state->pid);
      (*link)->wait_ready(kMeetWait, std::stop_token{});
    }
  }
}

void Fleet::on_event(std::function<void(const DriverEvent&)> handler) {
  handler_.with([&](auto& current) { current = std::move(handler); });
}

void Fleet::see(const SeenEvent& event) {
  const auto found = find_container(event.container);
  if (!found) {
    return;  // Not ours to follow (yet), or an older one.
  }
  const Known* known = &found->second;
  if (event.container == known->ids.anchor) {
    if (event.action == "die") {
      see_network(event.container);  // The sandbox's network went with it.
    }
    return;
  }
  const bool is_sidecar = event.container == known->ids.sidecar;
  const auto& link = is_sidecar ? known->egress : known->guest;
  if (event.action == "start") {
    if (const auto state = inspect_state(engine_, event.container)) {
      link->expect_pid(state->pid);
    }
    return;
  }
  if (event.action != "die") {
    return;
  }
  link->expect_pid(0);  // The kernel may give that pid to somebody else.
  if (!is_sidecar) {
    const auto state = inspect_state(engine_, event.container);
    end(found->first, event.container,
        state && !state->running ? end_reason(*state) : "exit " + event.exit_code);
  }
}

void Fleet::look_for_ends() {
  // First what we know, then what there is: a create that ends in between is not missed there.
  const auto all = known_.with([](const auto& known) { return known; });
  const auto seen = look(nullptr);
  if (!seen) {
    return;  // The stream breaks as well then, and we come back.
  }
  for (const auto& [sandbox, known] : all) {
    if (operations_.is_busy(sandbox)) {
      continue;
    }
    const auto found = seen->sandboxes.find(sandbox);
    if (found == seen->sandboxes.end() || !found->second.sandbox) {
      end(sandbox, known.ids.sandbox, "its container was removed by somebody else");
      continue;
    }
    const SandboxReport report = report_of(sandbox, found->second);
    if (report.state == SandboxState::kStopped || report.state == SandboxState::kError) {
      end(sandbox, known.ids.sandbox, report.reason);
    } else if (known.egress && found->second.sidecar) {
      const auto state = inspect_state(engine_, found->second.sidecar->id);
      known.egress->expect_pid(state ? state->pid : 0);
    }
  }
}

void Fleet::end(const SandboxId& sandbox, const std::string& container, std::string reason) {
  const auto generation = known_.with([&](auto& all) -> std::optional<std::int64_t> {
    const auto found = all.find(sandbox);
    if (found == all.end() || found->second.ids.sandbox != container || found->second.ended) {
      return std::nullopt;
    }
    found->second.ended = true;
    return found->second.generation;
  });
  const auto handler = handler_.with([](const auto& current) { return current; });
  if (generation && handler) {
    handler(DriverEvent{sandbox, *generation, SandboxState::kStopped, std::move(reason)});
  }
}

}  // namespace sandboxkit::docker
