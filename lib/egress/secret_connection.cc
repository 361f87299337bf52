#include "egress/secret_connection.h"

#include "base/text.h"

#include <utility>

namespace sandboxkit::egress {
namespace {

constexpr int kBadRequest = 400;
constexpr int kForbidden = 403;
constexpr int kTimeout = 408;
constexpr int kMisdirected = 421;
constexpr int kHeadTooLarge = 431;
constexpr int kGatewayTimeout = 504;
constexpr wire::HeadLimits kHeadLimits{.max_bytes = 16 * 1024, .max_fields = 100};
/// What a client may send ahead of its turn before we stop reading.
constexpr std::size_t kMaxEarlyBytes = 64 * 1024;

}  // namespace

std::shared_ptr<SecretConnection> SecretConnection::start(Engine& engine, Begin begin,
                                                          std::function<void()> on_done) {
  std::shared_ptr<SecretConnection> self(
      new SecretConnection(engine, begin.target, std::move(on_done)));
  self->watch_client(std::move(begin));
  return self;
}

SecretConnection::~SecretConnection() { close(); }

void SecretConnection::watch_client(Begin begin) {
  // The streams hold no owner: they go with this object.
  const std::weak_ptr<SecretConnection> weak = weak_from_this();
  const auto with = [weak](void (SecretConnection::*member)()) {
    return [weak, member] {
      if (const auto alive = weak.lock()) {
        (alive.get()->*member)();
      }
    };
  };
  client_ =
      TlsStream::start(std::move(begin.client), std::move(begin.session), std::move(begin.early),
                       {.on_open = with(&SecretConnection::on_client_open),
                        .on_data =
                            [weak](std::string_view bytes) {
                              if (const auto alive = weak.lock()) {
                                alive->on_client_data(bytes);
                              }
                            },
                        .on_end = with(&SecretConnection::on_client_end),
                        .on_drain = with(&SecretConnection::on_client_drained),
                        .on_close =
                            [weak](const Error& error) {
                              if (const auto alive = weak.lock()) {
                                alive->on_client_closed(error);
                              }
                            }});
}

void SecretConnection::on_client_open() {
  last_activity_ = Steady::now();
  phase_ = Phase::kHead;
}

void SecretConnection::on_client_data(std::string_view bytes) {
  last_activity_ = Steady::now();
  if (phase_ == Phase::kPipe) {
    engine_.stats.bytes_up += bytes.size();
    if (!spend(engine_, bytes.size())) {
      return cut_off();
    }
    upstream_->write(bytes);
    if (upstream_->is_full()) {
      client_->pause_reading();
    }
    return;
  }
  input_ += bytes;
  if (phase_ == Phase::kHead) {
    return read_heads();
  }
  if (phase_ == Phase::kExchange) {
    send_request_body();
  }
  if (phase_ != Phase::kGone && input_.size() > kMaxEarlyBytes) {
    client_->pause_reading();
  }
}

void SecretConnection::on_client_drained() {
  if (upstream_) {
    upstream_->resume_reading();
  }
  if (phase_ == Phase::kHead) {
    client_->resume_reading();
    read_heads();
  }
}

void SecretConnection::on_client_end() {
  client_ended_ = true;
  if (phase_ == Phase::kPipe) {
    return upstream_->shutdown_write();
  }
  if (phase_ == Phase::kHead) {
    return read_heads();
  }
  if (phase_ == Phase::kExchange && !request_body_->done()) {
    finish();
  }
  // Else the answer to what was asked is still delivered.
}

void SecretConnection::on_client_closed(const Error& error) {
  if (phase_ == Phase::kHandshake) {
    if (error.reason == "sni_mismatch") {
      deny_here({kForbidden, error.reason, error.message});
    } else {
      ++engine_.stats.refused;
    }
    engine_.log.write(json::Object{{"time", to_rfc3339(engine_.clock.now())},
                                   {"event", "tls_refused"},
                                   {"host", target_.host()},
                                   {"port", static_cast<int>(target_.port())},
                                   {"reason", error.reason},
                                   {"detail", error.message}});
  }
  finish();
}

void SecretConnection::read_heads() {
  while (phase_ == Phase::kHead && !input_.empty()) {
    if (client_->is_full()) {
      // It asks and does not read: it is served on when it took what it asked for.
      return client_->pause_reading();
    }
    const std::size_t end = wire::find_head_end(input_);
    if (end == 0) {
      head_began_ = head_began_.value_or(Steady::now());
      if (input_.size() > kHeadLimits.max_bytes) {
        return refuse({kHeadTooLarge, "head_too_large", "The request's head is too large."}, false);
      }
      break;
    }
    const auto head =
        wire::parse_request_head(std::string_view(input_).substr(0, end), kHeadLimits);
    input_.erase(0, end);
    head_began_.reset();
    ++engine_.stats.requests;
    method_.clear();
    if (!head) {
      const bool large = head.error().code == ErrorCode::kTooLarge;
      return refuse({large ? kHeadTooLarge : kBadRequest, reason_of(head.error()),
                     "The request cannot be read: " + head.error().message + "."},
                    false);
    }
    on_head(*head);
  }
  if (phase_ == Phase::kHead && client_ended_) {
    finish();  // All is answered, or a head is left that can never be whole.
  }
}

void SecretConnection::on_head(const wire::RequestHead& head) {
  method_ = head.method;
  if (const auto refusal = out_of_bytes(engine_)) {
    return refuse(*refusal, false);
  }
  // Each time anew: a secret may have expired, or the policy may have been narrowed.
  const EgressVerdict verdict = engine_.policy.decide(target_);
  if (!verdict.allowed) {
    return refuse(deny(engine_, target_, verdict), false);
  }
  auto found = engine_.secrets.find(target_, engine_.clock.now());
  if (const auto* refusal = std::get_if<Refusal>(&found)) {
    deny_here(*refusal);
    return refuse(*refusal, false);
  }
  const SecretBook::Lent& lent = *std::get<const SecretBook::Lent*>(found);
  auto plan = plan_lent(head, target_, lent.secrets);
  if (const auto* refusal = std::get_if<Refusal>(&plan)) {
    if (refusal->status == kMisdirected) {
      deny_here(*refusal);
    }
    return refuse(*refusal, false);
  }
  request_.emplace(std::get<ForwardRequest>(std::move(plan)));
  mask_ = lent.mask;
  log_use(lent);
  if (upstream_open_ && upstream_->is_open() && request_->repeatable) {
    reused_ = true;
    return begin_exchange();
  }
  dial();
}

void SecretConnection::log_use(const SecretBook::Lent& lent) {
  json::Array names;
  for (const PlacedSecret& secret : lent.secrets) {
    names.emplace_back(secret.name);
  }
  engine_.secrets.count(lent, engine_.clock.now());
  engine_.log.write(json::Object{{"time", to_rfc3339(engine_.clock.now())},
                                 {"event", "secret"},
                                 {"host", target_.host()},
                                 {"port", static_cast<int>(target_.port())},
                                 {"secrets", std::move(names)}});
}

void SecretConnection::deny_here(const Refusal& refusal) {
  ++engine_.stats.denied;
  engine_.denied.add(target_, refusal.reason, engine_.clock.now());
}

void SecretConnection::refuse(const Refusal& refusal, bool keep_alive) {
  engine_.stats.refused += refusal.status < 500 && refusal.status != kForbidden ? 1 : 0;
  drop_request();
  client_->write(refusal_response(refusal, keep_alive, method_ != "HEAD"));
  if (!keep_alive) {
    return finish();
  }
  phase_ = Phase::kHead;
  client_->resume_reading();
}

void SecretConnection::fail_exchange(const Refusal& refusal) {
  const bool nothing_sent = !response_ || !response_->head_done();
  drop_upstream();
  engine_.stats.failed += refusal.status >= 500 ? 1 : 0;
  if (nothing_sent) {
    return refuse(refusal, false);
  }
  // The client has a part of an answer: it must see it break, not end.
  cut_off();
}

void SecretConnection::cut_off() {
  client_->close();
  finish();
}

void SecretConnection::sweep(Steady::time_point now) {
  const Limits& limits = engine_.limits;
  if (phase_ == Phase::kHandshake && now - phase_began_ > limits.head) {
    return cut_off();
  }
  if (phase_ == Phase::kHead && head_began_ && now - *head_began_ > limits.head) {
    return refuse({kTimeout, "head_timeout", "The request's head did not come in time."}, false);
  }
  if (phase_ == Phase::kDialling && !dial_ && now - phase_began_ > limits.connect) {
    fail_exchange({kGatewayTimeout, "upstream_tls_timeout",
                   quoted(target_.to_string()) +
                       " is allowed, but did not finish its TLS handshake "
                       "in time."});
  }
}

void SecretConnection::drop_request() {
  if (request_) {
    wipe(request_->head);
    request_.reset();
  }
  mask_.reset();
  request_body_.reset();
  response_.reset();
}

void SecretConnection::finish() {
  if (phase_ == Phase::kGone) {
    return;
  }
  phase_ = Phase::kGone;
  const auto hold = shared_from_this();
  drop_upstream();
  drop_request();
  client_->close_after_flush();
  if (const auto once = std::exchange(on_done_, nullptr)) {
    once();
  }
}

void SecretConnection::close() {
  on_done_ = nullptr;
  if (phase_ == Phase::kGone) {
    return;
  }
  phase_ = Phase::kGone;
  drop_upstream();
  drop_request();
  client_->close();
}

}  // namespace sandboxkit::egress
