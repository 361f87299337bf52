#include "control/proxy.h"

#include "base/text.h"
#include "control/fleet.h"
#include "control/refusals.h"
#include "io/socket.h"
#include "wire/trace.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace sandboxkit::control {
namespace {

constexpr std::size_t kHighWater = io::Socket::kHighWater;

/// Fields that speak of one connection, and those that hold or could hold a credential of ours.
constexpr std::array<std::string_view, 15> kKeptHere = {"authorization",
                                                        "x-api-key",
                                                        "cookie",
                                                        "host",
                                                        "connection",
                                                        "keep-alive",
                                                        "te",
                                                        "trailer",
                                                        "upgrade",
                                                        "transfer-encoding",
                                                        "proxy-authorization",
                                                        "expect",
                                                        "proxy-connection",
                                                        "proxy-authenticate",
                                                        "idempotency-key"};

wire::Headers without_kept(const wire::Headers& headers) {
  // A field that `Connection` names is connection-level too.
  std::vector<std::string> named;
  for (const auto& [name, value] : headers.fields()) {
    if (equal_ignoring_case(name, "connection")) {
      for (const std::string_view token : split(value, ',')) {
        named.push_back(ascii_lower(trim(token)));
      }
    }
  }
  wire::Headers kept;
  for (const auto& [name, value] : headers.fields()) {
    const std::string lower = ascii_lower(name);
    const bool here = std::find(kKeptHere.begin(), kKeptHere.end(), lower) != kKeptHere.end() ||
                      std::find(named.begin(), named.end(), lower) != named.end();
    if (!here) {
      kept.add(name, value);
    }
  }
  return kept;
}

/// A sandbox's bytes come from the API's own origin: a browser must neither run nor remember them.
wire::Headers answer_fields(const wire::Headers& headers) {
  wire::Headers fields = without_kept(headers);
  fields.remove("Set-Cookie");
  fields.set("X-Content-Type-Options", "nosniff");
  fields.set("Content-Security-Policy", "sandbox");
  return fields;
}

class Proxy : public std::enable_shared_from_this<Proxy> {
 public:
  Proxy(io::EventLoop& loop, std::shared_ptr<io::HttpExchange> exchange,
        std::function<void()> on_over)
      : loop_(loop), exchange_(std::move(exchange)), on_over_(std::move(on_over)) {}

  void start(const ProxyOrder& order) {
    raw_ = order.raw;
    const auto& head = exchange_->request();
    const bool has_body = raw_ || head.body.kind != wire::Framing::kNone;
    net::TunnelRequest request{raw_ ? "POST" : head.method, order.path,
                               raw_ ? wire::Headers{} : without_kept(head.headers), has_body};
    wire::add_trace(request.headers, wire::trace_of(head.headers));
    const auto self = shared_from_this();
    exchange_->on_gone([self] { self->client_gone(); });
    auto opened = order.tunnel->open(request, handlers());
    if (over_) {
      return;
    }
    if (!opened) {
      refuse_and_end(
          opened.error().reason == "tunnel_streams"
              ? Error{ErrorCode::kUnavailable, "too many streams run on this worker", "overloaded"}
              : worker_unreachable());
      return;
    }
    stream_ = std::move(*opened);
    if (!raw_) {
      read_client_body(has_body);
    }
  }

 private:
  net::TunnelHandlers handlers() {
    const auto self = shared_from_this();
    net::TunnelHandlers handlers;
    handlers.on_head = [self](int status, const wire::Headers& headers) {
      self->take_head(status, headers);
    };
    handlers.on_data = [self](std::string_view bytes) { self->take_data(bytes); };
    handlers.on_end = [self] { self->take_end(); };
    handlers.on_error = [self](const Error&) { self->broken(); };
    handlers.on_drain = [self] { self->drained(); };
    return handlers;
  }

  void read_client_body(bool has_body) {
    body_done_ = !has_body;
    if (!has_body) {
      return;
    }
    const auto self = shared_from_this();
    exchange_->read_body([self](std::string_view bytes) { self->feed_stream(bytes); },
                         [self] { self->end_stream_body(); });
  }

  void end_stream_body() {
    body_done_ = true;
    if (stream_) {
      stream_->end_body();
    }
  }

  void feed_stream(std::string_view bytes) {
    if (!stream_) {
      return;  // The answer ended before the body did; what still comes is dropped.
    }
    stream_->write(bytes);
    if (stream_->queued_bytes() > kHighWater) {
      if (socket_) {
        socket_->pause_reading();
      } else {
        exchange_->pause_body();
      }
    }
  }

