#include "guest/connect_stream.h"

#include "base/text.h"
#include "guest/bounds.h"
#include "guest/reply.h"
#include "wire/connect.h"

namespace sandboxkit::guest {
namespace {

constexpr std::uint64_t kMaxTimeoutMs = 9'999'999'999;  // ten digits, says the protocol
constexpr std::uint64_t kMaxKeepaliveSeconds = 3'600;

json::Value rpc_error_body(const Error& error) {
  if (is_unimplemented(error)) {
    return json::Object{{"code", "unimplemented"}, {"message", error.message}};
  }
  return wire::connect_error_body(error);
}

std::string media_type(const wire::Headers& headers) {
  const std::string* field = headers.find("Content-Type");
  return field == nullptr ? std::string()
                          : ascii_lower(trim(std::string_view(*field).substr(0, field->find(';'))));
}

bool compressed(const wire::Headers& headers, const char* name) {
  const std::string* field = headers.find(name);
  return field != nullptr && !equal_ignoring_case(trim(*field), "identity");
}

/// An error before the stream's answer began: in a last envelope, where the SDKs look for it.
void fail_stream(io::HttpExchange& exchange, const Error& error) {
  wire::Headers headers;
  headers.add("Content-Type", "application/connect+json");
  const json::Value end = json::Object{{"error", rpc_error_body(error)}};
  exchange.respond(200, std::move(headers),
                   wire::connect_envelope(wire::kConnectEndStream, json::dump(end)));
}

Result<std::string> message_of(std::string body, bool stream) {
  if (!stream) {
    return body.empty() ? std::string("{}") : std::move(body);
  }
  wire::ConnectDecoder decoder(kMaxRequestBytes);
  decoder.feed(body);
  auto message = decoder.next();
  if (!message) {
    return message.error();
  }
  if (!*message) {
    return Error{ErrorCode::kInvalidArgument, "request holds no whole envelope"};
  }
  return (*message)->json.empty() ? std::string("{}") : std::move((*message)->json);
}

std::chrono::milliseconds keepalive_of(const wire::Headers& headers) {
  const std::string* field = headers.find("Keepalive-Ping-Interval");
  const auto seconds =
      field == nullptr ? std::nullopt : parse_decimal(*field, kMaxKeepaliveSeconds);
  return seconds && *seconds > 0 ? std::chrono::seconds(*seconds) : kDefaultKeepalive;
}

}  // namespace

void answer_rpc(io::HttpExchange& exchange, const RpcResult& result) {
  if (result) {
    io::respond_json(exchange, 200, json::dump(*result));
    return;
  }
  const Error& error = result.error();
  const int status = is_unimplemented(error) ? 501 : wire::connect_status(error.code);
  io::respond_json(exchange, status, json::dump(rpc_error_body(error)));
}

Status check_rpc_head(const wire::RequestHead& head, bool stream) {
  const std::string wanted = stream ? "application/connect+json" : "application/json";
  if (const std::string given = media_type(head.headers); given != wanted) {
    return Error{ErrorCode::kInvalidArgument,
                 "content type " + quoted(given) + " is not spoken here: send `" + wanted + "`",
                 "unsupported_media_type"};
  }
  if (compressed(head.headers, "Content-Encoding") ||
      compressed(head.headers, "Connect-Content-Encoding")) {
    return unimplemented("compression is not spoken here");
  }
  return {};
}

void read_rpc(
    const std::shared_ptr<io::HttpExchange>& exchange, bool stream,
    std::function<void(std::shared_ptr<io::HttpExchange>, const json::Value&)> on_message) {
  exchange->collect_body(kMaxRequestBytes, [weak = std::weak_ptr(exchange), stream,
                                            on_message = std::move(on_message)](std::string body) {
    const auto self = weak.lock();
    if (self == nullptr) {
      return;
    }
    auto text = message_of(std::move(body), stream);
    auto message = text ? json::parse(*text, {.max_bytes = kMaxRequestBytes})
                        : Result<json::Value>(text.error());
    if (message) {
      on_message(self, *message);
    } else if (stream) {
      fail_stream(*self, message.error());
    } else {
      answer_rpc(*self, message);
    }
  });
}

Result<std::optional<std::chrono::milliseconds>> rpc_timeout(const wire::Headers& headers) {
  const std::string* field = headers.find("Connect-Timeout-Ms");
  if (field == nullptr) {
    return std::optional<std::chrono::milliseconds>();
  }
  const auto milliseconds = parse_decimal(*field, kMaxTimeoutMs);
  if (!milliseconds) {
    return Error{ErrorCode::kInvalidArgument, "Connect-Timeout-Ms is not a number of ten digits"};
  }
  // Zero says: no limit, as the SDKs mean it.
  return *milliseconds == 0 ? std::nullopt
                            : std::optional(std::chrono::milliseconds(*milliseconds));
}

std::shared_ptr<ConnectStream> ConnectStream::begin(io::EventLoop& loop,
                                                    std::shared_ptr<io::HttpExchange> exchange,
                                                    json::Value keepalive) {
  std::shared_ptr<ConnectStream> stream(
      new ConnectStream(loop, std::move(exchange), std::move(keepalive)));
  wire::Headers headers;
  headers.add("Content-Type", "application/connect+json");
  stream->exchange_->begin(200, std::move(headers));
  stream->arm();
  return stream;
}

ConnectStream::ConnectStream(io::EventLoop& loop, std::shared_ptr<io::HttpExchange> exchange,
                             json::Value keepalive)
    : loop_(loop),
      exchange_(std::move(exchange)),
      keepalive_(std::move(keepalive)),
      silence_(keepalive_of(exchange_->request().headers)) {}

ConnectStream::~ConnectStream() { loop_.cancel(timer_); }

void ConnectStream::arm() {
  loop_.cancel(timer_);
  timer_ = loop_.run_after(silence_, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->send(self->keepalive_);
    }
  });
}

void ConnectStream::send(const json::Value& message) {
  if (exchange_ == nullptr) {
    return;
  }
  exchange_->write(wire::connect_envelope(0, json::dump(message)));
  arm();
}

void ConnectStream::end(const std::optional<Error>& error) {
  loop_.cancel(timer_);
  if (const auto exchange = std::exchange(exchange_, nullptr)) {
    const json::Value last =
        error ? json::Object{{"error", rpc_error_body(*error)}} : json::Object{};
    exchange->write(wire::connect_envelope(wire::kConnectEndStream, json::dump(last)));
    exchange->end();
  }
}

bool ConnectStream::congested() const {
  return exchange_ != nullptr && exchange_->queued_bytes() > io::Socket::kHighWater;
}

void ConnectStream::on_drain(std::function<void()> handler) {
  exchange_->on_drain(std::move(handler));
}

void ConnectStream::on_gone(std::function<void()> handler) {
  exchange_->on_gone([weak = weak_from_this(), handler = std::move(handler)] {
    if (const auto self = weak.lock()) {
      self->loop_.cancel(self->timer_);
      self->exchange_ = nullptr;
      handler();
    }
  });
}

}  // namespace sandboxkit::guest
