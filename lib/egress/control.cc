#include "egress/control.h"

#include "egress/config.h"
#include "io/http_server.h"

#include <utility>

namespace sandboxkit::egress {
namespace {

constexpr int kOk = 200;
constexpr int kNoContent = 204;
constexpr int kBadRequest = 400;
constexpr int kNotFound = 404;
constexpr int kMethodNotAllowed = 405;
constexpr int kConflict = 409;
constexpr std::size_t kMaxNarrowBytes = 256 * 1024;

void take_secrets(const std::shared_ptr<io::HttpExchange>& exchange, Proxy& proxy) {
  exchange->collect_body(SecretOrder::kMaxBytes, [exchange, &proxy](std::string body) {
    auto order = parse_secret_order(body);
    wipe(body);
    const Status done = order ? proxy.lend(*std::move(order)) : Status(order.error());
    if (done) {
      return exchange->respond(kNoContent, {}, {});
    }
    // The field's path says what is wrong; a value stands in no error.
    const int status = done.error().code == ErrorCode::kConflict ? kConflict : kBadRequest;
    exchange->respond(status, {},
                      io::error_body(status, reason_of(done.error()),
                                     done.error().field + " " + done.error().message));
  });
}

void narrow(const std::shared_ptr<io::HttpExchange>& exchange, Proxy& proxy) {
  exchange->collect_body(kMaxNarrowBytes, [exchange, &proxy](const std::string& body) {
    const auto narrowed = parse_narrowed(body);
    const Status done = narrowed ? proxy.narrow(*narrowed) : Status(narrowed.error());
    if (!done) {
      return io::respond_error(*exchange, done.error());
    }
    exchange->respond(kNoContent, {}, {});
  });
}

void answer(io::HttpExchange& exchange, const Proxy& proxy, const std::string& policy_hash) {
  const wire::RequestHead& request = exchange.request();
  if (request.method != "GET") {
    return exchange.respond(kMethodNotAllowed, {},
                            io::error_body(kMethodNotAllowed, "method_not_allowed", "only GET"));
  }
  if (request.target == "/health") {
    wire::Headers headers;
    const std::string& narrowed = proxy.narrowed_to();
    headers.add("X-Sandboxkit-Policy-Hash", narrowed.empty() ? policy_hash : narrowed);
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

void serve_control(io::EventLoop& loop, io::Fd connection, Proxy& proxy,
                   const std::string& policy_hash) {
  io::serve_http(loop, std::move(connection), {},
                 [&proxy, policy_hash](const std::shared_ptr<io::HttpExchange>& exchange) {
                   const wire::RequestHead& request = exchange->request();
                   if (request.method == "PUT" && request.target == "/secrets") {
                     return take_secrets(exchange, proxy);
                   }
                   if (request.method == "POST" && request.target == "/narrow") {
                     return narrow(exchange, proxy);
                   }
                   answer(*exchange, proxy, policy_hash);
                 });
}

Control::Control(io::EventLoop& loop, Proxy& proxy, std::string policy_hash,
                 const std::string& socket_path)
    : dialer_(io::GuestDialer::start(
          loop, socket_path, [&loop, &proxy, hash = std::move(policy_hash)](io::Fd connection) {
            serve_control(loop, std::move(connection), proxy, hash);
          })) {}

Control::~Control() { dialer_->stop(); }

}  // namespace sandboxkit::egress
