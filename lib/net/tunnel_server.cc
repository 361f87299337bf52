#include "io/http_server.h"
#include "net/tunnel_session.h"

namespace sandboxkit::net {

namespace {

constexpr int kNoContent = 204;

class ServerExchange final : public TunnelExchange, public TunnelFlow {
 public:
  using OnRequest = std::function<void(std::shared_ptr<TunnelExchange>)>;

  ServerExchange(io::EventLoop& loop, OnRequest on_request)
      : loop_(loop), on_request_(std::move(on_request)) {
    request_.method.clear();
    hold();  // nothing of the body flows before somebody reads it
  }

  const TunnelRequest& request() const override { return request_; }

  void read_body(std::function<void(std::string_view)> on_data,
                 std::function<void()> on_end) override {
    reader_ = std::make_shared<Reader>(Reader{std::move(on_data), std::move(on_end)});
    release_now();
  }

  void collect_body(std::size_t max_bytes, std::function<void(std::string)> on_body) override {
    const auto body = std::make_shared<std::string>();
    read_body(
        [this, body, max_bytes](std::string_view bytes) {
          if (body->size() + bytes.size() <= max_bytes) {
            body->append(bytes);
            return;
          }
          refuse_body();
        },
        [body, on_body = std::move(on_body)] { on_body(std::move(*body)); });
  }

  void pause_body() override { hold(); }
  void resume_body() override {
    if (reader_) {
      release();
    }
  }

  void begin(int status, const wire::Headers& headers) override { start(status, headers, true); }
  void write(std::string_view bytes) override {
    if (begun_ && request_.method != "HEAD") {
      send(bytes);
    }
  }
  void end() override {
    if (begun_) {
      ended_ = true;
      send_end();
    }
  }

  void respond(int status, const wire::Headers& headers, std::string_view body) override {
    if (begun_) {
      return;
    }
    auto all = headers;
    if (status != kNoContent) {
      all.set("content-length", std::to_string(body.size()));
    }
    const bool with_body = !body.empty() && status != kNoContent && request_.method != "HEAD";
    start(status, all, with_body);
    if (with_body) {
      send(body);
    }
    end();
  }

  std::size_t queued_bytes() const override { return unsent_bytes(); }
  void on_drain(std::function<void()> handler) override {
    on_drain_ = std::make_shared<std::function<void()>>(std::move(handler));
  }
  void reset() override {
    drop_handlers();
    cut();
  }
  void on_gone(std::function<void()> handler) override {
    on_gone_ = std::move(handler);
    if (gone_) {
      tell_gone_later();
    }
  }

 private:
  struct Reader {
    std::function<void(std::string_view)> on_data;
    std::function<void()> on_end;
  };

  void start(int status, const wire::Headers& headers, bool with_body) {
    const auto owner = session();
    if (std::exchange(begun_, true) || !owner) {
      return;
    }
    auto known = headers;
    if (status == kNoContent) {
      known.remove("content-length");  // the library takes none there
    }
    const auto fields = tunnel_fields({{":status", std::to_string(status)}}, known,
                                      owner->limits().max_header_bytes);
    if (fields) {
      owner->submit_response(id(), *fields, with_body);
      return;
    }
    // What the guest said cannot be passed on: the controller sees a broken stream.
    cut();
    gone_ = true;
    tell_gone_later();
  }

  void refuse_body() {
    reader_ = nullptr;
    hold();
    if (!begun_) {
      wire::Headers headers;
      headers.add("content-type", "application/json");
      respond(413, headers, io::error_body(413, "body_too_large", "the body is too large"));
    }
  }

  void on_field(std::string_view name, std::string_view value) override {
    if (name == ":method") {
      request_.method = value;
    } else if (name == ":path") {
      request_.path = value;
    } else if (!name.starts_with(':') && !head_whole_) {
      request_.headers.add(std::string(name), std::string(value));
    }
  }

  void on_whole_head(bool ended) override {
    if (std::exchange(head_whole_, true)) {
      return;  // trailers
    }
    request_.has_body = !ended;
    std::exchange(on_request_,
                  nullptr)(std::static_pointer_cast<ServerExchange>(shared_from_this()));
  }

  void on_bytes(std::string_view bytes) override {
    if (const auto reader = reader_; reader && reader->on_data) {
      reader->on_data(bytes);
    }
  }
  void on_ended() override {
    if (const auto reader = std::exchange(reader_, nullptr); reader && reader->on_end) {
      reader->on_end();
    }
  }
  void on_room() override {
    if (const auto handler = on_drain_; handler && *handler) {
      (*handler)();
    }
  }
  void on_finished() override { over(); }
  void on_lost(const Error&) override { over(); }

  /// Somebody who still writes, or still waits for the body's end, would wait for ever.
  void over() {
    gone_ = !ended_ || (reader_ && !peer_ended());
    tell_gone();
  }

  /// Handlers often own this exchange: they go with its end.
  void drop_handlers() {
    const auto old_reader = std::exchange(reader_, nullptr);
    const auto old_drain = std::exchange(on_drain_, nullptr);
    const auto old_gone = std::exchange(on_gone_, nullptr);
  }

  void tell_gone() {
    const auto handler = std::exchange(on_gone_, nullptr);
    drop_handlers();
    if (gone_ && handler) {
      handler();
    }
  }
  void tell_gone_later() {
    loop_.post([weak = weak_from_this(), this] {
      if (const auto alive = weak.lock()) {
        tell_gone();
      }
    });
  }

  io::EventLoop& loop_;
  OnRequest on_request_;
  TunnelRequest request_;
  std::shared_ptr<Reader> reader_;
  std::shared_ptr<std::function<void()>> on_drain_;
  std::function<void()> on_gone_;
  bool head_whole_ = false;
  bool begun_ = false;
  bool ended_ = false;
  bool gone_ = false;
};

class Server final : public TunnelServer {
 public:
  explicit Server(std::shared_ptr<TunnelSession> session) : session_(std::move(session)) {}
  ~Server() override { session_->abandon(); }
  bool is_open() const override { return session_->is_open(); }
  void close(std::chrono::milliseconds grace) override { session_->shut_down(grace); }

 private:
  std::shared_ptr<TunnelSession> session_;
};

}  // namespace

std::shared_ptr<TunnelServer> TunnelServer::start(
    io::EventLoop& loop, std::shared_ptr<io::Socket> socket, const std::string& early,
    const TunnelLimits& limits, std::function<void(std::shared_ptr<TunnelExchange>)> on_request,
    std::function<void(const Error&)> on_closed) {
  return std::make_shared<Server>(
      TunnelSession::start({.loop = loop,
                            .socket = std::move(socket),
                            .role = TunnelSession::Role::kWorker,
                            .limits = limits,
                            .early = early,
                            .on_new_flow =
                                [&loop, on_request = std::move(on_request)] {
                                  return std::make_shared<ServerExchange>(loop, on_request);
                                },
                            .on_closed = std::move(on_closed)}));
}

}  // namespace sandboxkit::net
