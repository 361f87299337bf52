// The half of ClientConnection that talks to the upstream.

#include "egress/client_connection.h"
#include "policy/egress_check.h"

#include <utility>

namespace sandboxkit::egress {
void ClientConnection::dial(const EgressTarget& target, EgressVerdict verdict) {
  http_.wait();
  target_ = target;
  counted_ = true;
  ++engine_.upstreams;
  dial_ = Dial::start(engine_, target, std::move(verdict),
                      [weak = weak_from_this()](Dial::Outcome outcome) {
                        if (const auto alive = weak.lock()) {
                          alive->on_dialled(std::move(outcome));
                        }
                      });
}

void ClientConnection::redial() {
  drop_upstream();
  dial(*target_, engine_.policy.decide(*target_));
}

void ClientConnection::on_dialled(Dial::Outcome outcome) {
  dial_.reset();
  if (!http_.is_waiting()) {
    return;
  }
  last_activity_ = Steady::now();
  if (const auto* refusal = std::get_if<Refusal>(&outcome)) {
    return http_.decline(*refusal);
  }
  auto& dialled = std::get<Dialled>(outcome);
  dialled_address_ = dialled.address.to_string();
  ++engine_.stats.allowed;
  log_decision(engine_, *target_, true, dialled.verdict, dialled_address_);
  if (!http_.request()) {
    verdict_ = std::move(dialled.verdict);
    client_->write(kEstablished);
    if (!engine_.policy.strict_tls()) {
      return begin_tunnel(std::move(dialled.fd), {});
    }
  }
  have_upstream(io::Socket::adopt(engine_.loop, std::move(dialled.fd)), target_->to_string());
  upstream_->set_high_water(kMaxQueuedBytes);
  if (!http_.request()) {
    return begin_hello();
  }
  watch_upstream();
  http_.begin(*upstream_stream_, false);
}

void ClientConnection::have_upstream(std::shared_ptr<io::Socket> socket, std::string of) {
  upstream_ = std::move(socket);
  upstream_stream_.emplace(upstream_);
  upstream_of_ = std::move(of);
}

void ClientConnection::begin_tunnel(io::Fd upstream, std::string early_down) {
  phase_ = Phase::kTunnel;
  http_.stop();
  Tunnel::Ends ends{.client = {},
                    .upstream = std::move(upstream),
                    .early_up = std::exchange(http_.input(), {}),
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
  if (hello_ || http_.request()) {
    return;  // Judged already, or a websocket.
  }
  // Only what is there at once: a tunnel does not wait for a line in a log.
  ClientHelloReader reader;
  if (reader.feed(first_bytes) == ClientHelloReader::State::kHello &&
      !policy::judge_server_name(*target_, verdict_, reader.server_name()).allowed) {
    log_other_name(engine_, *target_, reader.server_name());
  }
}

void ClientConnection::on_upgrade(std::string_view early) { begin_tunnel({}, std::string(early)); }

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
              alive->http_.on_upstream_drained();
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
  last_activity_ = Steady::now();
  return phase_ == Phase::kHello ? on_server_flight(bytes) : http_.on_upstream_data(bytes);
}

void ClientConnection::on_upstream_end() {
  return phase_ == Phase::kHello ? give_up_hello() : http_.on_upstream_end();
}

void ClientConnection::on_upstream_lost() {
  return phase_ == Phase::kHello ? give_up_hello() : http_.on_upstream_lost();
}

bool ClientConnection::reuse_upstream() {
  if (!http_.request()->repeatable) {
    return false;
  }
  const std::string key = target_->to_string();
  if (!upstream_ || !upstream_->is_open() || upstream_of_ != key) {
    park_upstream();
    ParkedUpstream parked = engine_.parked.take(key);
    if (!parked.socket) {
      return false;
    }
    have_upstream(std::move(parked.socket), key);
    dialled_address_ = std::move(parked.address);
    counted_ = true;
    ++engine_.upstreams;
    watch_upstream();
  }
  // The policy may have been narrowed since it was dialled.
  if (!is_open_at(*target_, dialled_address_)) {
    drop_upstream();
    return false;
  }
  return true;
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
  upstream_stream_.reset();
  upstream_of_.clear();
  if (counted_) {
    counted_ = false;
    --engine_.upstreams;
  }
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
