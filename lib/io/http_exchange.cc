#include "base/text.h"
#include "io/http_connection.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::io {
namespace {

constexpr std::uint64_t kMaxLength = UINT64_MAX / 2;
/// An answer that is smaller than this goes out with its head in one write.
constexpr std::size_t kOneWriteBytes = 64 * 1024;

/// A field that would end the line early is left out: it could forge an answer.
bool is_safe_field(const std::string& name, const std::string& value) {
  constexpr std::string_view kBad("\r\n\0", 3);
  return !name.empty() && name.find_first_of(": \r\n") == std::string::npos &&
         value.find_first_of(kBad) == std::string::npos;
}

}  // namespace

ServerExchange::ServerExchange(ServerConnection& connection, wire::RequestHead head,
                               wire::Headers fields)
    : connection_(&connection),
      head_(std::move(head)),
      fields_(std::move(fields)),
      decoder_(head_.body) {}

void ServerExchange::tell_observer(int status) const {
  if (const auto& observer = connection_->options().observer) {
    const auto taken = std::chrono::steady_clock::now() - begun_;
    observer->on_answer(head_, status,
                        std::chrono::duration_cast<std::chrono::microseconds>(taken));
  }
}

std::function<void()> ServerExchange::detach() {
  connection_ = nullptr;
  const auto old = std::exchange(callbacks_, std::make_shared<Callbacks>());
  return std::move(old->on_gone);
}

void ServerExchange::read_body(std::function<void(std::string_view)> on_data,
                               std::function<void()> on_end) {
  if (connection_ == nullptr || flows_) {
    return;
  }
  flows_ = true;
  if (decoder_.done()) {
    return on_end();
  }
  send_continue();
  callbacks_->on_data = std::move(on_data);
  callbacks_->on_end = std::move(on_end);
  connection_->wake();
}

void ServerExchange::send_continue() {
  const bool expected = head_.headers.has_token("Expect", "100-continue");
  if (expected && head_.minor_version > 0 && !answered_ && connection_->input().empty()) {
    connection_->socket().write("HTTP/1.1 100 Continue\r\n\r\n");
  }
}

void ServerExchange::pause_body() { paused_ = true; }

void ServerExchange::resume_body() {
  paused_ = false;
  if (connection_ != nullptr) {
    connection_->wake();
  }
}

void ServerExchange::pump_body(std::string& input, bool eof) {
  const auto callbacks = callbacks_;  // Lives on when a callback ends the exchange.
  while (connection_ != nullptr && body_flows() && !decoder_.done()) {
    if (input.empty()) {
      if (eof) {
        broken_body({ErrorCode::kInvalidArgument, "the request's body is cut", "bad_request"});
      }
      return;
    }
    std::string_view rest = input;
    std::string payload;
    const Status fed = decoder_.feed(rest, payload);
    input.erase(0, input.size() - rest.size());
    if (!payload.empty()) {
      callbacks->on_data(payload);
    }
    if (!fed) {
      return broken_body(fed.error());
    }
    if (connection_ != nullptr && decoder_.done()) {
      callbacks->on_end();
    }
  }
}

void ServerExchange::broken_body(const Error& error) {
  if (connection_ == nullptr) {
    return;
  }
  ServerConnection& connection = *connection_;
  if (answered_) {
    return connection.client_gone();
  }
  tell_observer(400);
  connection.socket().write(error_answer(400, reason_of(error), error.message, fields_));
  const auto gone = detach();
  connection.exchange_finished(false);
  if (gone) {
    gone();
  }
}

void ServerExchange::collect_body(std::size_t max_bytes, std::function<void(std::string)> on_body) {
  if (head_.body.kind == wire::Framing::kLength && head_.body.length > max_bytes) {
    return answer_too_large(max_bytes);
  }
  // Shared between the two handlers of one body.
  const auto body = std::make_shared<std::string>();
  if (connection_ != nullptr && !decoder_.done()) {
    connection_->start_body_timer();
  }
  read_body(
      [this, body, max_bytes](std::string_view bytes) {
        body->append(bytes);
        if (body->size() > max_bytes) {
          answer_too_large(max_bytes);
        }
      },
      [this, body, on_body = std::move(on_body)] {
        if (connection_ != nullptr) {
          connection_->stop_timer();
        }
        on_body(std::move(*body));
      });
}

void ServerExchange::answer_too_large(std::size_t max_bytes) {
  respond_error(*this, Error{ErrorCode::kTooLarge,
                             "the body has more than " + std::to_string(max_bytes) + " bytes",
                             "body_too_large"});
}

void ServerExchange::body_timed_out() {
  respond(408, {}, error_body(408, "body_timeout", "the request's body did not come in time"));
}

