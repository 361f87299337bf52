// The half of ClientConnection that talks to the upstream.

#include "egress/client_connection.h"
#include "policy/egress_check.h"

#include <utility>

namespace sandboxkit::egress {
namespace {

constexpr int kBadRequest = 400;
constexpr int kBadGateway = 502;

}  // namespace

void ClientConnection::dial(const EgressTarget& target, EgressVerdict verdict) {
  phase_ = Phase::kDialling;
  target_ = target;
  reused_ = false;
  counted_ = true;
  ++engine_.upstreams;
  dial_ = Dial::start(engine_, target, std::move(verdict),
                      [weak = weak_from_this()](Dial::Outcome outcome) {
                        if (const auto alive = weak.lock()) {
                          alive->on_dialled(std::move(outcome));
                        }
                      });
}

void ClientConnection::on_dialled(Dial::Outcome outcome) {
  dial_.reset();
  if (phase_ != Phase::kDialling) {
    return;
  }
  last_activity_ = Steady::now();
  if (const auto* refusal = std::get_if<Refusal>(&outcome)) {
    drop_upstream();
    engine_.stats.failed += refusal->status >= 500 ? 1 : 0;
    const bool has_body = request_ && request_->body.kind != wire::Framing::kNone;
    refuse(*refusal, request_ && request_->client_keep_alive && !has_body);
    return read_heads();
  }
  auto& dialled = std::get<Dialled>(outcome);
  dialled_address_ = dialled.address.to_string();
  ++engine_.stats.allowed;
  log_decision(engine_, *target_, true, dialled.verdict, dialled_address_);
  if (!request_) {
    verdict_ = std::move(dialled.verdict);
    client_->write(kEstablished);
    if (!engine_.policy.strict_tls()) {
      return begin_tunnel(std::move(dialled.fd), {});
    }
  }
  upstream_ = io::Socket::adopt(engine_.loop, std::move(dialled.fd));
  upstream_->set_high_water(kMaxQueuedBytes);
  upstream_of_ = target_->to_string();
  if (!request_) {
    return begin_hello();
  }
  watch_upstream();
  begin_exchange();
}

void ClientConnection::begin_tunnel(io::Fd upstream, std::string early_down) {
  phase_ = Phase::kTunnel;
  Tunnel::Ends ends{.client = {},
                    .upstream = std::move(upstream),
                    .early_up = std::exchange(input_, {}),
                    .early_down = std::move(early_down),
                    .bytes_up = hello_ ? hello_->bytes_up : 0,
                    .bytes_down = hello_ ? hello_->bytes_down : 0,
                    .on_first_up = [this](std::string_view bytes) { note_server_name(bytes); }};
  // From here on the tunnel has the descriptors; what waits to be written goes with them.
  ends.owed_down = client_->take_queued();
  ends.client = client_->release();
  if (upstream_) {
    ends.owed_up = upstream_->take_queued();
    ends.upstream = upstream_->release();
  }
  tunnel_ = Tunnel::start(engine_.loop, engine_.tunnels, std::move(ends), [this] { finish(); });
}

void ClientConnection::note_server_name(std::string_view first_bytes) {
  if (hello_ || request_) {
    return;  // Judged already, or a websocket.
  }
  // Only what is there at once: a tunnel does not wait for a line in a log.
  ClientHelloReader reader;
  if (reader.feed(first_bytes) == ClientHelloReader::State::kHello &&
      !policy::judge_server_name(*target_, verdict_, reader.server_name()).allowed) {
    log_other_name(engine_, *target_, reader.server_name());
  }
}

void ClientConnection::begin_exchange() {
  phase_ = Phase::kExchange;
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

void ClientConnection::send_request_body() {
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
  upstream_->write(std::move(out));
  if (upstream_->is_full()) {
    client_->pause_reading();
  }
}

void ClientConnection::watch_upstream() {
  const std::weak_ptr<ClientConnection> weak = weak_from_this();
  upstream_->start({
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
          [weak](const Error&) {
            if (const auto alive = weak.lock()) {
              alive->on_upstream_lost();
            }
          },
  });
}

void ClientConnection::on_upstream_data(std::string_view bytes) {
  if (phase_ == Phase::kHello) {
    return on_server_flight(bytes);
  }
  if (phase_ != Phase::kExchange) {
    return drop_upstream();  // It speaks without being asked: not an upstream to use again.
  }
  last_activity_ = Steady::now();
  engine_.stats.bytes_down += bytes.size();
  if (!spend(engine_, bytes.size())) {
    return cut_off();
  }
  std::string out;
  std::string_view rest = bytes;
  const bool answered = response_->head_done();
  if (const auto status = response_->feed(rest, out); !status) {
    return fail_exchange(
        {kBadGateway, "bad_response", "The upstream's answer cannot be read without doubt."});
  }
  if (response_->upgraded() && !answered) {
    client_->write(std::move(out));
    return begin_tunnel({}, std::string(rest));
  }
  client_->write(std::move(out));
  if (response_->done()) {
    return finish_exchange(rest.empty());
  }
  if (client_->is_full()) {
    upstream_->pause_reading();
  }
}

void ClientConnection::on_upstream_end() {
  if (phase_ == Phase::kHello) {
    return give_up_hello();
  }
  if (phase_ != Phase::kExchange) {
    return drop_upstream();
  }
  if (response_->end()) {
    return finish_exchange(false);
  }
  on_upstream_lost();
}

void ClientConnection::on_upstream_lost() {
  if (phase_ == Phase::kHello) {
    return give_up_hello();
  }
  if (phase_ != Phase::kExchange) {
    return drop_upstream();
  }
  if (reused_ && response_->status() == 0) {
    // It closed while idle, and the request may be sent twice. Once, on a new one.
    drop_upstream();
    const EgressVerdict verdict = engine_.policy.decide(request_->target);
    return dial(request_->target, verdict);
  }
  fail_exchange(
      {kBadGateway, "upstream_closed", "The upstream closed before its answer was complete."});
}

void ClientConnection::finish_exchange(bool upstream_is_clean) {
  const bool request_whole = request_body_->done();
  const bool keep_client = response_->client_keep_alive() && request_whole;
  if (!upstream_is_clean || !request_whole || !response_->upstream_reusable()) {
    drop_upstream();
  } else {
    upstream_->resume_reading();
  }
  response_.reset();
  request_body_.reset();
  phase_ = Phase::kHead;
  if (!keep_client) {
    client_->close_after_flush();
    return finish();
  }
  client_->resume_reading();
  read_heads();
}

bool ClientConnection::reuse_upstream() {
  reused_ = false;
  if (!request_->repeatable) {
    return false;
  }
  const std::string key = request_->target.to_string();
  if (!upstream_ || !upstream_->is_open() || upstream_of_ != key) {
    park_upstream();
    ParkedUpstream parked = engine_.parked.take(key);
    if (!parked.socket) {
      return false;
    }
    upstream_ = std::move(parked.socket);
    upstream_of_ = key;
    dialled_address_ = std::move(parked.address);
    counted_ = true;
    ++engine_.upstreams;
    watch_upstream();
  }
  // The policy may have been narrowed since it was dialled.
  reused_ = is_open_at(request_->target, dialled_address_);
  if (!reused_) {
    drop_upstream();
  }
  return reused_;
}

void ClientConnection::park_upstream() {
  if (upstream_ && upstream_->is_open()) {
    engine_.parked.park({upstream_of_, dialled_address_, std::move(upstream_)}, Steady::now());
  }
  drop_upstream();
}

void ClientConnection::drop_upstream() {
  if (dial_) {
    dial_->cancel();
    dial_.reset();
  }
  if (upstream_) {
    upstream_->close();
    upstream_.reset();
  }
  upstream_of_.clear();
  if (counted_) {
    counted_ = false;
    --engine_.upstreams;
  }
}

void ClientConnection::fail_exchange(const Refusal& refusal) {
  const bool nothing_sent = !response_->head_done();
  drop_upstream();
  engine_.stats.failed += refusal.status >= 500 ? 1 : 0;
  if (nothing_sent) {
    return refuse(refusal, false);
  }
  // The client has a part of an answer: it must see it break, not end.
  client_->close();
  finish();
}

void ClientConnection::cut_off() {
  if (tunnel_) {
    tunnel_->close();
  }
  if (secret_) {
    secret_->close();
  }
  client_->close();
  finish();
}

}  // namespace sandboxkit::egress
