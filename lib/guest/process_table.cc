#include "guest/process_table.h"

#include "base/text.h"
#include "guest/bounds.h"
#include "guest/paths.h"

#include <algorithm>

#include <unistd.h>

namespace sandboxkit::guest {
namespace {

Status check_arguments(const ProcessConfig& config) {
  std::size_t bytes = config.command.size() + 1;
  if (config.command.empty() || config.command.find('\0') != std::string::npos) {
    return Error{ErrorCode::kInvalidArgument, "command is empty or holds a NUL", {}, "command"};
  }
  if (config.arguments.size() > kMaxArguments) {
    return Error{ErrorCode::kTooLarge, "more than 4096 arguments", "arguments_too_large",
                 "command"};
  }
  for (const std::string& argument : config.arguments) {
    if (argument.find('\0') != std::string::npos) {
      return Error{ErrorCode::kInvalidArgument, "an argument holds a NUL", {}, "command"};
    }
    bytes += argument.size() + 1;
  }
  for (const auto& [name, value] : config.env) {
    bytes += name.size() + value.size() + 2;
  }
  if (bytes > kMaxArgvBytes) {
    return Error{ErrorCode::kTooLarge, "arguments and environment are larger than 128 KiB",
                 "arguments_too_large", "command"};
  }
  return check_env(config.env);
}

/// Where a process starts that did not say where.
std::string default_cwd(const std::string& workdir) {
  return ::access(workdir.c_str(), X_OK) == 0 ? workdir : "/";
}

}  // namespace

ProcessTable::ProcessTable(io::EventLoop& loop, Reaper& reaper, Settings& settings)
    : loop_(loop), reaper_(reaper), settings_(settings) {}

ProcessTable::~ProcessTable() {
  for (const Ended& each : ended_) {
    loop_.cancel(each.timer);
  }
}

Result<SpawnPlan> ProcessTable::plan_for(const LaunchRequest& request) {
  if (const Status good = check_arguments(request.config); !good) {
    return good.error();
  }
  auto user = settings_.user(request.user);
  if (!user) {
    return user.error();
  }
  const std::string workdir = settings_.workdir_of(*user);
  std::string cwd = default_cwd(workdir);
  if (request.config.cwd && !request.config.cwd->empty()) {
    auto resolved = resolve_path(*request.config.cwd, workdir);
    if (!resolved) {
      Error error = resolved.error();
      error.field = "cwd";
      return error;
    }
    cwd = *resolved;
  }
  SpawnPlan plan{.argv = {request.config.command},
                 .env = settings_.env_for(*user, request.config.env, request.terminal.has_value()),
                 .cwd = std::move(cwd),
                 .user = *user,
                 .change_user = settings_.is_root()};
  plan.argv.insert(plan.argv.end(), request.config.arguments.begin(),
                   request.config.arguments.end());
  plan.open_stdin = request.open_stdin;
  plan.terminal = request.terminal.has_value();
  plan.size = request.terminal.value_or(TerminalSize{});
  return plan;
}

Result<std::shared_ptr<Process>> ProcessTable::launch(LaunchRequest request) {
  if (running_.size() >= kMaxProcesses) {
    return Error{ErrorCode::kResourceExhausted, "1024 processes run already: end some first",
                 "too_many_processes"};
  }
  const auto plan = plan_for(request);
  if (!plan) {
    return plan.error();
  }
  auto spawned = spawn(*plan);
  if (!spawned) {
    return spawned.error();
  }
  const pid_t pid = spawned->pid;
  // A number comes back only after its process was reaped: whoever had it before has ended.
  forget_ended(pid);
  if (const auto former = running_.find(pid); former != running_.end()) {
    keep_for_a_while(former->second);
  }
  auto process = std::make_shared<Process>(loop_, std::move(*spawned), std::move(request.config));
  running_[pid] = process;
  process->on_finished([this, ended = process.get()] {
    const auto found = running_.find(ended->pid());
    if (found != running_.end() && found->second.get() == ended) {
      keep_for_a_while(found->second);
    }
  });
  reaper_.watch(pid, [process](ExitStatus status) { process->leader_exited(status); });
  return process;
}

void ProcessTable::keep_for_a_while(std::shared_ptr<Process> process) {
  const pid_t pid = process->pid();
  running_.erase(pid);
  if (ended_.size() >= kMaxExitedProcesses) {
    forget_ended(ended_.front().process->pid());
  }
  const auto timer = loop_.run_after(kExitedKept, [this, pid] { forget_ended(pid); });
  ended_.push_back({std::move(process), timer});
}

void ProcessTable::forget_ended(pid_t pid) {
  std::erase_if(ended_, [&](const Ended& each) {
    if (each.process->pid() != pid) {
      return false;
    }
    loop_.cancel(each.timer);
    return true;
  });
}

std::shared_ptr<Process> ProcessTable::by_pid(pid_t pid) const {
  if (const auto found = running_.find(pid); found != running_.end()) {
    return found->second;
  }
  const auto found =
      std::ranges::find_if(ended_, [&](const Ended& each) { return each.process->pid() == pid; });
  return found == ended_.end() ? nullptr : found->process;
}

std::shared_ptr<Process> ProcessTable::by_tag(std::string_view tag) const {
  for (const auto& [pid, process] : running_) {
    if (process->config().tag == tag) {
      return process;
    }
  }
  const auto found = std::find_if(ended_.rbegin(), ended_.rend(), [&](const Ended& each) {
    return each.process->config().tag == tag;
  });
  return found == ended_.rend() ? nullptr : found->process;
}

std::vector<std::shared_ptr<Process>> ProcessTable::running() const {
  std::vector<std::shared_ptr<Process>> all;
  for (const auto& [pid, process] : running_) {
    if (!process->exited()) {
      all.push_back(process);
    }
  }
  return all;
}

void ProcessTable::kill_all() {
  for (const auto& process : running()) {
    process->kill_session();
  }
}

}  // namespace sandboxkit::guest
