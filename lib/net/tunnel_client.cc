#include "base/text.h"
#include "net/tunnel_session.h"

namespace sandboxkit::net {

namespace {

constexpr int kLowestFinalStatus = 200;

class ClientStream final : public TunnelStream, public TunnelFlow {
 public:
  ClientStream(io::EventLoop& loop, TunnelHandlers handlers)
      : loop_(loop), handlers_(std::make_shared<TunnelHandlers>(std::move(handlers))) {}

  void write(std::string_view bytes) override { send(bytes); }
  void end_body() override { send_end(); }
  std::size_t queued_bytes() const override { return unsent_bytes(); }
  void pause() override { hold(); }
  void resume() override { release(); }
  void reset() override {
    drop_handlers();
    cut();
  }

  void start_timer(std::chrono::milliseconds timeout) {
    if (timeout.count() <= 0) {
      return;
    }
    timer_ = loop_.run_after(timeout, [weak = weak_from_this(), this] {
      if (const auto alive = weak.lock()) {
        timer_ = 0;
        const auto handlers = drop_handlers();
        cut();
        if (handlers->on_error) {
          handlers->on_error({ErrorCode::kDeadlineExceeded, "the worker did not answer in time",
                              "tunnel_timeout"});
        }
      }
    });
  }

 private:
  void on_field(std::string_view name, std::string_view value) override {
    if (name == ":status") {
      status_ = static_cast<int>(parse_decimal(value, 999).value_or(0));
    } else if (!name.starts_with(':') && !head_told_) {
      headers_.add(std::string(name), std::string(value));
    }
  }

  void on_whole_head(bool) override {
    if (head_told_) {
      return;  // trailers
    }
    if (status_ < kLowestFinalStatus) {
      headers_ = {};
      return;
    }
    head_told_ = true;
    stop_timer();
    if (const auto handlers = handlers_; handlers->on_head) {
      handlers->on_head(status_, std::exchange(headers_, {}));
    }
  }

  void on_bytes(std::string_view bytes) override {
    // Kept for the call: the handler may reset the stream, and with it the handlers.
    if (const auto handlers = handlers_; handlers->on_data) {
      handlers->on_data(bytes);
    }
  }

  void on_ended() override {
    if (const auto handlers = drop_handlers(); handlers->on_end) {
      handlers->on_end();
    }
  }

  void on_lost(const Error& error) override {
    if (const auto handlers = drop_handlers(); handlers->on_error) {
      handlers->on_error(error);
    }
  }

  void on_finished() override {}

  void on_room() override {
    if (const auto handlers = handlers_; handlers->on_drain) {
      handlers->on_drain();
    }
  }

  /// Handlers often own this stream: they go with its end.
  std::shared_ptr<TunnelHandlers> drop_handlers() {
    stop_timer();
    return std::exchange(handlers_, std::make_shared<TunnelHandlers>());
  }

  void stop_timer() {
    if (timer_ != 0) {
      loop_.cancel(std::exchange(timer_, 0));
    }
  }

  io::EventLoop& loop_;
  std::shared_ptr<TunnelHandlers> handlers_;
  wire::Headers headers_;
  int status_ = 0;
  bool head_told_ = false;
  io::EventLoop::TimerId timer_ = 0;
};

class Client final : public TunnelClient {
 public:
  explicit Client(std::shared_ptr<TunnelSession> session) : session_(std::move(session)) {}
  ~Client() override { session_->abandon(); }

  Result<std::shared_ptr<TunnelStream>> open(const TunnelRequest& request,
                                             TunnelHandlers handlers) override {
    auto fields = tunnel_fields({{":method", request.method},
                                 {":scheme", "http"},
                                 {":authority", "worker"},
                                 {":path", request.path}},
                                request.headers, session_->limits().max_header_bytes);
    if (!fields) {
      return fields.error();
    }
    auto stream = std::make_shared<ClientStream>(session_->loop(), std::move(handlers));
    if (auto status = session_->submit_request(*fields, request.has_body, stream); !status) {
      return status.error();
    }
    stream->start_timer(session_->limits().open_timeout);
    return std::shared_ptr<TunnelStream>(std::move(stream));
  }

  std::size_t open_streams() const override { return session_->stream_count(); }
  bool is_open() const override { return session_->is_open(); }
  void close(std::chrono::milliseconds grace) override { session_->shut_down(grace); }

 private:
  std::shared_ptr<TunnelSession> session_;
};

}  // namespace

std::shared_ptr<TunnelClient> TunnelClient::start(io::EventLoop& loop,
                                                  std::shared_ptr<io::Socket> socket,
                                                  const std::string& early,
                                                  const TunnelLimits& limits,
                                                  std::function<void(const Error&)> on_closed) {
  return std::make_shared<Client>(TunnelSession::start({.loop = loop,
                                                        .socket = std::move(socket),
                                                        .role = TunnelSession::Role::kController,
                                                        .limits = limits,
                                                        .early = early,
                                                        .on_new_flow = {},
                                                        .on_closed = std::move(on_closed)}));
}

}  // namespace sandboxkit::net
