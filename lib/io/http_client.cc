#include "io/http_client.h"

#include "base/text.h"

#include <utility>

namespace sandboxkit::io {
namespace {

constexpr std::uint64_t kMaxLength = UINT64_MAX / 2;

class ClientCall final : public HttpClientCall {
 public:
  ClientCall(EventLoop& loop, Fd connection, const wire::RequestHead& head, Handlers handlers)
      : loop_(loop),
        socket_(Socket::adopt(loop, std::move(connection))),
        handlers_(std::make_shared<Handlers>(std::move(handlers))),
        method_(head.method) {
    chunked_ = head.headers.has_token("Transfer-Encoding", "chunked");
    if (const std::string* length = head.headers.find("Content-Length"); length != nullptr) {
      left_ = parse_decimal(*length, kMaxLength).value_or(0);
    }
    body_sent_ = !chunked_ && left_ == 0;
  }

  void begin(const wire::RequestHead& head) {
    const auto self = std::static_pointer_cast<ClientCall>(shared_from_this());
    Socket::Handlers h;
    h.on_data = [self](std::string_view bytes) {
      self->input_.append(bytes);
      self->process();
    };
    h.on_end = [self] {
      self->eof_ = true;
      self->process();
    };
    h.on_close = [self](const Error& error) { self->connection_lost(error.message); };
    h.on_drain = [self] {
      const auto handlers_now = self->handlers_;
      if (handlers_now->on_drain) {
        handlers_now->on_drain();
      }
    };
    socket_->start(std::move(h));
    socket_->write(wire::serialize(head));
  }

  void write_body(std::string_view payload) override {
    if (over_ || body_sent_ || payload.empty()) {
      return;
    }
    if (chunked_) {
      return socket_->write(wire::chunk(payload));
    }
    if (payload.size() > left_) {
      return fail_later("the request's body is longer than its head said");
    }
    left_ -= payload.size();
    body_sent_ = left_ == 0;
    socket_->write(payload);
  }

  void end_body() override {
    if (over_ || body_sent_) {
      return;
    }
    if (!chunked_) {
      return fail_later("the request's body is shorter than its head said");
    }
    body_sent_ = true;
    socket_->write(wire::kLastChunk);
  }

  std::size_t queued_bytes() const override { return over_ ? 0 : socket_->queued_bytes(); }

  void pause() override {
    paused_ = true;
    if (!over_) {
      socket_->pause_reading();
    }
  }

  void resume() override {
    paused_ = false;
    if (over_) {
      return;
    }
    socket_->resume_reading();
    if (!input_.empty() || eof_) {
      loop_.post(
          [self = std::static_pointer_cast<ClientCall>(shared_from_this())] { self->process(); });
    }
  }

  void cancel() override {
    if (const auto hold = shared_from_this(); !over_) {
      const auto dropped = finish();
      socket_->close();
    }
  }

  std::shared_ptr<Socket> take_socket(std::string& early) override {
    if (!upgraded_ || over_) {
      return nullptr;
    }
    const auto hold = shared_from_this();
    early = std::exchange(input_, {});
    const auto dropped = finish();
    socket_->set_handlers({});
    socket_->pause_reading();
    return socket_;
  }

 private:
  std::shared_ptr<Handlers> finish() {
    over_ = true;
    return std::exchange(handlers_, std::make_shared<Handlers>());
  }

  void process() {
    const auto hold = shared_from_this();
    if (processing_) {
      return;
    }
    processing_ = true;
    while (!over_ && !paused_ && !upgraded_ && (decoder_ ? step_body() : step_head())) {
    }
    processing_ = false;
    if (eof_ && !over_ && !paused_ && !upgraded_) {
      connection_lost("the connection was closed");
    }
  }

