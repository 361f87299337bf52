// The half of SecretConnection that talks to the upstream.

#include "base/text.h"
#include "egress/secret_connection.h"

#include <utility>

namespace sandboxkit::egress {
namespace {

constexpr int kBadGateway = 502;

}  // namespace

void SecretConnection::dial() {
  drop_upstream();
  http_->wait();
  const EgressVerdict verdict = engine_.policy.decide(target_);
  if (!verdict.allowed) {
    return http_->refuse(deny(engine_, target_, verdict), false);
  }
  dial_ = Dial::start(engine_, target_, verdict, [weak = weak_from_this()](Dial::Outcome outcome) {
    if (const auto alive = weak.lock()) {
      alive->on_dialled(std::move(outcome));
    }
  });
}

void SecretConnection::on_dialled(Dial::Outcome outcome) {
  dial_.reset();
  if (!http_->is_waiting()) {
    return;
  }
  last_activity_ = phase_began_ = Steady::now();
  if (const auto* refusal = std::get_if<Refusal>(&outcome)) {
    return http_->decline(*refusal);
  }
  auto& dialled = std::get<Dialled>(outcome);
  log_decision(engine_, target_, true, dialled.verdict, dialled.address.to_string());
  auto session = engine_.secrets.connect(target_.host());
  if (!session) {
    return http_->decline({kBadGateway, "upstream_tls", "No TLS connection could be begun."});
  }
  auto socket = io::Socket::adopt(engine_.loop, std::move(dialled.fd));
  socket->set_high_water(kMaxQueuedBytes);
  watch_upstream(std::move(socket), *std::move(session));
}

void SecretConnection::watch_upstream(std::shared_ptr<io::Socket> socket, TlsSession session) {
  const std::weak_ptr<SecretConnection> weak = weak_from_this();
  upstream_ = TlsStream::start(std::move(socket), std::move(session), {},
                               {.on_open =
                                    [weak] {
                                      if (const auto alive = weak.lock()) {
                                        alive->on_upstream_open();
                                      }
                                    },
                                .on_data =
                                    [weak](std::string_view bytes) {
                                      if (const auto alive = weak.lock()) {
                                        alive->on_upstream_data(bytes);
                                      }
                                    },
                                .on_end =
                                    [weak] {
                                      if (const auto alive = weak.lock()) {
                                        alive->on_upstream_end();
                                      }
                                    },
                                .on_drain =
                                    [weak] {
                                      if (const auto alive = weak.lock()) {
                                        alive->client_->resume_reading();
                                      }
                                    },
                                .on_close =
                                    [weak](const Error& error) {
                                      if (const auto alive = weak.lock()) {
                                        alive->on_upstream_closed(error);
                                      }
                                    }});
}

/// Only here the chain and the name are proven: no byte of a request goes out before.
void SecretConnection::on_upstream_open() {
  if (!http_->is_waiting()) {
    return drop_upstream();
  }
  upstream_open_ = true;
  ++engine_.stats.allowed;
  http_->begin(*upstream_, false);
}

void SecretConnection::on_upstream_data(std::string_view bytes) {
  last_activity_ = Steady::now();
  if (phase_ != Phase::kPipe) {
    return http_->on_upstream_data(bytes);
  }
  engine_.stats.bytes_down += bytes.size();
  return spend(engine_, bytes.size()) ? pass_down(bytes) : cut_off();
}

void SecretConnection::on_upgrade(std::string_view early) {
  phase_ = Phase::kPipe;
  http_->drop_request();
  upstream_->write(std::exchange(http_->input(), {}));
  client_->resume_reading();
  if (http_->client_ended()) {
    upstream_->shutdown_write();
  }
  pass_down(early);
}

void SecretConnection::pass_down(std::string_view bytes) {
  client_->write(bytes);
  if (client_->is_full()) {
    upstream_->pause_reading();
  }
}

void SecretConnection::on_upstream_end() {
  return phase_ == Phase::kPipe ? client_->shutdown_write() : http_->on_upstream_end();
}

void SecretConnection::on_upstream_closed(const Error& error) {
  const bool was_open = upstream_open_;
  if (phase_ == Phase::kPipe) {
    if (error.reason != "connection_closed") {
      return cut_off();  // A cut is passed on as a cut.
    }
    return finish();
  }
  if (http_->is_waiting() && upstream_ && !was_open) {
    const bool bad = error.reason == "certificate_refused";
    return http_->decline({kBadGateway, bad ? "upstream_certificate" : "upstream_tls",
                           quoted(target_.to_string()) +
                               (bad ? " showed a certificate that is not proven ("
                                    : " is allowed, but its TLS failed (") +
                               error.message + "). Nothing was sent to it."});
  }
  http_->on_upstream_lost();
}

void SecretConnection::drop_upstream() {
  if (dial_) {
    dial_->cancel();
    dial_.reset();
  }
  if (upstream_) {
    upstream_->close();
    upstream_.reset();
  }
  upstream_open_ = false;
}

}  // namespace sandboxkit::egress
