#include "io/http_connection.h"

#include <utility>

#include <sys/socket.h>

namespace sandboxkit::io {
namespace {

/// Pipelined requests wait in the kernel beyond this.
constexpr std::size_t kReadAheadBytes = Socket::kReadBytes;

}  // namespace

ServerConnection::ServerConnection(EventLoop& loop, Fd fd, const HttpServerOptions& options,
                                   HttpHandler handler, std::function<void()> on_closed)
    : loop_(loop),
      options_(options),
      handler_(std::move(handler)),
      on_closed_(std::move(on_closed)),
      socket_(Socket::adopt(loop, std::move(fd))) {}

void ServerConnection::start() {
  const auto self = shared_from_this();
  Socket::Handlers handlers;
  handlers.on_data = [self](std::string_view bytes) { self->on_data(bytes); };
  handlers.on_end = [self] { self->on_end(); };
  handlers.on_hangup = [self] { self->on_hangup(); };
  handlers.on_close = [self](const Error&) { self->client_gone(); };
  handlers.on_drain = [self] {
    if (self->exchange_) {
      self->exchange_->drained();
    }
    self->process();
  };
  socket_->start(std::move(handlers));
  arm(TimerKind::kHead, options_.head_timeout);
}

void ServerConnection::on_data(std::string_view bytes) {
  if (!exchange_ && input_.empty() && timer_kind_ == TimerKind::kIdle) {
    arm(TimerKind::kHead, options_.head_timeout);
  }
  input_.append(bytes);
  process();
}

void ServerConnection::on_end() {
  eof_ = true;
  if (!exchange_) {
    return process();
  }
  const bool body_is_cut = exchange_->body_flows() && !exchange_->body_done();
  if (exchange_->wants_gone() || body_is_cut) {
    return client_gone();
  }
  process();
}

void ServerConnection::on_hangup() {
  if (exchange_ && exchange_->wants_gone()) {
    client_gone();
  }
}

void ServerConnection::client_gone() {
  if (over_) {
    return;
  }
  const auto self = shared_from_this();
  const auto gone = exchange_ ? exchange_->detach() : nullptr;
  abort(false);
  if (gone) {
    gone();
  }
}

void ServerConnection::process() {
  if (processing_ || over_) {
    return;
  }
  const auto self = shared_from_this();
  processing_ = true;
  while (!over_) {
    if (exchange_) {
      const auto current = exchange_;
      current->pump_body(input_, eof_);
      if (exchange_ == current) {
        break;
      }
    } else if (socket_->queued_bytes() >= Socket::kHighWater || !take_head()) {
      break;
    }
  }
  processing_ = false;
  update_reading();
}

bool ServerConnection::take_head() {
  // RFC 9112, 2.2: an empty line before a request line is forgiven.
  if (input_.starts_with("\r\n")) {
    input_.erase(0, 2);
  }
  const std::size_t size = wire::find_head_end(input_);
  if (size > options_.head.max_bytes || (size == 0 && input_.size() > options_.head.max_bytes)) {
    refuse(431, "head_too_large", "the request's head is too large");
    return false;
  }
  if (size == 0) {
    if (eof_) {
      end_in_order();
    }
    return false;
  }
  auto head = wire::parse_request_head(std::string_view(input_).substr(0, size), options_.head);
  if (!head) {
    const bool large = head.error().code == ErrorCode::kTooLarge;
    refuse(large ? 431 : 400, reason_of(head.error()), head.error().message);
    return false;
  }
  const std::string* expect = head->headers.find("Expect");
  if (expect != nullptr && !head->headers.has_token("Expect", "100-continue")) {
    refuse(417, "expectation_failed", "the only expectation that is met is 100-continue");
    return false;
  }
  input_.erase(0, size);
  loop_.cancel(timer_);
  wire::Headers fields = options_.observer ? options_.observer->on_request(*head) : wire::Headers{};
  exchange_ = std::make_shared<ServerExchange>(*this, std::move(*head), std::move(fields));
  handler_(exchange_);
  return true;
}

void ServerConnection::refuse(int status, std::string_view error, std::string_view message) {
  wire::RequestHead unread;
  wire::Headers fields;
  if (options_.observer) {
    fields = options_.observer->on_request(unread);
    options_.observer->on_answer(unread, status, {});
  }
  socket_->write(error_answer(status, error, message, fields));
  end_in_order();
}

void ServerConnection::end_in_order() {
  const auto self = shared_from_this();  // The socket's handlers own us, and they go now.
  socket_->close_after_flush();
  finished();
}

void ServerConnection::update_reading() {
  if (over_) {
    return;
  }
  const bool room = input_.size() < kReadAheadBytes;
  bool wanted = socket_->queued_bytes() < Socket::kHighWater || !input_.empty();
  if (exchange_) {
    wanted = room && (exchange_->body_done() || exchange_->body_flows());
  }
  if (wanted == socket_->reading_paused()) {
    wanted ? socket_->resume_reading() : socket_->pause_reading();
  }
}

void ServerConnection::wake() {
  if (processing_ || wake_posted_ || over_) {
    return;
  }
  wake_posted_ = true;
  loop_.post([self = shared_from_this()] {
    self->wake_posted_ = false;
    self->process();
  });
}

void ServerConnection::exchange_finished(bool keep_alive) {
  const auto self = shared_from_this();
  const auto finished_exchange = std::exchange(exchange_, nullptr);
  finished_exchange->detach();
  loop_.cancel(timer_);
  if (!keep_alive || (eof_ && input_.empty())) {
    return end_in_order();
  }
  if (input_.empty()) {
    arm(TimerKind::kIdle, options_.idle_timeout);
    if (!processing_) {
      update_reading();
    }
    return;
  }
  arm(TimerKind::kHead, options_.head_timeout);
  wake();
}

void ServerConnection::abort(bool reset) {
  if (over_) {
    return;
  }
  const auto self = shared_from_this();
  if (reset) {
    const linger at_once{1, 0};
    ::setsockopt(socket_->fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  finished();
  socket_->close();
}

std::shared_ptr<Socket> ServerConnection::hand_over(std::string& early) {
  const auto self = shared_from_this();
  early = std::exchange(input_, {});
  finished();
  socket_->set_handlers({});
  socket_->pause_reading();
  return socket_;
}

void ServerConnection::finished() {
  over_ = true;
  loop_.cancel(timer_);
  if (const auto current = std::exchange(exchange_, nullptr)) {
    current->detach();
  }
  if (on_closed_) {
    loop_.post(std::exchange(on_closed_, nullptr));
  }
}

void ServerConnection::start_body_timer() { arm(TimerKind::kBody, options_.body_timeout); }

void ServerConnection::arm(TimerKind kind, EventLoop::Duration delay) {
  loop_.cancel(timer_);
  timer_kind_ = kind;
  timer_ = loop_.run_after(delay, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->on_timer();
    }
  });
}

void ServerConnection::on_timer() {
  switch (timer_kind_) {
    case TimerKind::kHead:
      if (input_.empty()) {
        return abort(false);
      }
      return refuse(408, "head_timeout", "the request's head did not come in time");
    case TimerKind::kIdle:
      if (socket_->queued_bytes() > 0) {
        return arm(TimerKind::kIdle, options_.idle_timeout);  // Still taking the last answer.
      }
      return abort(false);
    case TimerKind::kBody:
      if (exchange_) {
        exchange_->body_timed_out();
      }
      return;
  }
}

void serve_http(EventLoop& loop, Fd connection, const HttpServerOptions& options,
                HttpHandler handler, std::function<void()> on_closed) {
  std::make_shared<ServerConnection>(loop, std::move(connection), options, std::move(handler),
                                     std::move(on_closed))
      ->start();
}

}  // namespace sandboxkit::io
