#include "net/front.h"

#include "io/acceptor.h"
#include "wire/http.h"

#include <array>
#include <unordered_map>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace sandboxkit::net {

namespace {

/// Connections past the limit that are still told so; what comes after them is closed unread.
constexpr std::size_t kRefusedAtOnce = 256;

std::string remote_address(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return {};
  }
  if (storage.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text.data(),
                text.size());
  } else if (storage.ss_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr, text.data(),
                text.size());
  }
  return text.data();
}

/// Says "come back" in the way that clients know.
void respond_busy(io::HttpExchange& exchange, std::string_view reason, std::string_view message) {
  wire::Headers headers;
  headers.add("Content-Type", "application/json");
  headers.add("Retry-After", "1");
  headers.add("Connection", "close");
  exchange.respond(503, std::move(headers), io::error_body(503, reason, message));
}

}  // namespace

/// Shared with answers that are under way in other threads: they hold it weakly, and come back to
/// the loop before they look at it.
struct Front::Impl : std::enable_shared_from_this<Front::Impl> {
  Impl(io::EventLoop& the_loop, const FrontOptions& the_options, ApiServer& the_api,
       StreamHandler the_streams)
      : loop(the_loop), options(the_options), api(the_api), streams(std::move(the_streams)) {}

  io::EventLoop& loop;
  const FrontOptions options;
  ApiServer& api;
  const StreamHandler streams;
  std::shared_ptr<io::Acceptor> acceptor;
  std::uint16_t port = 0;
  std::size_t connections = 0;
  /// Short calls that wait for their answer. The exchanges stay here, on the loop's thread.
  std::unordered_map<std::uint64_t, std::shared_ptr<io::HttpExchange>> calls;
  std::uint64_t last_call = 0;
  bool draining = false;

  void on_connection(io::Fd connection);
  void on_exchange(const std::shared_ptr<io::HttpExchange>& exchange, const std::string& remote);
  void call_api(const std::shared_ptr<io::HttpExchange>& exchange, const std::string& remote,
                std::string body);
  void answer(std::uint64_t call, const ApiResponse& response);
};

void Front::Impl::on_connection(io::Fd connection) {
  if (connections >= options.max_connections + kRefusedAtOnce) {
    return;
  }
  const bool refused = connections >= options.max_connections;
  ++connections;
  const std::weak_ptr<Impl> weak = weak_from_this();
  const std::string remote = remote_address(connection.get());
  io::serve_http(
      loop, std::move(connection), options.http,
      [weak, remote, refused](const std::shared_ptr<io::HttpExchange>& exchange) {
        const auto front = weak.lock();
        if (!front || refused) {
          respond_busy(*exchange, front ? "overloaded" : "unavailable",
                       front ? "too many connections" : "the controller is stopping");
          return;
        }
        front->on_exchange(exchange, remote);
      },
      [weak] {
        if (const auto front = weak.lock()) {
          --front->connections;
        }
      });
}

void Front::Impl::on_exchange(const std::shared_ptr<io::HttpExchange>& exchange,
                              const std::string& remote) {
  if (draining) {
    respond_busy(*exchange, "overloaded", "the controller is stopping");
    return;
  }
  if (streams && streams(exchange, remote)) {
    return;
  }
  exchange->collect_body(
      options.max_body_bytes,
      [weak = weak_from_this(), weak_exchange = std::weak_ptr(exchange), remote](std::string body) {
        const auto front = weak.lock();
        const auto alive = weak_exchange.lock();
        if (front && alive) {
          front->call_api(alive, remote, std::move(body));
        }
      });
}

void Front::Impl::call_api(const std::shared_ptr<io::HttpExchange>& exchange,
                           const std::string& remote, std::string body) {
  const auto& head = exchange->request();
  auto target = wire::parse_target(head.target);
  if (!target) {
    io::respond_error(*exchange, target.error());
    return;
  }
  ApiRequest request;
  request.method = head.method;
  request.target = head.target;
  request.path = std::move(target->path);
  request.query = std::move(target->query);
  request.headers = head.headers;
  request.body = std::move(body);
  request.remote_address = remote;

  const auto call = ++last_call;
  calls[call] = exchange;
  const bool taken = api.submit(
      std::move(request), [&the_loop = loop, weak = weak_from_this(), call](ApiResponse response) {
        the_loop.post([weak, call, response = std::move(response)] {
          if (const auto front = weak.lock()) {
            front->answer(call, response);
          }
        });
      });
  if (!taken) {
    calls.erase(call);
    respond_busy(*exchange, "overloaded", "too many calls wait for an answer");
  }
}

void Front::Impl::answer(std::uint64_t call, const ApiResponse& response) {
  const auto found = calls.find(call);
  if (found == calls.end()) {
    return;
  }
  const auto exchange = std::move(found->second);
  calls.erase(found);
  auto headers = response.headers;
  if (!response.body.empty()) {
    headers.set("Content-Type", response.content_type);
  }
  // Does nothing when the client is gone.
  exchange->respond(response.status, std::move(headers), response.body);
}

Front::Front(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Front::~Front() { stop_accepting(); }

Result<std::unique_ptr<Front>> Front::listen(io::EventLoop& loop, const FrontOptions& options,
                                             ApiServer& api, StreamHandler streams) {
  auto listener = io::listen_tcp(options.address, options.port);
  if (!listener) {
    return listener.error();
  }
  const auto port = io::local_port(listener->get());
  if (!port) {
    return port.error();
  }
  auto impl = std::make_shared<Impl>(loop, options, api, std::move(streams));
  impl->port = *port;
  impl->acceptor = io::Acceptor::start(loop, std::move(*listener),
                                       [weak = std::weak_ptr<Impl>(impl)](io::Fd connection) {
                                         if (const auto front = weak.lock()) {
                                           front->on_connection(std::move(connection));
                                         }
                                       });
  return std::unique_ptr<Front>(new Front(std::move(impl)));
}

std::uint16_t Front::port() const { return impl_->port; }
std::size_t Front::connections() const { return impl_->connections; }
std::size_t Front::calls() const { return impl_->calls.size(); }
void Front::stop_accepting() { impl_->acceptor->close(); }
void Front::drain() {
  stop_accepting();
  impl_->draining = true;
}

}  // namespace sandboxkit::net
