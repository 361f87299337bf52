#include "work/guest_streams.h"

#include "base/text.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sandboxkit::work {
namespace {

/// Fields that speak of one connection and not of the message (RFC 9110, 7.6.1), and those that we
/// write ourselves.
constexpr std::array<std::string_view, 12> kNotPassedOn{"connection",
                                                        "keep-alive",
                                                        "proxy-connection",
                                                        "proxy-authorization",
                                                        "proxy-authenticate",
                                                        "te",
                                                        "trailer",
                                                        "transfer-encoding",
                                                        "upgrade",
                                                        "expect",
                                                        "host",
                                                        "http2-settings"};

wire::Headers passed_on(const wire::Headers& headers) {
  wire::Headers out;
  for (const auto& [name, value] : headers.fields()) {
    const bool ours = std::ranges::any_of(kNotPassedOn, [&field = name](std::string_view mine) {
      return equal_ignoring_case(mine, field);
    });
    if (!ours && !name.starts_with(':')) {
      out.add(name, value);
    }
  }
  return out;
}

bool is_full(std::size_t queued) { return queued >= io::Socket::kHighWater; }

}  // namespace

ForwardedRequest::ForwardedRequest(GuestProxy& proxy, std::shared_ptr<net::TunnelExchange> exchange,
                                   SandboxId sandbox, std::string target)
    : proxy_(proxy),
      exchange_(std::move(exchange)),
      sandbox_(std::move(sandbox)),
      target_(std::move(target)) {}

void ForwardedRequest::start() {
  exchange_->on_gone([self = shared_from_this()] {
    if (self->call_) {
      self->call_->cancel();
    }
    self->over();
  });
  exchange_->on_drain([self = shared_from_this()] {
    if (self->call_) {
      self->call_->resume();
    }
  });
  send(false);
}

wire::RequestHead ForwardedRequest::request_head() const {
  const net::TunnelRequest& request = exchange_->request();
  wire::RequestHead head;
  head.method = request.method;
  head.target = target_;
  head.headers = passed_on(request.headers);
  head.headers.set("Host", "sandbox");
  if (!request.has_body) {
    head.headers.set("Content-Length", "0");
  } else if (head.headers.find("Content-Length") == nullptr) {
    head.headers.add("Transfer-Encoding", "chunked");
  }
  return head;
}

void ForwardedRequest::send(bool fresh) {
  auto connection = proxy_.connect(sandbox_, fresh);
  if (!connection) {
    return on_error(connection.error());
  }
  reused_ = connection->reused;
  const auto self = shared_from_this();
  io::HttpClientCall::Handlers handlers;
  handlers.on_head = [self](const wire::ResponseHead& head) { self->on_head(head); };
  handlers.on_data = [self](std::string_view bytes) { self->on_data(bytes); };
  handlers.on_end = [self](io::Fd reusable) { self->on_end(std::move(reusable)); };
  handlers.on_error = [self](const Error& error) { self->on_error(error); };
  handlers.on_drain = [self] { self->exchange_->resume_body(); };
  call_ = io::HttpClientCall::start(proxy_.loop(), std::move(connection->fd), request_head(),
                                    std::move(handlers));
  if (exchange_->request().has_body) {
    send_body();
  }
}

void ForwardedRequest::send_body() {
  if (std::exchange(body_begun_, true)) {
    return;
  }
  exchange_->read_body(
      [self = shared_from_this()](std::string_view bytes) {
        self->call_->write_body(bytes);
        if (is_full(self->call_->queued_bytes())) {
          self->exchange_->pause_body();
        }
      },
      [self = shared_from_this()] { self->call_->end_body(); });
}

void ForwardedRequest::on_head(const wire::ResponseHead& head) {
  if (head.status < 200) {
    // Nobody asked to switch protocols, and after a 101 no end would ever come.
    call_->cancel();
    return on_error(Error{ErrorCode::kUnavailable, "it switched protocols", "bad_response"});
  }
  answer_begun_ = true;
  exchange_->begin(head.status, passed_on(head.headers));
}

void ForwardedRequest::on_data(std::string_view bytes) {
  exchange_->write(bytes);
  if (is_full(exchange_->queued_bytes())) {
    call_->pause();
  }
}

