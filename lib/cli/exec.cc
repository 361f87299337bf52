#include "cli/exec.h"

#include "base/text.h"
#include "cli/terminal.h"

#include <chrono>
#include <utility>

namespace sandboxkit::cli {
namespace {

constexpr json::Limits kEventLimits{
    .max_bytes = ExecDecoder::kMaxLineBytes, .max_depth = 4, .max_values = 64};

Error not_an_event(std::string_view line) {
  return Error{ErrorCode::kInternal, "the exec stream holds " + quoted(line.substr(0, 60))};
}

Result<ExecEvent> read_event(std::string_view line) {
  const auto value = json::parse(line, kEventLimits);
  if (!value) {
    return not_an_event(line);
  }
  ExecEvent event;
  const std::string type = value->text("type");
  if (type == "start") {
    event.kind = ExecEvent::Kind::kStart;
    event.pid = value->integer("pid");
  } else if (type == "stdout" || type == "stderr") {
    event.kind = type == "stdout" ? ExecEvent::Kind::kStdout : ExecEvent::Kind::kStderr;
    auto bytes = base64_decode(value->text("data"));
    if (!bytes) {
      return not_an_event(line);
    }
    event.bytes = std::move(*bytes);
  } else if (type == "exit") {
    event.kind = ExecEvent::Kind::kExit;
    event.exit.code = static_cast<int>(value->integer("exit_code"));
    const json::Value* timed_out = value->find("timed_out");
    event.exit.timed_out =
        timed_out != nullptr && timed_out->as_bool() != nullptr && *timed_out->as_bool();
  } else if (type != "ping") {
    return not_an_event(line);
  }
  return event;
}

json::Value body_of(const RemoteCommand& command) {
  json::Object body{{"command", json::Array(command.argv.begin(), command.argv.end())},
                    {"stream", true}};
  if (!command.env.empty()) {
    json::Object env;
    for (const auto& [name, value] : command.env) {
      env.emplace_back(name, value);
    }
    body.emplace_back("env", std::move(env));
  }
  if (!command.cwd.empty()) {
    body.emplace_back("cwd", command.cwd);
  }
  if (!command.user.empty()) {
    body.emplace_back("user", command.user);
  }
  if (command.timeout_seconds > 0) {
    body.emplace_back("timeout_seconds", command.timeout_seconds);
  }
  return body;
}

}  // namespace

Status ExecDecoder::feed(std::string_view bytes, const std::function<bool(ExecEvent)>& take) {
  buffer_.append(bytes);
  std::size_t start = 0;
  for (std::size_t end = buffer_.find('\n'); end != std::string::npos;
       end = buffer_.find('\n', start)) {
    const std::string_view line = std::string_view(buffer_).substr(start, end - start);
    start = end + 1;
    if (line.empty()) {
      continue;
    }
    auto event = read_event(line);
    if (!event) {
      return event.error();
    }
    if (!take(std::move(*event))) {
      refused_ = true;
      return Error{ErrorCode::kCancelled, "the output was not wanted any more"};
    }
  }
  buffer_.erase(0, start);
  if (buffer_.size() > kMaxLineBytes) {
    return Error{ErrorCode::kTooLarge, "a line of the exec stream is too long"};
  }
  return {};
}

OutputSinks own_output() {
  return OutputSinks{[](std::string_view bytes) { return write_all(kStandardOutput, bytes); },
                     [](std::string_view bytes) { return write_all(kStandardError, bytes); }};
}

Result<RemoteExit> run_remote(Api& api, const std::string& sandbox, const RemoteCommand& command,
                              const OutputSinks& sinks) {
  ExecDecoder decoder;
  std::optional<RemoteExit> exit;
  Status decoded;
  const auto take = [&](ExecEvent event) {
    if (event.kind == ExecEvent::Kind::kExit) {
      exit = event.exit;
    }
    return event.kind == ExecEvent::Kind::kStdout   ? sinks.out(event.bytes)
           : event.kind == ExecEvent::Kind::kStderr ? sinks.err(event.bytes)
                                                    : true;
  };
  const auto response = api.send({.method = "POST",
                                  .target = sandbox_target(sandbox, "/exec"),
                                  .body = json::dump(body_of(command)),
                                  .timeout = std::chrono::milliseconds{0},
                                  .on_body = [&](std::span<const char> bytes) {
                                    decoded = decoder.feed({bytes.data(), bytes.size()}, take);
                                    return decoded.has_value();
                                  }});
  if (!decoded) {
    return decoded.error();
  }
  if (exit) {
    return *exit;
  }
  const bool broken = response || response.error().code == ErrorCode::kUnavailable ||
                      response.error().code == ErrorCode::kInternal;
  if (broken && (response || response.error().reason.empty() ||
                 response.error().reason == "controller_unavailable")) {
    return Error{ErrorCode::kUnavailable, "the connection broke before the command ended",
                 "stream_broken"};
  }
  return response.error();
}

}  // namespace sandboxkit::cli
