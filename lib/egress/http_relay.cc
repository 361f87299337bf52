#include "egress/http_relay.h"

#include "egress/secret_text.h"

#include <utility>

namespace sandboxkit::egress {
namespace {

constexpr int kBadRequest = 400;
constexpr int kTimeout = 408;
constexpr int kHeadTooLarge = 431;
constexpr int kServersFault = 500;
constexpr int kBadGateway = 502;
constexpr wire::HeadLimits kHeadLimits{.max_bytes = 16 * 1024, .max_fields = 100};
/// What a client may send ahead of its turn before we stop reading.
constexpr std::size_t kMaxEarlyBytes = 64 * 1024;

}  // namespace

void HttpRelay::on_client_data(std::string_view bytes) {
  input_ += bytes;
  if (phase_ == Phase::kHead) {
    return read_heads();
  }
  if (phase_ == Phase::kExchange) {
    send_request_body();
  }
  if (input_.size() > kMaxEarlyBytes) {
    client_.pause_reading();
  }
}

void HttpRelay::on_client_drained() {
  if (upstream_ != nullptr) {
    upstream_->resume_reading();
  }
  if (phase_ == Phase::kHead) {
    client_.resume_reading();
    read_heads();
  }
}

void HttpRelay::on_client_end() {
  client_ended_ = true;
  if (phase_ == Phase::kHead) {
    return read_heads();
  }
  if (phase_ == Phase::kExchange && !request_body_->done()) {
    connection_.finish();
  }
  // Else the answer to what was asked is still delivered.
}

std::optional<Refusal> HttpRelay::doubt_in_input() {
  for (; checked_ < input_.size(); ++checked_) {
    const auto c = static_cast<unsigned char>(input_[checked_]);
    const bool bare_newline = c == '\n' && (checked_ == 0 || input_[checked_ - 1] != '\r');
    const bool control = (c < 0x20 && c != '\t' && c != '\r' && c != '\n') || c == 0x7f;
    // A TLS hello, another protocol, or a line that two readers would end in two places: the
    // answer need not wait for a blank line that may never come.
    if (bare_newline || control ||
        (checked_ == 0 && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z'))) {
      return Refusal{kBadRequest, "bad_request", "This is an HTTP/1.1 proxy; this was no request."};
    }
  }
  if (input_.size() > kHeadLimits.max_bytes) {
    return Refusal{kHeadTooLarge, "head_too_large", "The request's head is too large."};
  }
  return std::nullopt;
}

void HttpRelay::read_heads() {
  while (phase_ == Phase::kHead && !input_.empty()) {
    if (client_.is_full()) {
      // It asks and does not read: it is served on when it took what it asked for.
      return client_.pause_reading();
    }
    const std::size_t end = wire::find_head_end(input_);
    if (end == 0) {
      head_began_ = head_began_.value_or(Steady::now());
      if (const auto refusal = doubt_in_input()) {
        return refuse(*refusal, false);
      }
      break;
    }
    const auto head =
        wire::parse_request_head(std::string_view(input_).substr(0, end), kHeadLimits);
    input_.erase(0, end);
    checked_ = 0;
    head_began_.reset();
    ++engine_.stats.requests;
    method_ = head ? head->method : std::string();
    if (!head) {
      const bool large = head.error().code == ErrorCode::kTooLarge;
      return refuse({large ? kHeadTooLarge : kBadRequest, reason_of(head.error()),
                     "The request cannot be read: " + head.error().message + "."},
                    false);
    }
    if (const auto refusal = out_of_bytes(engine_)) {
      return refuse(*refusal, false);
    }
    connection_.on_request(*head);
  }
  if (phase_ == Phase::kHead && client_ended_) {
    connection_.finish();  // All is answered, or a head is left that can never be whole.
  }
}

bool HttpRelay::sweep(Steady::time_point now) {
  if (phase_ != Phase::kHead || !head_began_ || now - *head_began_ <= engine_.limits.head) {
    return false;
  }
  refuse({kTimeout, "head_timeout", "The request's head did not come in time."}, false);
  return true;
}

void HttpRelay::refuse(const Refusal& refusal, bool keep_alive) {
  constexpr int kForbidden = 403;  // Counted as denied.
  engine_.stats.refused += refusal.status < kServersFault && refusal.status != kForbidden ? 1 : 0;
  drop_request();
  client_.write(refusal_response(refusal, keep_alive, method_ != "HEAD"));
  if (!keep_alive) {
    return connection_.finish();
  }
  phase_ = Phase::kHead;
  client_.resume_reading();
}

void HttpRelay::take(ForwardRequest request, std::shared_ptr<const SecretMask> mask) {
  drop_request();
  request_.emplace(std::move(request));
  mask_ = std::move(mask);
}

void HttpRelay::wait() {
  phase_ = Phase::kWaiting;
  upstream_ = nullptr;
}

void HttpRelay::begin(Stream& upstream, bool reused) {
  phase_ = Phase::kExchange;
  upstream_ = &upstream;
  reused_ = reused;
  request_body_.emplace(request_->body);
  response_.emplace(ResponseContext{.method = request_->method,
                                    .client_minor_version = request_->client_minor_version,
                                    .client_keep_alive = request_->client_keep_alive,
                                    .websocket = request_->websocket,
                                    .mask = mask_});
  upstream_->write(request_->head);
  send_request_body();
  if (phase_ == Phase::kExchange && client_ended_ && !request_body_->done()) {
    return connection_.finish();
  }
  client_.resume_reading();
}

void HttpRelay::send_request_body() {
  if (request_body_->done()) {
    return;  // What is in the input is the next request.
  }
  std::string_view rest = input_;
  std::string out;
  const auto status = request_body_->feed(rest, out);
  engine_.stats.bytes_up += out.size();
  if (!spend(engine_, out.size())) {
    return connection_.cut_off();
  }
  input_.erase(0, input_.size() - rest.size());
  if (!status) {
    // The upstream has a part of a request: it must see it end without being whole.
    return fail({kBadRequest, "bad_request", "The request's body cannot be read."});
  }
  upstream_->give(std::move(out));
  if (upstream_->is_full()) {
    client_.pause_reading();
  }
}

void HttpRelay::on_upstream_data(std::string_view bytes) {
  if (phase_ != Phase::kExchange) {
    // It speaks without being asked: not an upstream to use again.
    return connection_.drop_upstream();
  }
  engine_.stats.bytes_down += bytes.size();
  if (!spend(engine_, bytes.size())) {
    return connection_.cut_off();
  }
  std::string out;
  std::string_view rest = bytes;
  const bool answered = response_->head_done();
  if (const auto status = response_->feed(rest, out); !status) {
    return fail(
        {kBadGateway, "bad_response", "The upstream's answer cannot be read without doubt."});
  }
  client_.give(std::move(out));
  if (response_->upgraded() && !answered) {
    phase_ = Phase::kStopped;
    upstream_ = nullptr;
    return connection_.on_upgrade(rest);
  }
  if (response_->done()) {
    return finish_exchange(rest.empty());
  }
  if (client_.is_full()) {
    upstream_->pause_reading();
  }
}

void HttpRelay::on_upstream_end() {
  if (phase_ != Phase::kExchange) {
    return connection_.drop_upstream();
  }
  if (response_->end()) {
    return finish_exchange(false);
  }
  on_upstream_lost();
}

void HttpRelay::on_upstream_lost() {
  if (phase_ != Phase::kExchange) {
    return connection_.drop_upstream();
  }
  if (reused_ && response_->status() == 0) {
    // It closed while idle, and the request may be sent twice. Once, on a new one.
    return connection_.redial();
  }
  fail({kBadGateway, "upstream_closed", "The upstream closed before its answer was complete."});
}

void HttpRelay::finish_exchange(bool upstream_is_clean) {
  const bool request_whole = request_body_->done();
  const bool keep_client = response_->client_keep_alive() && request_whole;
  if (!upstream_is_clean || !request_whole || !response_->upstream_reusable()) {
    connection_.drop_upstream();
  } else {
    upstream_->resume_reading();
  }
  phase_ = Phase::kHead;
  upstream_ = nullptr;
  drop_request();
  if (!keep_client) {
    return connection_.finish();
  }
  client_.resume_reading();
  read_heads();
}

void HttpRelay::decline(const Refusal& refusal) {
  const bool keep_alive =
      request_ && request_->client_keep_alive && request_->body.kind == wire::Framing::kNone;
  connection_.drop_upstream();
  engine_.stats.failed += refusal.status >= kServersFault ? 1 : 0;
  refuse(refusal, keep_alive);
  read_heads();
}

void HttpRelay::fail(const Refusal& refusal) {
  const bool nothing_sent = !response_ || !response_->head_done();
  upstream_ = nullptr;
  connection_.drop_upstream();
  engine_.stats.failed += refusal.status >= kServersFault ? 1 : 0;
  // Who has a part of an answer must see it break, not end.
  return nothing_sent ? refuse(refusal, false) : connection_.cut_off();
}

void HttpRelay::drop_request() {
  if (request_) {
    wipe(request_->head);
    request_.reset();
  }
  mask_.reset();
  request_body_.reset();
  response_.reset();
}

void HttpRelay::stop() {
  phase_ = Phase::kStopped;
  upstream_ = nullptr;
}

}  // namespace sandboxkit::egress
