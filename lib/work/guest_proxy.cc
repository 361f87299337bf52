#include "work/guest_proxy.h"

#include "io/http_server.h"
#include "work/guest_streams.h"

#include <cerrno>
#include <utility>

#include <sys/socket.h>

namespace sandboxkit::work {
namespace {

/// Whether the guest neither closed an idle connection nor said something that nobody asked for.
bool is_quiet(const io::Fd& connection) {
  char byte = 0;
  const ssize_t got = ::recv(connection.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace

void respond_json(net::TunnelExchange& exchange, int status, const std::string& json) {
  wire::Headers headers;
  headers.add("Content-Type", "application/json");
  exchange.respond(status, headers, json);
}

void respond_error(net::TunnelExchange& exchange, const Error& error) {
  const int status = io::status_of(error.code);
  respond_json(exchange, status,
               io::error_body(status, reason_of(error), error.message, error.field));
}

std::size_t GuestProxy::streams(const std::string& sandbox) const {
  const auto found = streams_.find(sandbox);
  return found == streams_.end() ? 0 : found->second;
}

bool GuestProxy::admit(net::TunnelExchange& exchange, const std::string& sandbox) {
  std::size_t& count = streams_[sandbox];
  if (count >= kMaxStreams) {
    respond_error(exchange,
                  Error{ErrorCode::kUnavailable,
                        "the sandbox has " + std::to_string(kMaxStreams) + " streams open already",
                        "sandbox_busy"});
    return false;
  }
  ++count;
  return true;
}

void GuestProxy::stream_over(const std::string& sandbox) {
  const auto found = streams_.find(sandbox);
  if (found != streams_.end() && --found->second == 0) {
    streams_.erase(found);
  }
}

Result<GuestProxy::Connection> GuestProxy::connect(const SandboxId& sandbox, bool fresh) {
  const auto found = idle_.find(sandbox.str());
  const auto oldest = std::chrono::steady_clock::now() - kMaxIdleTime;
  while (!fresh && found != idle_.end() && !found->second.empty()) {
    Idle idle = std::move(found->second.back());
    found->second.pop_back();
    if (idle.since >= oldest && is_quiet(idle.fd)) {
      return Connection{std::move(idle.fd), true};
    }
  }
  // On the loop's thread: a driver's way to its guests stands, and a new connection is one message.
  const auto made = driver_.connect_guest(sandbox);
  if (!made) {
    return made.error();
  }
  return Connection{io::Fd(*made), false};
}

void GuestProxy::give_back(const std::string& sandbox, io::Fd connection) {
  auto& idle = idle_[sandbox];
  if (idle.size() >= kMaxIdle) {
    idle.erase(idle.begin());
  }
  idle.push_back(Idle{std::move(connection), std::chrono::steady_clock::now()});
}

void GuestProxy::forward(std::shared_ptr<net::TunnelExchange> exchange, const SandboxId& sandbox,
                         std::string target) {
  if (admit(*exchange, sandbox.str())) {
    std::make_shared<ForwardedRequest>(*this, std::move(exchange), sandbox, std::move(target))
        ->start();
  }
}

void GuestProxy::open_tcp(std::shared_ptr<net::TunnelExchange> exchange, const SandboxId& sandbox,
                          std::uint16_t port) {
  if (admit(*exchange, sandbox.str())) {
    std::make_shared<TcpPipe>(*this, std::move(exchange), sandbox, port)->start();
  }
}

}  // namespace sandboxkit::work
