#include "sandboxkit/local_driver.h"

#include "sandboxkit/box.h"

#include "base/text.h"
#include "box/journal.h"
#include "docker/narrowing.h"
#include "docker/proxy_questions.h"
#include "egress/config.h"
#include "local/host_session.h"
#include "local/local_sandbox.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace sandboxkit {
namespace {

using local::LocalSandbox;

/// Calls of all sandboxes that are judged at one time; each may wait for a person.
constexpr std::size_t kJudges = 32;
constexpr std::size_t kMaxQueued = 256;

Error bad_option(const char* option, std::string message) {
  return Error{ErrorCode::kInvalidArgument, std::move(message), "invalid_argument", option};
}

Error cannot(std::string message) {
  return Error{ErrorCode::kConflict, std::move(message), "worker_capability_unavailable"};
}

Error no_such_sandbox(const SandboxId& sandbox) {
  return Error{ErrorCode::kNotFound,
               "this worker runs no sandbox " + sandboxkit::quoted(sandbox.str()),
               "sandbox_not_found"};
}

/// Whether this machine can keep what the mode promises.
Status check_mode(const LocalDriverConfig& config, const BoxKernel& kernel) {
  if (::geteuid() == 0 && !config.allow_root) {
    return bad_option("permission_mode",
                      "agent mode does not run as root: start the worker as the person whose work "
                      "tree it is, or say --allow-root");
  }
  if (config.mode == PermissionMode::kOff) {
    return {};
  }
  std::string problems;
  for (const std::string& each : kernel.problems) {
    problems += (problems.empty() ? "" : "; ") + each;
  }
  if (kernel.strength() == BoxStrength::kNone) {
    return bad_option("permission_mode", "this machine gives no box: " + problems);
  }
  if (config.mode == PermissionMode::kStrict && kernel.strength() != BoxStrength::kFull) {
    return bad_option("permission_mode", "`strict` needs a full box: " + problems);
  }
  return {};
}

Status check_order(const LocalDriverConfig& config, const SandboxOrder& order) {
  const SandboxSpec& spec = order.spec;
  if (spec.image != kLocalImage) {
    return Error{ErrorCode::kNotFound,
                 "an agent-mode worker has the one image `local`, the machine itself",
                 "image_not_found", "image"};
  }
  if (config.mode == PermissionMode::kOff && spec.egress.is_walled()) {
    return cannot("in mode `off` there is no box, and so no wall");
  }
  if (config.mode != PermissionMode::kOff && !spec.egress.is_walled()) {
    return cannot("a box has no way out but its egress proxy: give an egress policy");
  }
  if (!spec.secrets.empty()) {
    return cannot("an agent-mode worker lends no secrets");
  }
  if (spec.profile != HardeningProfile::kHardened || !spec.runtime.empty()) {
    return cannot("a box has no other profile than `hardened`, and no runtime");
  }
  return {};
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Status make_folder(const char* option, const std::string& path) {
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  const bool good = path.starts_with('/') && !problem && ::chmod(path.c_str(), 0700) == 0;
  return good ? Status()
              : Status(bad_option(option, "cannot use the folder " + sandboxkit::quoted(path)));
}

/// What a worker that was killed left: boxes ended with it, and names in the tree that empty files
/// held must be free before the gate looks at the tree.
Status clean_up(const LocalDriverConfig& config) {
  std::error_code ignored;
  std::filesystem::remove_all(config.state_dir + "/sandboxes", ignored);
  if (config.mode == PermissionMode::kOff) {
    return {};
  }
  const auto cleaned = box::Placeholders::make(local::boxes_folder(config.state_dir), {});
  return cleaned ? Status() : Status(cleaned.error());
}

}  // namespace

struct LocalDriver::Impl {
  Impl(LocalDriverConfig given, const Clock& the_clock, local::HostParts parts, BoxKernel found)
      : config(std::move(given)),
        clock(the_clock),
        kernel(std::move(found)),
        board(the_clock),
        grants(std::move(parts.grants)),
        trail(std::move(parts.trail)),
        host{config,
             clock,
             hub,
             pool,
             config.prompts ? *config.prompts : board,
             *grants.source,
             std::move(parts.session),
             std::move(parts.policy)} {
    if (config.mode != PermissionMode::kOff) {
      host.box = {"", "native", name_of(kernel.strength())};
      host.trail = trail.get();
    }
  }

