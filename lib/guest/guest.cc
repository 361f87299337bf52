#include "guest/guest.h"

#include "base/text.h"
#include "guest/bounds.h"
#include "guest/connect_stream.h"
#include "guest/exec.h"
#include "guest/files.h"
#include "guest/filesystem_rpc.h"
#include "guest/metrics.h"
#include "guest/port_pipe.h"
#include "guest/process_rpc.h"
#include "guest/process_table.h"
#include "guest/reaper.h"
#include "guest/reply.h"
#include "guest/settings.h"
#include "io/http_server.h"

#include <cerrno>
#include <csignal>

#include <unistd.h>

namespace sandboxkit::guest {
namespace {

using Exchange = std::shared_ptr<io::HttpExchange>;

std::string_view shown_token(const wire::RequestHead& head) {
  const std::string* token = head.headers.find("X-Access-Token");
  return token == nullptr ? std::string_view() : std::string_view(*token);
}

Error bad_target(const Error& error, const std::string& raw) {
  // The one part of a target that a caller fills with data of its own.
  const bool nul = raw.find("%00") != std::string::npos;
  return nul ? Error{ErrorCode::kInvalidArgument, "path holds a NUL byte", {}, "path"} : error;
}

}  // namespace

struct Guest::Impl : std::enable_shared_from_this<Impl> {
  Impl(io::EventLoop& event_loop, GuestOptions options)
      : loop(event_loop),
        reaper(loop),
        settings(options.container_env, AccountFiles(options.passwd_path, options.group_path)),
        table(loop, reaper, settings),
        metrics({}) {
    metrics.read(system_clock().now());  // the first answer is of the time since the start
  }

  void route(const Exchange& exchange);
  void route_rpc(const Exchange& exchange, std::string_view path);
  void init(const Exchange& exchange);
  bool only(io::HttpExchange& exchange, const char* method) const;
  void signal_everybody(int number);
  void wait_for_everybody(std::chrono::milliseconds left, std::function<void()> on_stopped);

