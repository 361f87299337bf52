#include "local/guest_relay.h"

#include "base/text.h"
#include "io/http_client.h"
#include "io/socket.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sandboxkit::local {
namespace {

/// What speaks of one connection, and what names an account or proves who calls.
constexpr std::array<std::string_view, 12> kKeptBack{
    "authorization", "connection",          "cookie", "expect",  "host",
    "keep-alive",    "proxy-authorization", "te",     "trailer", "transfer-encoding",
    "upgrade",       "x-access-token"};

wire::Headers passed_on(const wire::Headers& headers) {
  wire::Headers out;
  for (const auto& [name, value] : headers.fields()) {
    const bool kept = std::ranges::any_of(kKeptBack, [&field = name](std::string_view mine) {
      return equal_ignoring_case(mine, field);
    });
    if (!kept) {
      out.add(name, value);
    }
  }
  return out;
}

class Relay : public std::enable_shared_from_this<Relay> {
 public:
  Relay(io::EventLoop& loop, RelayedCall call) : loop_(loop), call_(std::move(call)) {}

  void start(io::Fd connection) {
    const auto self = shared_from_this();
    exchange().on_gone([self] { self->to_guest_->cancel(); });
    exchange().on_drain([self] { self->to_guest_->resume(); });
    io::HttpClientCall::Handlers handlers;
    handlers.on_head = [self](const wire::ResponseHead& head) { self->on_head(head); };
    handlers.on_data = [self](std::string_view bytes) { self->on_data(bytes); };
    handlers.on_end = [self](const io::Fd&) { self->exchange().end(); };
    handlers.on_error = [self](const Error& error) { self->on_error(error); };
    handlers.on_drain = [self] { self->exchange().resume_body(); };
    to_guest_ =
        io::HttpClientCall::start(loop_, std::move(connection), head(), std::move(handlers));
    if (call_.body) {
      to_guest_->write_body(*call_.body);
      to_guest_->end_body();
    } else if (has_body()) {
      stream_body();
    }
  }

 private:
  io::HttpExchange& exchange() { return *call_.exchange; }
  bool is_tunnel() { return exchange().request().method == "CONNECT"; }
  bool has_body() { return exchange().request().body.kind != wire::Framing::kNone; }

  wire::RequestHead head() {
    const wire::RequestHead& asked = exchange().request();
    wire::RequestHead head;
    head.method = asked.method;
    head.target = call_.target;
    head.headers = passed_on(asked.headers);
    head.headers.set("Host", "sandbox");
    if (call_.body) {
      head.headers.set("Content-Length", std::to_string(call_.body->size()));
    } else if (has_body() && head.headers.find("Content-Length") == nullptr) {
      head.headers.add("Transfer-Encoding", "chunked");
    }
    return head;
  }

  void stream_body() {
    exchange().read_body(
        [self = shared_from_this()](std::string_view bytes) {
          self->to_guest_->write_body(bytes);
          if (self->to_guest_->queued_bytes() >= io::Socket::kHighWater) {
            self->exchange().pause_body();
          }
        },
        [self = shared_from_this()] { self->to_guest_->end_body(); });
  }

  void on_head(const wire::ResponseHead& head) {
    if (is_tunnel() && head.status / 100 == 2) {
      std::string from_guest;
      std::string from_client;
      auto guest = to_guest_->take_socket(from_guest);
      auto client = exchange().upgrade(wire::ResponseHead{}, from_client);
      if (guest != nullptr && client != nullptr) {
        client->write(from_guest);
        io::pipe_sockets(std::move(client), std::move(guest), std::move(from_client), [] {});
      }
      return;
    }
    exchange().begin(head.status, passed_on(head.headers));
  }

  void on_data(std::string_view bytes) {
    exchange().write(bytes);
    if (exchange().queued_bytes() >= io::Socket::kHighWater) {
      to_guest_->pause();
    }
  }

  void on_error(const Error& error) {
    if (exchange().answered()) {
      exchange().abort();
    } else {
      io::respond_error(exchange(), Error{ErrorCode::kUnavailable,
                                          "the sandbox's guest does not answer: " + error.message,
                                          "guest_unavailable"});
    }
  }

  io::EventLoop& loop_;
  const RelayedCall call_;
  std::shared_ptr<io::HttpClientCall> to_guest_;  // Shared with its own handlers.
};

}  // namespace

void relay_call(io::EventLoop& loop, io::Fd connection, RelayedCall call) {
  std::make_shared<Relay>(loop, std::move(call))->start(std::move(connection));
}

}  // namespace sandboxkit::local
