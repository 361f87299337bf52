// The half of SecretConnection that talks to the upstream.

#include "base/text.h"
#include "egress/secret_connection.h"

#include <utility>

namespace sandboxkit::egress {
namespace {

constexpr int kBadRequest = 400;
constexpr int kBadGateway = 502;

}  // namespace

void SecretConnection::dial() {
  drop_upstream();
  phase_ = Phase::kDialling;
  reused_ = false;
  const EgressVerdict verdict = engine_.policy.decide(target_);
  if (!verdict.allowed) {
    return refuse(deny(engine_, target_, verdict), false);
  }
  dial_ = Dial::start(engine_, target_, verdict, [weak = weak_from_this()](Dial::Outcome outcome) {
    if (const auto alive = weak.lock()) {
      alive->on_dialled(std::move(outcome));
    }
  });
}

void SecretConnection::on_dialled(Dial::Outcome outcome) {
  dial_.reset();
  if (phase_ != Phase::kDialling) {
    return;
  }
  last_activity_ = phase_began_ = Steady::now();
  if (const auto* refusal = std::get_if<Refusal>(&outcome)) {
    return fail_exchange(*refusal);
  }
  auto& dialled = std::get<Dialled>(outcome);
  log_decision(engine_, target_, true, dialled.verdict, dialled.address.to_string());
  auto session = engine_.secrets.connect(target_.host());
  if (!session) {
    return fail_exchange({kBadGateway, "upstream_tls", "No TLS connection could be begun."});
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
  if (phase_ != Phase::kDialling) {
    return drop_upstream();
  }
  upstream_open_ = true;
  begin_exchange();
}

void SecretConnection::begin_exchange() {
  phase_ = Phase::kExchange;
  ++engine_.stats.allowed;
  request_body_.emplace(request_->body);
  response_.emplace(ResponseContext{.method = request_->method,
                                    .client_minor_version = request_->client_minor_version,
                                    .client_keep_alive = request_->client_keep_alive,
                                    .websocket = request_->websocket,
                                    .mask = mask_});
  upstream_->write(request_->head);
  send_request_body();
  if (phase_ == Phase::kExchange && client_ended_ && !request_body_->done()) {
    return finish();
  }
  client_->resume_reading();
}

void SecretConnection::send_request_body() {
  if (!request_body_ || request_body_->done()) {
    return;  // What is in the input is the next request.
  }
  std::string_view rest = input_;
  std::string out;
  const auto status = request_body_->feed(rest, out);
  engine_.stats.bytes_up += out.size();
  if (!spend(engine_, out.size())) {
    return cut_off();
  }
  input_.erase(0, input_.size() - rest.size());
  if (!status) {
    // The upstream has a part of a request: it must see it end without being whole.
    return fail_exchange({kBadRequest, "bad_request", "The request's body cannot be read."});
  }
  upstream_->write(out);
  if (upstream_->is_full()) {
    client_->pause_reading();
  }
}

void SecretConnection::on_upstream_data(std::string_view bytes) {
  if (phase_ != Phase::kExchange && phase_ != Phase::kPipe) {
    return drop_upstream();  // It speaks without being asked: not an upstream to use again.
  }
  last_activity_ = Steady::now();
  engine_.stats.bytes_down += bytes.size();
  if (!spend(engine_, bytes.size())) {
    return cut_off();
  }
  std::string_view rest = bytes;
  if (phase_ == Phase::kPipe) {
    client_->write(rest);
  } else {
    std::string out;
    const bool answered = response_->head_done();
    if (const auto status = response_->feed(rest, out); !status) {
      return fail_exchange(
          {kBadGateway, "bad_response", "The upstream's answer cannot be read without doubt."});
    }
    client_->write(out);
    if (response_->upgraded() && !answered) {
      client_->write(rest);
      drop_request();
      phase_ = Phase::kPipe;
      upstream_->write(std::exchange(input_, {}));
      client_->resume_reading();
      if (client_ended_) {
        upstream_->shutdown_write();
      }
    } else if (response_->done()) {
      return finish_exchange(rest.empty());
    }
  }
  if (client_->is_full()) {
    upstream_->pause_reading();
  }
}

void SecretConnection::on_upstream_end() {
  if (phase_ == Phase::kPipe) {
    return client_->shutdown_write();
  }
  if (phase_ != Phase::kExchange) {
    return drop_upstream();
  }
  if (response_->end()) {
    return finish_exchange(false);
  }
  on_upstream_lost();
}

void SecretConnection::on_upstream_closed(const Error& error) {
  const bool was_open = upstream_open_;
  if (phase_ == Phase::kPipe) {
    if (error.reason != "connection_closed") {
      return cut_off();  // A cut is passed on as a cut.
    }
    return finish();
  }
  if (phase_ == Phase::kDialling && upstream_ && !was_open) {
    const bool bad = error.reason == "certificate_refused";
    return fail_exchange({kBadGateway, bad ? "upstream_certificate" : "upstream_tls",
                          quoted(target_.to_string()) +
                              (bad ? " showed a certificate that is not proven ("
                                   : " is allowed, but its TLS failed (") +
                              error.message + "). Nothing was sent to it."});
  }
  on_upstream_lost();
}

void SecretConnection::on_upstream_lost() {
  if (phase_ != Phase::kExchange) {
    return drop_upstream();
  }
  if (reused_ && response_->status() == 0) {
    // It closed while idle, and the request may be sent twice. Once, on a new one.
    return dial();
  }
  fail_exchange(
      {kBadGateway, "upstream_closed", "The upstream closed before its answer was complete."});
}

void SecretConnection::finish_exchange(bool upstream_is_clean) {
  const bool request_whole = request_body_->done();
  const bool keep_client = response_->client_keep_alive() && request_whole;
  if (!upstream_is_clean || !request_whole || !response_->upstream_reusable()) {
    drop_upstream();
  } else {
    upstream_->resume_reading();
  }
  drop_request();
  if (!keep_client) {
    return finish();
  }
  phase_ = Phase::kHead;
  client_->resume_reading();
  read_heads();
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
