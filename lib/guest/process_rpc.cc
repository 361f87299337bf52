#include "guest/process_rpc.h"

#include "guest/bounds.h"
#include "guest/connect_stream.h"
#include "guest/process_stream.h"
#include "guest/reply.h"
#include "guest/rpc_message.h"

#include <csignal>
#include <limits>

namespace sandboxkit::guest {
namespace {

using Exchange = std::shared_ptr<io::HttpExchange>;

Error not_found(const std::string& which) {
  return {ErrorCode::kNotFound, "process with " + which + " not found", "process_not_found"};
}

/// The process that `selector` names by pid or tag.
Result<std::shared_ptr<Process>> select(const ProcessTable& table, RpcMessage& request) {
  RpcMessage selector = request.message("process");
  const auto pid = selector.integer("pid");
  const auto tag = selector.optional_text("tag");
  request.join(selector);
  if (const Status read = request.status(); !read) {
    return read.error();
  }
  if (tag) {
    auto process = table.by_tag(*tag);
    return process ? Result(process) : not_found("tag '" + *tag + "'");
  }
  if (!pid) {
    return Error{ErrorCode::kInvalidArgument, "process must name a pid or a tag"};
  }
  const bool possible = *pid > 0 && *pid <= std::numeric_limits<pid_t>::max();
  auto process = possible ? table.by_pid(static_cast<pid_t>(*pid)) : nullptr;
  return process ? Result(process) : not_found("pid " + std::to_string(*pid));
}

Result<TerminalSize> read_size(RpcMessage& request) {
  RpcMessage pty = request.message("pty");
  RpcMessage size = pty.message("size");
  const std::int64_t columns = size.integer("cols").value_or(0);
  const std::int64_t rows = size.integer("rows").value_or(0);
  request.join(pty);
  request.join(size);
  if (columns < 1 || columns > kMaxTerminalSide || rows < 1 || rows > kMaxTerminalSide) {
    request.refuse("pty.size", "must have `cols` and `rows` from 1 to 10000");
  }
  if (const Status read = request.status(); !read) {
    return read.error();
  }
  return TerminalSize{static_cast<unsigned>(columns), static_cast<unsigned>(rows)};
}

Result<LaunchRequest> read_start(const json::Value& body, const wire::Headers& headers) {
  RpcMessage request(body);
  RpcMessage process = request.message("process");
  LaunchRequest launch;
  launch.config.command = process.text("cmd");
  launch.config.arguments = process.texts("args");
  launch.config.env = process.text_map("envs");
  launch.config.cwd = process.optional_text("cwd");
  launch.config.tag = request.optional_text("tag");
  launch.open_stdin = request.flag("stdin").value_or(true);  // older SDKs do not say
  launch.user = basic_user(headers);
  request.join(process);
  if (request.has("pty")) {
    const auto size = read_size(request);
    if (!size) {
      return size.error();
    }
    launch.terminal = *size;
  }
  if (const Status read = request.status(); !read) {
    return read.error();
  }
  return launch;
}

/// envd calls it an internal error when the state of a process does not allow something.
Error as_envd(Error error) {
  if (error.code == ErrorCode::kConflict) {
    error.code = ErrorCode::kInternal;
  }
  return error;
}

void fail(io::EventLoop& loop, Exchange exchange, const Error& error) {
  ConnectStream::begin(loop, std::move(exchange), json::Object{})->end(error);
}

void start(io::EventLoop& loop, ProcessTable& table, Exchange exchange, const json::Value& body) {
  const auto timeout = rpc_timeout(exchange->request().headers);
  auto request = timeout ? read_start(body, exchange->request().headers)
                         : Result<LaunchRequest>(timeout.error());
  auto process = request ? table.launch(std::move(*request))
                         : Result<std::shared_ptr<Process>>(request.error());
  if (!process) {
    fail(loop, std::move(exchange), process.error());
    return;
  }
  ProcessStream::open(loop, std::move(exchange), std::move(*process),
                      {.timeout = *timeout, .kill_at_timeout = true});
}

void connect(io::EventLoop& loop, ProcessTable& table, Exchange exchange, const json::Value& body) {
  const auto timeout = rpc_timeout(exchange->request().headers);
  RpcMessage request(body);
  auto process =
      timeout ? select(table, request) : Result<std::shared_ptr<Process>>(timeout.error());
  if (!process) {
    fail(loop, std::move(exchange), process.error());
    return;
  }
  ProcessStream::open(loop, std::move(exchange), std::move(*process), {.timeout = *timeout});
}

json::Value list(const ProcessTable& table) {
  json::Array all;
  for (const auto& process : table.running()) {
    const ProcessConfig& config = process->config();
    json::Object env;
    for (const auto& [name, value] : config.env) {
      env.emplace_back(name, value);
    }
    json::Object shown{{"cmd", config.command},
                       {"args", json::Array(config.arguments.begin(), config.arguments.end())},
                       {"envs", std::move(env)}};
    if (config.cwd) {
      shown.emplace_back("cwd", *config.cwd);
    }
    json::Object entry{{"config", std::move(shown)}, {"pid", std::int64_t{process->pid()}}};
    if (config.tag) {
      entry.emplace_back("tag", *config.tag);
    }
    all.emplace_back(std::move(entry));
  }
  return json::Object{{"processes", std::move(all)}};
}

RpcResult done(const Status& status) {
  return status ? RpcResult(json::Object{}) : RpcResult(as_envd(status.error()));
}

RpcResult send_signal(const ProcessTable& table, RpcMessage& request) {
  const auto process = select(table, request);
  if (!process) {
    return process.error();
  }
  const std::string name = request.text("signal");
  if (name != "SIGNAL_SIGKILL" && name != "SIGNAL_SIGTERM") {
    return Error{ErrorCode::kInvalidArgument, "signal must be SIGNAL_SIGKILL or SIGNAL_SIGTERM"};
  }
  return done((*process)->signal(name == "SIGNAL_SIGKILL" ? SIGKILL : SIGTERM));
}

RpcResult close_stdin(const ProcessTable& table, RpcMessage& request) {
  const auto process = select(table, request);
  return process ? done((*process)->close_stdin()) : RpcResult(process.error());
}

RpcResult update(const ProcessTable& table, RpcMessage& request) {
  const auto process = select(table, request);
  if (!process) {
    return process.error();
  }
  if (!request.has("pty")) {
    return json::Value(json::Object{});
  }
  const auto size = read_size(request);
  return size ? done((*process)->resize(*size)) : RpcResult(size.error());
}

/// Answers when the process has taken the input, so that a fast sender waits for a slow reader.
void send_input(const ProcessTable& table, const Exchange& exchange, const json::Value& body) {
  RpcMessage request(body);
  const auto process = select(table, request);
  RpcMessage input = request.message("input");
  const bool terminal = input.has("pty");
  const std::string bytes = input.bytes(terminal ? "pty" : "stdin").value_or("");
  request.join(input);
  Status status = process ? request.status() : Status(process.error());
  if (status) {
    status = (*process)->write_input(terminal, bytes, [weak = std::weak_ptr(exchange)] {
      if (const auto self = weak.lock()) {
        answer_rpc(*self, json::Value(json::Object{}));
      }
    });
  }
  if (!status) {
    answer_rpc(*exchange, done(status));
  }
}

void unary(ProcessTable& table, std::string_view method, const Exchange& exchange,
           const json::Value& body) {
  RpcMessage request(body);
  if (method == "SendInput") {
    send_input(table, exchange, body);
  } else if (method == "List") {
    answer_rpc(*exchange, list(table));
  } else if (method == "SendSignal") {
    answer_rpc(*exchange, send_signal(table, request));
  } else if (method == "CloseStdin") {
    answer_rpc(*exchange, close_stdin(table, request));
  } else if (method == "Update") {
    answer_rpc(*exchange, update(table, request));
  } else {
    answer_rpc(*exchange, unimplemented("process.Process/" + std::string(method) +
                                        " is not implemented by this guest"));
  }
}

}  // namespace

void serve_process_rpc(io::EventLoop& loop, ProcessTable& table, std::string_view method,
                       const std::shared_ptr<io::HttpExchange>& exchange) {
  const bool stream = method == "Start" || method == "Connect";
  const bool known = stream || method == "List" || method == "SendInput" ||
                     method == "CloseStdin" || method == "SendSignal" || method == "Update";
  if (const Status good = check_rpc_head(exchange->request(), stream); known && !good) {
    answer_rpc(*exchange, good.error());
    return;
  }
  if (!known) {
    unary(table, method, exchange, json::Object{});
    return;
  }
  read_rpc(
      exchange, stream,
      [&loop, &table, name = std::string(method)](const Exchange& self, const json::Value& body) {
        if (name == "Start") {
          start(loop, table, self, body);
        } else if (name == "Connect") {
          connect(loop, table, self, body);
        } else {
          unary(table, name, self, body);
        }
      });
}

}  // namespace sandboxkit::guest
