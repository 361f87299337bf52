// A command with our standard input, over the guest's process.Process calls.

#include "base/text.h"
#include "cli/exec.h"
#include "cli/exit_code.h"
#include "cli/files.h"
#include "cli/terminal.h"
#include "wire/connect.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace sandboxkit::cli {
namespace {

/// A piece is one call; as base64 it stays well below what the guest takes as one message.
constexpr std::size_t kInputPiece = 256 * 1024;
constexpr std::size_t kMaxMessageBytes = 4U << 20;
constexpr json::Limits kMessageLimits{
    .max_bytes = kMaxMessageBytes, .max_depth = 8, .max_values = 256};

struct SignalName {
  const char* text;
  int number;
};
constexpr std::array kSignalNames = {
    SignalName{"hangup", 1},
    SignalName{"interrupt", 2},
    SignalName{"quit", 3},
    SignalName{"illegal instruction", 4},
    SignalName{"aborted", 6},
    SignalName{"bus error", 7},
    SignalName{"floating point exception", 8},
    SignalName{"killed", 9},
    SignalName{"user defined signal 1", 10},
    SignalName{"segmentation fault", 11},
    SignalName{"user defined signal 2", 12},
    SignalName{"broken pipe", 13},
    SignalName{"alarm clock", 14},
    SignalName{"terminated", 15},
};

std::string rpc_target(const std::string& sandbox, const char* method) {
  return sandbox_target(sandbox, std::string("/rpc/process.Process/") + method);
}

json::Value size_value(const WindowSize& size) {
  return json::Object{{"size", json::Object{{"cols", static_cast<std::int64_t>(size.columns)},
                                            {"rows", static_cast<std::int64_t>(size.rows)}}}};
}

json::Value start_body(const RemoteCommand& command, bool terminal) {
  json::Object env;
  for (const auto& [name, value] : command.env) {
    env.emplace_back(name, value);
  }
  json::Object process{
      {"cmd", command.argv.front()},
      {"args", json::Array(command.argv.begin() + 1, command.argv.end())},
      {"envs", std::move(env)},
  };
  if (!command.cwd.empty()) {
    process.emplace_back("cwd", command.cwd);
  }
  json::Object body{{"process", std::move(process)}, {"stdin", true}};
  if (terminal) {
    body.emplace_back("pty", size_value(window_size(kStandardInput)));
  }
  return body;
}

/// One running remote process and the calls that are made for it.
/// Thread-safety: any thread; the calls run side by side.
class RemoteProcess {
 public:
  RemoteProcess(Api& api, std::string sandbox, bool terminal)
      : api_(api), sandbox_(std::move(sandbox)), terminal_(terminal) {}

  void started(std::int64_t pid) { pid_ = pid; }
  bool is_started() const { return pid_ != 0; }

  Status send(std::string_view bytes) {
    return call("SendInput",
                {{"input", json::Object{{terminal_ ? "pty" : "stdin", base64_encode(bytes)}}}});
  }
  void close_input() {
    // A terminal has no end of input but its own character.
    static_cast<void>(terminal_ ? send("\x04") : call("CloseStdin", {}));
  }
  void resize() {
    static_cast<void>(call("Update", {{"pty", size_value(window_size(kStandardInput))}}));
  }
  void kill() { static_cast<void>(call("SendSignal", {{"signal", "SIGNAL_SIGKILL"}})); }

 private:
  Status call(const char* method, json::Object body) {
    if (!is_started()) {
      return {};
    }
    body.emplace_back("process", json::Object{{"pid", pid_.load()}});
    const auto answer = api_.post(rpc_target(sandbox_, method), std::move(body));
    return answer ? Status() : Status(answer.error());
  }

  Api& api_;
  std::string sandbox_;
  bool terminal_;
  std::atomic<std::int64_t> pid_{0};
};

/// Feeds our standard input to the process until it ends or the pump is stopped.
class InputPump {
 public:
  explicit InputPump(RemoteProcess& process) : process_(process) {
    std::array<int, 2> ends{-1, -1};
    if (pipe2(ends.data(), O_CLOEXEC) == 0) {
      stop_read_ = Descriptor(ends[0]);
      stop_write_ = Descriptor(ends[1]);
    }
  }
  ~InputPump() {
    stop_write_.reset();
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  InputPump(const InputPump&) = delete;
  InputPump& operator=(const InputPump&) = delete;

  void start() {
    if (stop_read_ && !thread_.joinable()) {
      thread_ = std::thread([this] { run(); });
    }
  }

 private:
  void run() {
    std::string buffer(kInputPiece, '\0');
    while (true) {
      std::array<pollfd, 2> waiting{pollfd{kStandardInput, POLLIN, 0},
                                    pollfd{stop_read_.get(), POLLIN, 0}};
      if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) {
        return;
      }
      if (waiting[1].revents != 0) {
        return;
      }
      if (waiting[0].revents == 0) {
        continue;
      }
      const std::size_t got = fill(buffer);
      // A failure: the process has closed its input or is gone; its end comes over the stream.
      if (got > 0 && !process_.send({buffer.data(), got})) {
        return;
      }
      if (got == 0) {
        process_.close_input();
        return;
      }
    }
  }