  void drained() {
    if (socket_) {
      socket_->resume_reading();
    } else if (exchange_ && !over_) {
      exchange_->resume_body();
    }
  }

  void take_head(int status, const wire::Headers& headers) {
    if (over_) {
      return;
    }
    if (raw_ && status == 200) {
      switch_to_raw();
      return;
    }
    if (status < 200 || status > 599) {
      broken();  // Nothing that an answer may begin with.
      return;
    }
    const auto self = shared_from_this();
    exchange_->on_drain([self] {
      if (self->stream_) {
        self->stream_->resume();
      }
    });
    exchange_->begin(status, answer_fields(headers));
  }

  void switch_to_raw() {
    wire::ResponseHead head;
    head.status = 101;
    head.headers.add("Connection", "Upgrade");
    head.headers.add("Upgrade", "tcp");
    std::string early;
    socket_ = exchange_->upgrade(head, early);
    release(std::move(exchange_));
    const auto self = shared_from_this();
    io::Socket::Handlers handlers;
    handlers.on_data = [self](std::string_view bytes) { self->feed_stream(bytes); };
    handlers.on_end = [self] { self->end_stream_body(); };
    handlers.on_drain = [self] {
      if (self->stream_) {
        self->stream_->resume();
      }
    };
    handlers.on_close = [self](const Error&) { self->client_gone(); };
    if (!early.empty()) {
      feed_stream(early);
    }
    socket_->start(std::move(handlers));
  }

  void take_data(std::string_view bytes) {
    if (over_) {
      return;
    }
    if (socket_) {
      socket_->write(bytes);
    } else {
      exchange_->write(bytes);
    }
    const std::size_t queued = socket_ ? socket_->queued_bytes() : exchange_->queued_bytes();
    if (queued > kHighWater && stream_) {
      stream_->pause();
    }
  }

  void take_end() {
    if (over_) {
      return;
    }
    if (socket_) {
      socket_->close_after_flush();
    } else if (exchange_->answered()) {
      exchange_->end();
    } else {
      broken();
      return;
    }
    finish();
  }

  void broken() {
    if (over_) {
      return;
    }
    if (stream_) {
      stream_->reset();
    }
    if (socket_) {
      socket_->close();
      finish();
    } else if (exchange_->answered()) {
      exchange_->abort();
      finish();
    } else {
      refuse_and_end(worker_unreachable());
    }
  }

  void client_gone() {
    if (over_) {
      return;
    }
    if (stream_) {
      stream_->reset();
    }
    if (socket_) {
      socket_->close();
    }
    finish();
  }

  void refuse_and_end(const Error& error) {
    respond(*exchange_, refuse(error));
    finish();
  }

  /// Lets go of both sides. What is released may be what calls us, so it ends a turn later.
  void finish() {
    over_ = true;
    if (stream_ && !body_done_) {
      stream_
          ->reset();  // The answer came before the whole request was sent: nobody wants the rest.
    }
    release(std::move(exchange_));
    release(std::move(stream_));
    release(std::move(socket_));
    if (const auto over = std::exchange(on_over_, nullptr)) {
      over();
    }
  }

  template <typename T>
  void release(std::shared_ptr<T> held) {
    if (held) {
      loop_.post([held = std::move(held)] { static_cast<void>(held); });
    }
  }

  io::EventLoop& loop_;
  std::shared_ptr<io::HttpExchange> exchange_;  // Shared with its connection.
  std::shared_ptr<net::TunnelStream> stream_;   // Shared with the tunnel until the stream ends.
  std::shared_ptr<io::Socket> socket_;          // After an upgrade, in place of the exchange.
  std::function<void()> on_over_;
  bool raw_ = false;
  bool body_done_ = false;
  bool over_ = false;
};

}  // namespace

void respond(io::HttpExchange& exchange, const net::ApiResponse& response) {
  wire::Headers headers = response.headers;
  headers.set("Content-Type", response.content_type);
  exchange.respond(response.status, std::move(headers), response.body);
}

void start_proxy(io::EventLoop& loop, std::shared_ptr<io::HttpExchange> exchange,
                 const ProxyOrder& order, std::function<void()> on_over) {
  std::make_shared<Proxy>(loop, std::move(exchange), std::move(on_over))->start(order);
}

}  // namespace sandboxkit::control