  Result<std::shared_ptr<LocalSandbox>> find(const SandboxId& id) {
    const std::lock_guard lock(mutex);
    const auto found = sandboxes.find(id.str());
    return found != sandboxes.end() ? Result(found->second) : no_such_sandbox(id);
  }

  void tell(const SandboxOrder& order, const std::string& reason) {
    std::function<void(const DriverEvent&)> handler;
    {
      const std::lock_guard lock(mutex);
      handler = on_event;
    }
    if (handler) {
      handler({order.sandbox, order.generation, SandboxState::kStopped, reason});
    }
  }

  const LocalDriverConfig config;
  const Clock& clock;
  const BoxKernel kernel;
  docker::LinkHub hub;
  ThreadPool pool{kJudges, kMaxQueued};
  ApprovalBoard board;
  const local::HostGrants grants;
  const std::unique_ptr<local::BoxTrail> trail;
  local::LocalHost host;
  std::mutex mutex;
  std::function<void(const DriverEvent&)> on_event;
  std::map<std::string, std::shared_ptr<LocalSandbox>> sandboxes;
};

LocalDriver::LocalDriver(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

LocalDriver::~LocalDriver() {
  std::map<std::string, std::shared_ptr<LocalSandbox>> last;
  {
    const std::lock_guard lock(impl_->mutex);
    last.swap(impl_->sandboxes);
  }
  last.clear();  // Ends what is asked, before the threads that wait for it.
  impl_->pool.stop();
}

Result<std::unique_ptr<LocalDriver>> LocalDriver::create(LocalDriverConfig config,
                                                         const Clock& clock) {
  for (const Status& made :
       {make_folder("state_dir", config.state_dir), make_folder("gate_dir", config.gate_dir)}) {
    if (!made) {
      return made.error();
    }
  }
  const BoxKernel kernel = config.mode == PermissionMode::kOff ? BoxKernel{} : probe_box();
  if (const Status can = check_mode(config, kernel); !can) {
    return can.error();
  }
  if (const Status cleaned = clean_up(config); !cleaned) {
    return cleaned.error();
  }
  auto parts = local::host_parts(config, variable("PATH"), clock);
  if (!parts) {
    return parts.error();
  }
  config.tree = parts->session.tree;
  config.home = parts->session.home;
  return std::unique_ptr<LocalDriver>(
      new LocalDriver(std::make_unique<Impl>(std::move(config), clock, std::move(*parts), kernel)));
}

Result<DriverCapabilities> LocalDriver::probe() {
  DriverCapabilities found{.engine = "local (" + std::string(name_of(impl_->config.mode)) + ")"};
  utsname system{};
  if (::uname(&system) == 0) {
    found.arch = system.machine;
  }
  found.cpu_cores = static_cast<double>(std::thread::hardware_concurrency());
  found.memory_mb =
      static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE) / (1 << 20);
  found.images = {kLocalImage};
  found.capabilities = {"approvals"};
  if (impl_->config.mode != PermissionMode::kOff) {
    found.capabilities.emplace_back("egress");
  }
  found.problems = impl_->kernel.problems;
  if (const GrantSnapshot kept = impl_->grants.source->snapshot(); !kept.problem.empty()) {
    found.problems.push_back("grants: " + kept.problem);
  }
  return found;
}

Status LocalDriver::create(const SandboxOrder& order, std::stop_token stop) {
  if (const Status can = check_order(impl_->config, order); !can) {
    return can;
  }
  {
    const std::lock_guard lock(impl_->mutex);
    const auto known = impl_->sandboxes.find(order.sandbox.str());
    if (known != impl_->sandboxes.end()) {
      return known->second->report().generation == order.generation
                 ? Status()
                 : Status(Error{ErrorCode::kConflict, "another generation of it runs",
                                "generation_conflict"});
    }
    // Names that one box holds in a live tree would be free again, for all, when it ends.
    if (impl_->config.mode != PermissionMode::kOff && !impl_->sandboxes.empty()) {
      return Error{ErrorCode::kResourceExhausted, "a box works in this tree already; end it first",
                   "no_capacity"};
    }
  }
  auto made = LocalSandbox::start(
      impl_->host, order, std::move(stop),
      [impl = impl_.get(), order](const std::string& reason) { impl->tell(order, reason); });
  if (!made) {
    return made.error();
  }
  const std::lock_guard lock(impl_->mutex);
  impl_->sandboxes[order.sandbox.str()] = std::move(*made);
  return {};
}

Status LocalDriver::remove(const SandboxId& sandbox) {
  std::shared_ptr<LocalSandbox> last;
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->sandboxes.find(sandbox.str());
  if (found != impl_->sandboxes.end()) {
    last = std::move(found->second);
    impl_->sandboxes.erase(found);
  }
  return {};
}

Result<std::vector<SandboxReport>> LocalDriver::list() {
  const std::lock_guard lock(impl_->mutex);
  std::vector<SandboxReport> reports;
  for (const auto& [id, sandbox] : impl_->sandboxes) {
    reports.push_back(sandbox->report());
  }
  return reports;
}

Result<std::vector<SandboxReport>> LocalDriver::adopt() { return list(); }

Result<SandboxStats> LocalDriver::stats(const SandboxId& sandbox) {
  const auto found = impl_->find(sandbox);
  return found ? Result<SandboxStats>((*found)->stats()) : found.error();
}

Result<int> LocalDriver::connect_guest(const SandboxId& sandbox) {
  const auto found = impl_->find(sandbox);
  if (!found) {
    return found.error();
  }
  auto connection = (*found)->connect();
  return connection ? Result<int>(connection->release()) : connection.error();
}

Result<std::vector<DeniedEgress>> LocalDriver::denied(const SandboxId& sandbox) {
  const auto found = impl_->find(sandbox);
  if (!found) {
    return found.error();
  }
  if (!(*found)->proxy()) {
    return std::vector<DeniedEgress>();
  }
  return docker::ask_denied(*(*found)->proxy());
}

Status LocalDriver::narrow(const SandboxId& sandbox, const EgressPolicy& policy,
                           const std::string& policy_hash) {
  const auto found = impl_->find(sandbox);
  if (!found) {
    return found.error();
  }
  if (!(*found)->proxy()) {
    return Error{ErrorCode::kConflict, "the sandbox was made without a wall", "cannot_retrofit"};
  }
  // The file first: a proxy that starts again is as narrow.
  const egress::NarrowedPolicy narrowed{policy, policy_hash};
  if (Status kept = docker::write_narrowing((*found)->egress_folder(), narrowed); !kept) {
    return kept;
  }
  if (Status told = docker::tell_narrowed(*(*found)->proxy(), narrowed); !told) {
    return told;
  }
  (*found)->narrowed_to(policy_hash);
  return {};
}

Status LocalDriver::lend(const SandboxId& sandbox, std::span<const LentSecret> secrets) {
  const auto found = impl_->find(sandbox);
  if (!found) {
    return found.error();
  }
  return secrets.empty() ? Status() : Status(cannot("an agent-mode worker lends no secrets"));
}

ApprovalBoard* LocalDriver::approvals() { return &impl_->board; }

void LocalDriver::on_event(std::function<void(const DriverEvent&)> handler) {
  const std::lock_guard lock(impl_->mutex);
  impl_->on_event = std::move(handler);
}

}  // namespace sandboxkit
