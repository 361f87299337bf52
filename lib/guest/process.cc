#include "guest/process.h"

#include "guest/bounds.h"
#include "guest/session.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>

namespace sandboxkit::guest {

Process::Process(io::EventLoop& loop, Spawned spawned, ProcessConfig config)
    : loop_(loop), pid_(spawned.pid), config_(std::move(config)) {
  if (spawned.terminal) {
    terminal_ = std::move(spawned.terminal);
    // Reading and writing pause apart, so each has a descriptor of its own in the loop.
    spawned.output.reset(::fcntl(terminal_.get(), F_DUPFD_CLOEXEC, 3));
    spawned.input.reset(::fcntl(terminal_.get(), F_DUPFD_CLOEXEC, 3));
  }
  if (spawned.input) {
    input_ = std::make_unique<PipeWriter>(loop_, std::move(spawned.input));
  }
  open_readers(spawned);
}

Process::~Process() { loop_.cancel(drain_timer_); }

void Process::open_readers(Spawned& spawned) {
  if (spawned.output) {
    readers_.push_back(
        reader_for(std::move(spawned.output), terminal_ ? Stream::kTerminal : Stream::kStdout));
  }
  if (spawned.error_output) {
    readers_.push_back(reader_for(std::move(spawned.error_output), Stream::kStderr));
  }
}

std::unique_ptr<PipeReader> Process::reader_for(io::Fd fd, Stream stream) {
  return std::make_unique<PipeReader>(
      loop_, std::move(fd),
      PipeReader::Handlers{
          .on_data = [this, stream](std::string_view bytes) { output(stream, bytes); },
          .on_end = [this] { finish_if_done(); }});
}

Status Process::attach(std::shared_ptr<OutputListener> listener) {
  if (listeners_.size() >= kMaxListeners) {
    return Error{ErrorCode::kResourceExhausted, "process has too many listeners",
                 "too_many_listeners"};
  }
  for (const Unheard& piece : std::exchange(unheard_, {})) {
    listener->on_output(piece.stream, piece.bytes);
  }
  if (finished_) {
    listener->on_exit(*exit_);
    return {};
  }
  listeners_.push_back(std::move(listener));
  pause_if_congested();
  return {};
}

void Process::detach(const OutputListener* listener) {
  const auto self = shared_from_this();  // the listener may hold the last reference
  std::erase_if(listeners_, [&](const auto& each) { return each.get() == listener; });
  listener_drained();
}

bool Process::congested() const {
  return std::ranges::any_of(listeners_, [](const auto& each) { return each->congested(); });
}

void Process::listener_drained() {
  if (congested()) {
    return;
  }
  for (const auto& reader : readers_) {
    reader->resume();
  }
}

void Process::pause_if_congested() {
  if (!congested()) {
    return;
  }
  for (const auto& reader : readers_) {
    reader->pause();
  }
}

void Process::output(Stream stream, std::string_view bytes) {
  const auto self = shared_from_this();
  if (!listeners_.empty()) {
    const auto listeners = listeners_;  // a listener may detach itself meanwhile
    for (const auto& listener : listeners) {
      listener->on_output(stream, bytes);
    }
    pause_if_congested();
    return;
  }
  if (unheard_.empty() || unheard_.back().stream != stream) {
    unheard_.push_back({stream, {}});
  }
  unheard_.back().bytes.append(bytes);
  std::size_t total = 0;
  for (const Unheard& piece : unheard_) {
    total += piece.bytes.size();
  }
  while (total > kTailBytes) {  // the oldest goes first
    std::string& oldest = unheard_.front().bytes;
    const std::size_t cut = std::min(oldest.size(), total - kTailBytes);
    oldest.erase(0, cut);
    total -= cut;
    if (oldest.empty()) {
      unheard_.erase(unheard_.begin());
    }
  }
}

Status Process::write_input(bool terminal, std::string_view bytes, std::function<void()> on_room) {
  if (terminal != static_cast<bool>(terminal_)) {
    return Error{ErrorCode::kConflict,
                 terminal ? "process has no terminal" : "process has a terminal: send `pty` input",
                 terminal ? "no_terminal" : "stdin_closed"};
  }
  if (input_ == nullptr || exited()) {
    return Error{ErrorCode::kConflict, "stdin of the process is closed or was not enabled",
                 "stdin_closed"};
  }
  return input_->write(bytes, std::move(on_room));
}

Status Process::close_stdin() {
  if (terminal_) {
    return Error{ErrorCode::kConflict, "a terminal's input cannot be closed: send Ctrl+D",
                 "stdin_closed"};
  }
  if (input_ == nullptr) {
    return Error{ErrorCode::kConflict, "stdin of the process was not enabled", "stdin_closed"};
  }
  input_->close_after_flush();
  return {};
}

Status Process::resize(TerminalSize size) {
  if (!terminal_) {
    return Error{ErrorCode::kConflict, "process has no terminal", "no_terminal"};
  }
  return resize_terminal(terminal_.get(), size);
}

Status Process::signal(int number) {
  // Our child is not reaped before `exited()`, so its number cannot mean another process here.
  if (exited() || ::kill(-pid_, number) != 0) {
    return Error{ErrorCode::kNotFound, "process " + std::to_string(pid_) + " is not running",
                 "process_not_found"};
  }
  return {};
}

void Process::kill_session() {
  if (!exited()) {
    guest::kill_session(pid_);
  }
}

void Process::leader_exited(ExitStatus status) {
  const auto self = shared_from_this();
  exit_ = status;
  if (input_ != nullptr) {
    input_->close_now();
  }
  if (terminal_) {
    end_terminal_soon();
  } else {
    for (const auto& reader : readers_) {
      reader->end_after_what_is_there();
    }
  }
  finish_if_done();
}

/// The kernel hangs a terminal up when its session's leader is gone, and then it reads as ended;
/// the timer is for one that a process without a session keeps open.
void Process::end_terminal_soon() {
  drain_timer_ = loop_.run_after(kTerminalDrain, [this] {
    if (congested()) {
      end_terminal_soon();
      return;
    }
    const auto self = shared_from_this();
    for (const auto& reader : readers_) {
      reader->end_now();
    }
  });
}

void Process::finish_if_done() {
  const bool all_read =
      std::ranges::all_of(readers_, [](const auto& reader) { return reader->ended(); });
  if (finished_ || !exit_ || !all_read) {
    return;
  }
  const auto self = shared_from_this();
  finished_ = true;
  loop_.cancel(drain_timer_);
  terminal_.reset();
  for (const auto& listener : std::exchange(listeners_, {})) {
    listener->on_exit(*exit_);
  }
  if (const auto on_finished = std::exchange(on_finished_, nullptr)) {
    on_finished();
  }
}

}  // namespace sandboxkit::guest
