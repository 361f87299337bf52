#pragma once

#include "guest/pipes.h"
#include "guest/reaper.h"
#include "guest/spawn.h"
#include "io/event_loop.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace sandboxkit::guest {

enum class Stream : std::uint8_t { kStdout, kStderr, kTerminal };

/// What a caller asked to start, as List shows it.
struct ProcessConfig {
  std::string command;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> env;
  std::optional<std::string> cwd;
  std::optional<std::string> tag;
};

/// One stream of a process's output to a client.
class OutputListener {
 public:
  virtual ~OutputListener() = default;
  virtual void on_output(Stream stream, std::string_view bytes) = 0;
  /// Comes once, after all output. The process forgets the listener then.
  virtual void on_exit(const ExitStatus& status) = 0;
  /// While true the process's pipes are not read; `Process::listener_drained` ends that.
  virtual bool congested() const = 0;
};

/// A process that the guest started: its output goes to whoever listens; with nobody there the last
/// kTailBytes are kept for the next listener and the process goes on.
///
/// Thread-safety: the loop's thread. Ownership: the table, and listeners' calls.
class Process : public std::enable_shared_from_this<Process> {
 public:
  Process(io::EventLoop& loop, Spawned spawned, ProcessConfig config);
  ~Process();

  pid_t pid() const { return pid_; }
  const ProcessConfig& config() const { return config_; }

  /// Output that nobody heard yet and the exit of a process that ended reach the listener at once.
  /// Errors: kResourceExhausted past kMaxListeners.
  Status attach(std::shared_ptr<OutputListener> listener);
  void detach(const OutputListener* listener);
  void listener_drained();

  /// Errors: kConflict `stdin_closed` also for a process without stdin (or terminal).
  Status write_input(bool terminal, std::string_view bytes, std::function<void()> on_room);
  Status close_stdin();
  /// Errors: kConflict `no_terminal`.
  Status resize(TerminalSize size);
  /// To the whole process group.
  /// Errors: kNotFound when it ended.
  Status signal(int number);
  /// SIGKILL to the group and to every other process of the session (job control makes groups).
  void kill_session();

  /// The leader has been reaped.
  bool exited() const { return exit_.has_value(); }
  /// ... and all of its output was read.
  bool finished() const { return finished_; }
  void on_finished(std::function<void()> handler) { on_finished_ = std::move(handler); }
  void leader_exited(ExitStatus status);

 private:
  void open_readers(Spawned& spawned);
  std::unique_ptr<PipeReader> reader_for(io::Fd fd, Stream stream);
  void output(Stream stream, std::string_view bytes);
  void pause_if_congested();
  void finish_if_done();
  bool congested() const;
  void end_terminal_soon();

  struct Unheard {
    Stream stream;
    std::string bytes;
  };

  io::EventLoop& loop_;
  const pid_t pid_;
  const ProcessConfig config_;
  std::vector<std::shared_ptr<OutputListener>> listeners_;
  std::vector<Unheard> unheard_;
  std::unique_ptr<PipeWriter> input_;
  std::vector<std::unique_ptr<PipeReader>> readers_;
  io::Fd terminal_;
  std::optional<ExitStatus> exit_;
  io::EventLoop::TimerId drain_timer_ = 0;
  bool finished_ = false;
  std::function<void()> on_finished_;
};

}  // namespace sandboxkit::guest
