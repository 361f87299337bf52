#include "egress/secret_connection.h"

#include "base/text.h"

#include <utility>

namespace sandboxkit::egress {
namespace {

constexpr int kForbidden = 403;
constexpr int kMisdirected = 421;
constexpr int kGatewayTimeout = 504;

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
  HttpRelay::Connection& self = *this;  // A base that only this class may name.
  http_.emplace(engine_, self, *client_);
}

void SecretConnection::on_client_open() {
  last_activity_ = Steady::now();
  phase_ = Phase::kHttp;
}

void SecretConnection::on_client_data(std::string_view bytes) {
  last_activity_ = Steady::now();
  if (phase_ != Phase::kPipe) {
    return http_->on_client_data(bytes);
  }
  engine_.stats.bytes_up += bytes.size();
  if (!spend(engine_, bytes.size())) {
    return cut_off();
  }
  upstream_->write(bytes);
  if (upstream_->is_full()) {
    client_->pause_reading();
  }
}

void SecretConnection::on_client_drained() {
  if (phase_ == Phase::kPipe) {
    return upstream_->resume_reading();
  }
  http_->on_client_drained();
}

void SecretConnection::on_client_end() {
  http_->on_client_end();
  if (phase_ == Phase::kPipe) {
    upstream_->shutdown_write();
  }
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

void SecretConnection::on_request(const wire::RequestHead& head) {
  // Each time anew: a secret may have expired, or the policy may have been narrowed.
  const EgressVerdict verdict = engine_.policy.decide(target_);
  if (!verdict.allowed) {
    return http_->refuse(deny(engine_, target_, verdict), false);
  }
  auto found = engine_.secrets.find(target_, engine_.clock.now());
  if (const auto* refusal = std::get_if<Refusal>(&found)) {
    deny_here(*refusal);
    return http_->refuse(*refusal, false);
  }
  const SecretBook::Lent& lent = *std::get<const SecretBook::Lent*>(found);
  auto plan = plan_lent(head, target_, lent.secrets);
  if (const auto* refusal = std::get_if<Refusal>(&plan)) {
    if (refusal->status == kMisdirected) {
      deny_here(*refusal);
    }
    return http_->refuse(*refusal, false);
  }
  auto& request = std::get<ForwardRequest>(plan);
  const bool reuses = upstream_open_ && upstream_->is_open() && request.repeatable;
  http_->take(std::move(request), lent.mask);
  log_use(lent);
  if (!reuses) {
    return dial();
  }
  ++engine_.stats.allowed;
  http_->begin(*upstream_, true);
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

void SecretConnection::cut_off() {
  client_->close();
  finish();
}

void SecretConnection::sweep(Steady::time_point now) {
  const Limits& limits = engine_.limits;
  if (phase_ == Phase::kHandshake && now - phase_began_ > limits.head) {
    return cut_off();
  }
  if (http_->sweep(now)) {
    return;
  }
  if (http_->is_waiting() && !dial_ && now - phase_began_ > limits.connect) {
    http_->decline({kGatewayTimeout, "upstream_tls_timeout",
                    quoted(target_.to_string()) +
                        " is allowed, but did not finish its TLS handshake "
                        "in time."});
  }
}

void SecretConnection::finish() {
  if (phase_ == Phase::kGone) {
    return;
  }
  phase_ = Phase::kGone;
  const auto hold = shared_from_this();
  http_->stop();
  http_->drop_request();
  drop_upstream();
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
  http_->stop();
  http_->drop_request();
  drop_upstream();
  client_->close();
}

}  // namespace sandboxkit::egress