  bool step_head() {
    const wire::HeadLimits limits;
    const std::size_t size = wire::find_head_end(input_);
    if (size == 0 && input_.size() <= limits.max_bytes) {
      return false;
    }
    auto head = wire::parse_response_head(
        std::string_view(input_).substr(0, size == 0 ? input_.size() : size), method_, limits);
    if (!head) {
      fail(
          Error{ErrorCode::kUnavailable, "broken answer: " + head.error().message, "bad_response"});
      return false;
    }
    input_.erase(0, size);
    if (head->status < 200 && head->status != 101) {
      return true;  // 100 and its kin: the answer is still to come.
    }
    keep_alive_ = head->keep_alive && head->body.kind != wire::Framing::kUntilClose;
    upgraded_ = head->status == 101 || (method_ == "CONNECT" && head->status / 100 == 2);
    decoder_.emplace(upgraded_ ? wire::BodyFraming{} : head->body);
    until_close_ = head->body.kind == wire::Framing::kUntilClose;
    if (upgraded_) {
      socket_->pause_reading();
    }
    const auto handlers = handlers_;
    if (handlers->on_head) {
      handlers->on_head(*head);
    }
    return true;
  }

  /// One piece of the body; false when more bytes are needed or the answer is over.
  bool step_body() {
    const auto handlers = handlers_;
    if (decoder_->done() || (until_close_ && eof_ && input_.empty())) {
      complete();
      return false;
    }
    if (input_.empty()) {
      return false;
    }
    std::string_view rest = input_;
    std::string payload;
    const Status fed = decoder_->feed(rest, payload);
    input_.erase(0, input_.size() - rest.size());
    if (!payload.empty() && handlers->on_data) {
      handlers->on_data(payload);
    }
    if (!fed && !over_) {
      fail(Error{ErrorCode::kUnavailable, "broken answer: " + fed.error().message, "bad_response"});
    }
    return true;
  }

  void complete() {
    const bool reusable =
        keep_alive_ && body_sent_ && input_.empty() && !eof_ && socket_->queued_bytes() == 0;
    const auto handlers = finish();
    Fd connection;
    if (reusable) {
      connection = socket_->release();
    } else {
      socket_->close();
    }
    if (handlers->on_end) {
      handlers->on_end(std::move(connection));
    }
  }

  void connection_lost(const std::string& message) {
    if (over_) {
      return;
    }
    if (until_close_ && !paused_ && input_.empty() && eof_) {
      return complete();
    }
    // Two names, because only a connection that said nothing at all may be tried again.
    const bool silent = !decoder_ && input_.empty();
    fail(Error{ErrorCode::kUnavailable, message, silent ? "connection_lost" : "answer_cut"});
  }

  void fail(const Error& error) {
    const auto handlers = finish();
    socket_->close();
    if (handlers->on_error) {
      handlers->on_error(error);
    }
  }

  void fail_later(const char* message) {
    body_sent_ = true;
    loop_.post([self = std::static_pointer_cast<ClientCall>(shared_from_this()), message] {
      if (!self->over_) {
        self->fail(Error{ErrorCode::kInternal, message, "body_mismatch"});
      }
    });
  }

  EventLoop& loop_;
  const std::shared_ptr<Socket> socket_;
  // Shared, because a handler may end the call while it runs.
  std::shared_ptr<Handlers> handlers_;
  const std::string method_;
  std::string input_;
  std::optional<wire::BodyDecoder> decoder_;  // Set once the head is read.
  bool chunked_ = false;
  std::uint64_t left_ = 0;  // Of the request's Content-Length.
  bool body_sent_ = false;
  bool keep_alive_ = false;
  bool until_close_ = false;
  bool upgraded_ = false;
  bool eof_ = false;
  bool paused_ = false;
  bool processing_ = false;
  bool over_ = false;
};

}  // namespace

std::shared_ptr<HttpClientCall> HttpClientCall::start(EventLoop& loop, Fd connection,
                                                      const wire::RequestHead& head,
                                                      Handlers handlers) {
  auto call = std::make_shared<ClientCall>(loop, std::move(connection), head, std::move(handlers));
  call->begin(head);
  return call;
}

}  // namespace sandboxkit::io
