#pragma once

#include "sandboxkit/result.h"

#include "cli/api.h"
#include "cli/interrupts.h"
#include "json/value.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sandboxkit::cli {

/// A command to run in a sandbox.
struct RemoteCommand {
  std::vector<std::string> argv;
  std::map<std::string, std::string> env{};
  std::string cwd{};
  std::string user{};
  /// 0: as long as the sandbox lives.
  std::int64_t timeout_seconds = 0;
};

/// How a remote command ended.
struct RemoteExit {
  /// Its exit code, or 128 and the signal's number.
  int code = 0;
  bool timed_out = false;
};

/// One thing that the exec stream tells.
struct ExecEvent {
  enum class Kind : std::uint8_t { kStart, kStdout, kStderr, kPing, kExit };
  Kind kind = Kind::kPing;
  std::int64_t pid = 0;
  std::string bytes{};
  RemoteExit exit{};
};

/// Takes events out of the NDJSON stream of an exec, piece by piece.
class ExecDecoder {
 public:
  static constexpr std::size_t kMaxLineBytes = 16U << 20;
  /// Errors: kInternal for a line that is no event, kTooLarge.
  Status feed(std::string_view bytes, const std::function<bool(ExecEvent)>& take);
  /// The taker said that it wants no more.
  bool refused() const { return refused_; }

 private:
  std::string buffer_;
  bool refused_ = false;
};

/// Where the command's output goes; false when nobody reads it any more.
struct OutputSinks {
  std::function<bool(std::string_view)> out;
  std::function<bool(std::string_view)> err;
};
/// Our own standard output and error.
OutputSinks own_output();

/// Runs it and passes its output on as it comes. Nothing is fed to it. The command ends when this
/// process does.
/// Errors: what the controller or guest refuses; kUnavailable `stream_broken` when the stream ended
/// before the command; kCancelled when a sink refused.
Result<RemoteExit> run_remote(Api& api, const std::string& sandbox, const RemoteCommand& command,
                              const OutputSinks& sinks);

/// Runs it with our standard input, on a terminal of its own when `terminal`.
/// Errors: as above.
Result<RemoteExit> run_interactive(Api& api, const std::string& sandbox,
                                   const RemoteCommand& command, bool terminal,
                                   Interrupts& interrupts);

/// `signal: killed` and its kin, as a number; 0 for what is no such text.
int signal_of_status(std::string_view status);

}  // namespace sandboxkit::cli