  /// What is there already, as one piece; 0 at the end of the input.
  static std::size_t fill(std::span<char> buffer) {
    std::size_t filled = 0;
    pollfd more{kStandardInput, POLLIN, 0};
    do {
      const auto got = read_some(kStandardInput, buffer.subspan(filled));
      if (!got || *got == 0) {
        break;
      }
      filled += *got;
    } while (filled < buffer.size() && poll(&more, 1, 0) == 1);
    return filled;
  }

  RemoteProcess& process_;
  Descriptor stop_read_;
  Descriptor stop_write_;
  std::thread thread_;
};

Error connect_error(const json::Value& error) {
  const std::string code = error.text("code");
  const std::string message = error.text("message", "the guest refused the call");
  if (message.starts_with("command not found")) {
    return Error{ErrorCode::kInvalidArgument, message, "command_not_found"};
  }
  if (code == "not_found") {
    return Error{ErrorCode::kNotFound, message};
  }
  if (code == "invalid_argument") {
    return Error{ErrorCode::kInvalidArgument, message};
  }
  if (code == "permission_denied") {
    return Error{ErrorCode::kPermissionDenied, message};
  }
  return Error{code == "unavailable" ? ErrorCode::kUnavailable : ErrorCode::kInternal, message};
}

/// Reads the event stream of a Start call.
class StartStream {
 public:
  StartStream(RemoteProcess& process, InputPump& input) : process_(process), input_(input) {}

  bool feed(std::string_view bytes) {
    decoder_.feed(bytes);
    while (!problem_) {
      auto message = decoder_.next();
      if (!message) {
        problem_ = message.error();
      } else if (!*message) {
        return true;
      } else {
        take(**message);
      }
    }
    return false;
  }

  Result<RemoteExit> outcome(const Result<ClientResponse>& response) const {
    if (problem_) {
      return *problem_;
    }
    if (exit_) {
      return *exit_;
    }
    if (!response && response.error().code != ErrorCode::kInternal) {
      return response.error();
    }
    return Error{ErrorCode::kUnavailable, "the connection broke before the command ended",
                 "stream_broken"};
  }

 private:
  void take(const wire::ConnectMessage& message) {
    const auto value = json::parse(message.json, kMessageLimits);
    if (!value) {
      problem_ = value.error();
      return;
    }
    if ((message.flags & wire::kConnectEndStream) != 0) {
      if (const json::Value* error = value->find("error")) {
        problem_ = connect_error(*error);
      }
      return;
    }
    const json::Value* event = value->find("event");
    if (event == nullptr) {
      return;
    }
    if (const json::Value* start = event->find("start")) {
      process_.started(start->integer("pid"));
      input_.start();
    } else if (const json::Value* data = event->find("data")) {
      take_data(*data);
    } else if (const json::Value* end = event->find("end")) {
      const int number = signal_of_status(end->text("status"));
      exit_ = RemoteExit{number != 0 ? kExitSignalBase + number
                                     : static_cast<int>(end->integer("exitCode"))};
    }
  }

  void take_data(const json::Value& data) {
    for (const char* name : {"stdout", "pty", "stderr"}) {
      const auto bytes = base64_decode(data.text(name));
      const int fd = std::string_view(name) == "stderr" ? kStandardError : kStandardOutput;
      if (bytes && !bytes->empty() && !write_all(fd, *bytes)) {
        problem_ = Error{ErrorCode::kCancelled, "the output was not wanted any more"};
      }
    }
  }

  RemoteProcess& process_;
  InputPump& input_;
  wire::ConnectDecoder decoder_{kMaxMessageBytes};
  std::optional<RemoteExit> exit_;
  std::optional<Error> problem_;
};

}  // namespace

int signal_of_status(std::string_view status) {
  constexpr std::string_view kPrefix = "signal: ";
  if (!status.starts_with(kPrefix)) {
    return 0;
  }
  status.remove_prefix(kPrefix.size());
  status = status.substr(0, status.find(" ("));  // `(core dumped)`
  for (const SignalName& name : kSignalNames) {
    if (status == name.text) {
      return name.number;
    }
  }
  return 1;
}

Result<RemoteExit> run_interactive(Api& api, const std::string& sandbox,
                                   const RemoteCommand& command, bool terminal,
                                   Interrupts& interrupts) {
  RemoteProcess process(api, sandbox, terminal);
  std::optional<RawMode> raw;
  if (terminal) {
    raw.emplace(kStandardInput);
  }
  // A Connect stream that ends leaves its process running, so it is ended by name.
  interrupts.on_end([&] {
    process.kill();
    if (raw) {
      raw->restore();
    }
  });
  interrupts.on_resize([&] { process.resize(); });

  Result<RemoteExit> outcome = RemoteExit{};
  {
    InputPump input(process);
    StartStream stream(process, input);
    const auto response =
        api.send({.method = "POST",
                  .target = rpc_target(sandbox, "Start"),
                  .body = wire::connect_envelope(0, json::dump(start_body(command, terminal))),
                  .headers = {{"Content-Type", "application/connect+json"},
                              {"Connect-Protocol-Version", "1"}},
                  .timeout = std::chrono::milliseconds{0},
                  .on_body = [&](std::span<const char> bytes) {
                    return stream.feed({bytes.data(), bytes.size()});
                  }});
    outcome = stream.outcome(response);
  }
  interrupts.hold_while_ending();
  interrupts.on_resize({});
  interrupts.on_end({});
  if (!outcome) {
    process.kill();
  }
  return outcome;
}

}  // namespace sandboxkit::cli
