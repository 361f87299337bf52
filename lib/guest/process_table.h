#pragma once

#include "guest/process.h"
#include "guest/reaper.h"
#include "guest/settings.h"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace sandboxkit::guest {

struct LaunchRequest {
  ProcessConfig config;
  std::string user{};  ///< Empty: the default one.
  bool open_stdin = false;
  std::optional<TerminalSize> terminal{};
};

/// The processes that callers started: running ones, and for kExitedKept those that ended.
/// Thread-safety: the loop's thread.
class ProcessTable {
 public:
  ProcessTable(io::EventLoop& loop, Reaper& reaper, Settings& settings);
  ~ProcessTable();
  ProcessTable(const ProcessTable&) = delete;
  ProcessTable& operator=(const ProcessTable&) = delete;

  /// Errors: as `spawn`, `choose_user` and `resolve_path` (field `cwd`); kTooLarge
  /// `arguments_too_large`; kResourceExhausted `too_many_processes`.
  Result<std::shared_ptr<Process>> launch(LaunchRequest request);

  std::shared_ptr<Process> by_pid(pid_t pid) const;
  /// The newest of that tag, running ones before ended ones.
  std::shared_ptr<Process> by_tag(std::string_view tag) const;
  std::vector<std::shared_ptr<Process>> running() const;
  void kill_all();

 private:
  Result<SpawnPlan> plan_for(const LaunchRequest& request);
  void keep_for_a_while(std::shared_ptr<Process> process);
  void forget_ended(pid_t pid);

  io::EventLoop& loop_;
  Reaper& reaper_;
  Settings& settings_;
  std::map<pid_t, std::shared_ptr<Process>> running_;
  struct Ended {
    std::shared_ptr<Process> process;
    io::EventLoop::TimerId timer;
  };
  std::deque<Ended> ended_;
};

}  // namespace sandboxkit::guest