  io::EventLoop& loop;
  Reaper reaper;
  Settings settings;
  ProcessTable table;
  Metrics metrics;
  std::size_t connections = 0;
  bool stopping = false;
};

/// Everybody in the sandbox for PID 1; a guest that is not PID 1 ends what it started, nobody else.
void Guest::Impl::signal_everybody(int number) {
  if (::getpid() == 1) {
    ::kill(-1, number);
    return;
  }
  for (const auto& process : table.running()) {
    if (number == SIGKILL) {
      process->kill_session();
    } else {
      [[maybe_unused]] const Status asked = process->signal(number);
    }
  }
}

void Guest::Impl::wait_for_everybody(std::chrono::milliseconds left,
                                     std::function<void()> on_stopped) {
  const bool empty =
      ::getpid() == 1 ? ::kill(-1, 0) != 0 && errno == ESRCH : table.running().empty();
  if (empty || left.count() <= 0) {
    signal_everybody(SIGKILL);
    on_stopped();
    return;
  }
  loop.run_after(kStopCheck, [impl = shared_from_this(), left, on_stopped = std::move(on_stopped)] {
    impl->wait_for_everybody(left - kStopCheck, on_stopped);
  });
}

bool Guest::Impl::only(io::HttpExchange& exchange, const char* method) const {
  if (exchange.request().method == method) {
    return true;
  }
  constexpr int kMethodNotAllowed = 405;
  wire::Headers headers;
  headers.add("Allow", method);
  headers.add("Content-Type", "application/json");
  exchange.respond(kMethodNotAllowed, std::move(headers),
                   io::error_body(kMethodNotAllowed, "method_not_allowed",
                                  std::string("this route takes ") + method));
  return false;
}

void Guest::Impl::init(const Exchange& exchange) {
  exchange->collect_body(
      kMaxRequestBytes, [this, weak = std::weak_ptr(exchange)](const std::string& body) {
        const auto self = weak.lock();
        if (self == nullptr) {
          return;
        }
        const auto value = body.empty() ? Result<json::Value>(json::Object{}) : json::parse(body);
        const Status done = value ? settings.initialize(*value, shown_token(self->request()))
                                  : Status(value.error());
        if (!done) {
          refuse(*self, done.error());
          return;
        }
        wire::Headers headers;
        headers.add("X-Envd-Version", kEnvdVersion);
        self->respond(204, std::move(headers), "");
      });
}

void Guest::Impl::route_rpc(const Exchange& exchange, std::string_view path) {
  constexpr std::string_view kProcess = "/process.Process/";
  constexpr std::string_view kFilesystem = "/filesystem.Filesystem/";
  if (path.starts_with(kProcess)) {
    if (only(*exchange, "POST")) {
      serve_process_rpc(loop, table, path.substr(kProcess.size()), exchange);
    }
  } else if (path.starts_with(kFilesystem)) {
    if (only(*exchange, "POST")) {
      serve_filesystem_rpc(settings, path.substr(kFilesystem.size()), exchange);
    }
  } else {
    refuse(*exchange,
           {ErrorCode::kNotFound, "the guest has no route " + quoted(path), "route_not_found"});
  }
}

void Guest::Impl::route(const Exchange& exchange) {
  const wire::RequestHead& head = exchange->request();
  const bool tunnel = head.method == "CONNECT";
  const auto target = tunnel ? Result(wire::Target{}) : wire::parse_target(head.target);
  if (!target) {
    refuse(*exchange, bad_target(target.error(), head.target));
    return;
  }
  const std::string& path = target->path;
  if (path == "/health") {
    if (only(*exchange, "GET")) {
      exchange->respond(204, {}, "");
    }
  } else if (path == "/init") {
    if (only(*exchange, "POST")) {
      init(exchange);
    }
  } else if (path == "/files") {
    serve_files(loop, settings, exchange, *target);
  } else if (!settings.token_matches(shown_token(head))) {
    refuse(*exchange, {ErrorCode::kUnauthenticated,
                       "unauthorized access, please provide a valid access token or method signing "
                       "if supported"});
  } else if (tunnel) {
    serve_connect(loop, exchange);
  } else if (path == "/exec") {
    if (only(*exchange, "POST")) {
      serve_exec(loop, table, exchange);
    }
  } else if (path == "/envs") {
    if (only(*exchange, "GET")) {
      json::Object shown;
      for (auto& [name, value] : settings.env()) {
        shown.emplace_back(name, value);
      }
      io::respond_json(*exchange, 200, json::dump(std::move(shown)));
    }
  } else if (path == "/metrics") {
    if (only(*exchange, "GET")) {
      io::respond_json(*exchange, 200, json::dump(metrics.read(system_clock().now())));
    }
  } else {
    route_rpc(exchange, path);
  }
}

Guest::Guest(io::EventLoop& loop, GuestOptions options)
    : impl_(std::make_shared<Impl>(loop, std::move(options))) {}

Guest::~Guest() = default;

std::uint64_t Guest::reaped() const { return impl_->reaper.reaped(); }

void Guest::serve(io::Fd connection, std::function<void()> on_closed) {
  if (impl_->stopping || impl_->connections >= kMaxConnections) {
    return;
  }
  ++impl_->connections;
  io::serve_http(
      impl_->loop, std::move(connection), {},
      [impl = impl_](const Exchange& exchange) { impl->route(exchange); },
      [impl = impl_, on_closed = std::move(on_closed)] {
        --impl->connections;
        if (on_closed) {
          on_closed();
        }
      });
}

void Guest::stop(std::function<void()> on_stopped) {
  impl_->stopping = true;
  impl_->signal_everybody(SIGTERM);
  impl_->wait_for_everybody(kStopGrace, std::move(on_stopped));
}

}  // namespace sandboxkit::guest
