#include "egress/control.h"

#include "io/http_server.h"

#include <utility>

namespace sandboxkit::egress {
namespace {

constexpr int kOk = 200;
constexpr int kNoContent = 204;
constexpr int kNotFound = 404;
constexpr int kMethodNotAllowed = 405;

void answer(io::HttpExchange& exchange, const Proxy& proxy, const std::string& policy_hash) {
  const wire::RequestHead& request = exchange.request();
  if (request.method != "GET") {
    return exchange.respond(kMethodNotAllowed, {},
                            io::error_body(kMethodNotAllowed, "method_not_allowed", "only GET"));
  }
  if (request.target == "/health") {
    wire::Headers headers;
    headers.add("X-Sandboxkit-Policy-Hash", policy_hash);
    return exchange.respond(kNoContent, std::move(headers), {});
  }
  if (request.target == "/denied") {
    return io::respond_json(exchange, kOk, json::dump(proxy.denied()));
  }
  if (request.target == "/stats") {
    return io::respond_json(exchange, kOk, json::dump(proxy.stats()));
  }
  exchange.respond(kNotFound, {}, io::error_body(kNotFound, "route_not_found", "no such route"));
}

}  // namespace

void serve_control(io::EventLoop& loop, io::Fd connection, const Proxy& proxy,
                   const std::string& policy_hash) {
  io::serve_http(loop, std::move(connection), {},
                 [&proxy, policy_hash](const std::shared_ptr<io::HttpExchange>& exchange) {
                   answer(*exchange, proxy, policy_hash);
                 });
}

Control::Control(io::EventLoop& loop, const Proxy& proxy, std::string policy_hash,
                 const std::string& socket_path)
    : dialer_(io::GuestDialer::start(
          loop, socket_path, [&loop, &proxy, hash = std::move(policy_hash)](io::Fd connection) {
            serve_control(loop, std::move(connection), proxy, hash);
          })) {}

Control::~Control() { dialer_->stop(); }

}  // namespace sandboxkit::egress