wire::ResponseHead ServerExchange::answer_head(int status, wire::Headers headers) {
  answered_ = true;
  tell_observer(status);
  const bool close_asked = headers.has_token("Connection", "close");
  wire::ResponseHead head;
  head.status = status;
  for (const auto& [name, value] : headers.fields()) {
    const bool ours = equal_ignoring_case(name, "Connection") ||
                      equal_ignoring_case(name, "Keep-Alive") ||
                      equal_ignoring_case(name, "Transfer-Encoding");
    if (!ours && fields_.find(name) == nullptr && is_safe_field(name, value)) {
      head.headers.add(name, value);
    }
  }
  for (const auto& [name, value] : fields_.fields()) {
    head.headers.add(name, value);
  }
  const bool never_a_body = status == 204 || status == 304 || status < 200;
  bodiless_ = never_a_body || head_.method == "HEAD";
  const std::string* length = head.headers.find("Content-Length");
  const auto bytes = length != nullptr ? parse_decimal(*length, kMaxLength) : std::nullopt;
  if (never_a_body || !bytes) {
    head.headers.remove("Content-Length");
  }
  left_ = bytes.value_or(0);
  const bool unknown_length = !bodiless_ && !bytes;
  chunked_ = unknown_length && head_.minor_version > 0;
  until_close_ = unknown_length && !chunked_;
  if (chunked_) {
    head.headers.add("Transfer-Encoding", "chunked");
  }
  keep_alive_ = keep_alive_ && head_.keep_alive && !close_asked && !until_close_;
  if (!keep_alive_) {
    head.headers.add("Connection", "close");
  } else if (head_.minor_version == 0) {
    head.headers.add("Connection", "keep-alive");
  }
  return head;
}

bool ServerExchange::discard_buffered_body() {
  std::string& input = connection_->input();
  std::string_view rest = input;
  std::string payload;
  const bool whole = decoder_.done() || (decoder_.feed(rest, payload) && decoder_.done());
  input.erase(0, input.size() - rest.size());
  return whole;
}

void ServerExchange::respond(int status, wire::Headers headers, std::string_view body) {
  if (connection_ == nullptr || answered_) {
    return;
  }
  // A body that nobody reads would have to be swallowed before the next request.
  keep_alive_ = flows_ || discard_buffered_body();
  headers.set("Content-Length", std::to_string(body.size()));
  std::string bytes = wire::serialize(answer_head(status, std::move(headers)));
  if (!bodiless_ && body.size() < kOneWriteBytes) {
    bytes += body;
  }
  connection_->socket().write(std::move(bytes));
  if (!bodiless_ && body.size() >= kOneWriteBytes) {
    connection_->socket().write(body);
  }
  finish();
}

void ServerExchange::begin(int status, wire::Headers headers) {
  if (connection_ != nullptr && !answered_) {
    connection_->socket().write(wire::serialize(answer_head(status, std::move(headers))));
  }
}

void ServerExchange::write(std::string_view bytes) {
  if (connection_ == nullptr || !answered_ || bodiless_ || bytes.empty()) {
    return;
  }
  if (chunked_) {
    return connection_->socket().write(wire::chunk(bytes));
  }
  if (!until_close_ && bytes.size() > left_) {
    return abort();  // More than was promised: the rest would read as the next answer.
  }
  left_ -= until_close_ ? 0 : bytes.size();
  connection_->socket().write(bytes);
}

void ServerExchange::end() {
  if (connection_ == nullptr || !answered_) {
    return;
  }
  if (chunked_) {
    connection_->socket().write(wire::kLastChunk);
  } else if (left_ > 0 && !bodiless_) {
    return abort();  // Less than was promised.
  }
  finish();
}

void ServerExchange::finish() {
  // A body that still comes would be read as the next request.
  const bool body_is_over = flows_ ? decoder_.done() : discard_buffered_body();
  connection_->exchange_finished(keep_alive_ && body_is_over);
}

std::size_t ServerExchange::queued_bytes() const {
  return connection_ != nullptr ? connection_->socket().queued_bytes() : 0;
}

void ServerExchange::on_drain(std::function<void()> handler) {
  callbacks_->on_drain = std::move(handler);
}

void ServerExchange::drained() {
  const auto handler = callbacks_->on_drain;
  if (handler) {
    handler();
  }
}

void ServerExchange::abort() {
  if (connection_ != nullptr) {
    connection_->abort(until_close_);
  }
}

void ServerExchange::on_gone(std::function<void()> handler) {
  if (connection_ == nullptr) {
    return;
  }
  callbacks_->on_gone = std::move(handler);
  if (connection_->peer_ended()) {
    connection_->loop().post([weak = connection_->weak_from_this(), me = this] {
      const auto connection = weak.lock();
      if (connection && connection->serves(me)) {
        connection->client_gone();
      }
    });
  }
}

std::shared_ptr<Socket> ServerExchange::upgrade(const wire::ResponseHead& head,
                                                std::string& early) {
  if (connection_ == nullptr || answered_) {
    return nullptr;
  }
  answered_ = true;
  tell_observer(head.status);
  wire::ResponseHead whole = head;
  for (const auto& [name, value] : fields_.fields()) {
    whole.headers.set(name, value);
  }
  connection_->socket().write(wire::serialize(whole));
  return connection_->hand_over(early);
}

}  // namespace sandboxkit::io