void ForwardedRequest::on_end(io::Fd reusable) {
  if (reusable) {
    proxy_.give_back(sandbox_.str(), std::move(reusable));
  }
  exchange_->end();
  over();
}

void ForwardedRequest::on_error(const Error& error) {
  if (reused_ && !body_begun_ && error.reason == "connection_lost") {
    return send(true);  // The guest had closed the idle connection: it never saw the request.
  }
  if (answer_begun_) {
    exchange_->reset();
  } else {
    respond_error(*exchange_, Error{ErrorCode::kUnavailable,
                                    "the sandbox's guest does not answer: " + error.message,
                                    "guest_unavailable"});
  }
  over();
}

void ForwardedRequest::over() {
  if (!std::exchange(over_, true)) {
    proxy_.stream_over(sandbox_.str());
  }
}

TcpPipe::TcpPipe(GuestProxy& proxy, std::shared_ptr<net::TunnelExchange> exchange,
                 SandboxId sandbox, std::uint16_t port)
    : proxy_(proxy), exchange_(std::move(exchange)), sandbox_(std::move(sandbox)), port_(port) {}

void TcpPipe::start() {
  auto connection = proxy_.connect(sandbox_, true);
  if (!connection) {
    return refuse(connection.error());
  }
  const auto self = shared_from_this();
  exchange_->on_gone([self] {
    if (self->socket_) {
      self->socket_->close();
    } else if (self->call_) {
      self->call_->cancel();
    }
    self->over();
  });
  wire::RequestHead head;
  head.method = "CONNECT";
  head.target = "127.0.0.1:" + std::to_string(port_);
  head.headers.add("Host", head.target);
  io::HttpClientCall::Handlers handlers;
  handlers.on_head = [self](const wire::ResponseHead& answer) { self->on_head(answer); };
  handlers.on_error = [self](const Error& error) { self->refuse(error); };
  call_ = io::HttpClientCall::start(proxy_.loop(), std::move(connection->fd), head,
                                    std::move(handlers));
}

void TcpPipe::on_head(const wire::ResponseHead& head) {
  std::string early;
  auto socket = head.status / 100 == 2 ? call_->take_socket(early) : nullptr;
  if (!socket) {
    call_->cancel();
    return refuse(Error{ErrorCode::kUnavailable,
                        "nothing answers at port " + std::to_string(port_) + " in the sandbox",
                        "port_closed"});
  }
  pipe(std::move(socket), early);
}

void TcpPipe::pipe(std::shared_ptr<io::Socket> socket, const std::string& early) {
  socket_ = std::move(socket);
  const auto self = shared_from_this();
  exchange_->begin(200, {});
  exchange_->write(early);
  exchange_->on_drain([self] { self->socket_->resume_reading(); });
  io::Socket::Handlers handlers;
  handlers.on_data = [self](std::string_view bytes) { self->to_tunnel(bytes); };
  handlers.on_end = [self] { self->exchange_->end(); };
  handlers.on_drain = [self] { self->exchange_->resume_body(); };
  handlers.on_close = [self](const Error& error) {
    // After an orderly end the stream has ended already; anything else must not look like one.
    if (error.reason != "connection_closed") {
      self->exchange_->reset();
    }
    self->over();
  };
  socket_->start(std::move(handlers));
  exchange_->read_body([self](std::string_view bytes) { self->to_sandbox(bytes); },
                       [self] { self->socket_->shutdown_write(); });
}

void TcpPipe::to_tunnel(std::string_view bytes) {
  exchange_->write(bytes);
  if (is_full(exchange_->queued_bytes())) {
    socket_->pause_reading();
  }
}

void TcpPipe::to_sandbox(std::string_view bytes) {
  socket_->write(bytes);
  if (is_full(socket_->queued_bytes())) {
    exchange_->pause_body();
  }
}

void TcpPipe::refuse(const Error& error) {
  respond_error(*exchange_, error);
  over();
}

void TcpPipe::over() {
  if (!std::exchange(over_, true)) {
    proxy_.stream_over(sandbox_.str());
  }
}

}  // namespace sandboxkit::work
