#include "egress/client_connection.h"

#include "base/text.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::egress {
namespace {

constexpr int kBadRequest = 400;
constexpr int kTooMany = 429;

}  // namespace

std::shared_ptr<ClientConnection> ClientConnection::start(Engine& engine, io::Fd fd,
                                                          std::function<void()> on_gone) {
  std::shared_ptr<ClientConnection> self(new ClientConnection(
      engine, io::Socket::adopt(engine.loop, std::move(fd)), std::move(on_gone)));
  // The proxy owns the connection; its socket must not.
  const std::weak_ptr<ClientConnection> weak = self;
  const auto with = [weak](void (ClientConnection::*member)()) {
    return [weak, member] {
      if (const auto alive = weak.lock()) {
        (alive.get()->*member)();
      }
    };
  };
  self->client_->start({
      .on_data =
          [weak](std::string_view bytes) {
            if (const auto alive = weak.lock()) {
              alive->on_client_data(bytes);
            }
          },
      .on_end = with(&ClientConnection::on_client_end),
      .on_drain =
          [weak] {
            if (const auto alive = weak.lock()) {
              alive->http_.on_client_drained();
            }
          },
      .on_close = [lost = with(&ClientConnection::finish)](const Error&) { lost(); },
  });
  return self;
}

ClientConnection::ClientConnection(Engine& engine, std::shared_ptr<io::Socket> client,
                                   std::function<void()> on_gone)
    : engine_(engine),
      client_(std::move(client)),
      on_gone_(std::move(on_gone)),
      client_stream_(client_),
      http_(engine_, *this, client_stream_) {
  client_->set_high_water(kMaxQueuedBytes);
}

ClientConnection::~ClientConnection() { close(); }

void ClientConnection::on_client_data(std::string_view bytes) {
  last_activity_ = Steady::now();
  http_.on_client_data(bytes);
  if (phase_ == Phase::kHello) {
    read_hello();
  }
}

void ClientConnection::on_client_end() {
  http_.on_client_end();
  if (phase_ == Phase::kHello) {
    finish();
  }
}

void ClientConnection::on_request(const wire::RequestHead& head) {
  if (head.method == "CONNECT") {
    return on_connect(head);
  }
  auto plan = plan_forward(head);
  if (const auto* refusal = std::get_if<Refusal>(&plan)) {
    return http_.refuse(*refusal, false);
  }
  auto& request = std::get<ForwardRequest>(plan);
  std::shared_ptr<const SecretMask> mask;
  if (lend_plain(head, request, mask)) {
    on_forward(std::move(request), std::move(mask));
  }
}

std::optional<EgressVerdict> ClientConnection::admit(const EgressTarget& target, bool keep_alive) {
  EgressVerdict verdict = engine_.policy.decide(target);
  if (!verdict.allowed) {
    http_.refuse(deny(engine_, target, verdict), keep_alive);
    return std::nullopt;
  }
  if (!counted_ && engine_.upstreams + engine_.parked.size() >= engine_.limits.max_upstreams &&
      !engine_.parked.drop_one()) {
    http_.refuse({kTooMany, "too_many_connections",
                  "This sandbox has too many connections open; close some and try again."},
                 false);
    return std::nullopt;
  }
  return verdict;
}

void ClientConnection::on_connect(const wire::RequestHead& head) {
  const auto target = EgressTarget::from_authority(head.target);
  if (!target) {
    return http_.refuse({kBadRequest, "bad_target",
                         "The request's target cannot be used: " + target.error().message + "."},
                        false);
  }
  // After a refused CONNECT what follows may be the client's early data: not a request to read.
  if (auto verdict = admit(*target, false)) {
    http_.drop_request();
    park_upstream();
    if (engine_.secrets.ends_tls(*target)) {
      return begin_secret(*target);
    }
    dial(*target, *std::move(verdict));
  }
}

void ClientConnection::on_forward(ForwardRequest request, std::shared_ptr<const SecretMask> mask) {
  const bool has_body = request.body.kind != wire::Framing::kNone;
  // A refused body would have to be read to its end: closing is simpler and says the same.
  auto verdict = admit(request.target, request.client_keep_alive && !has_body);
  if (!verdict) {
    return;
  }
  target_ = request.target;
  http_.take(std::move(request), std::move(mask));
  if (!reuse_upstream()) {
    park_upstream();
    return dial(*target_, *std::move(verdict));
  }
  ++engine_.stats.allowed;
  log_decision(engine_, *target_, true, *verdict, dialled_address_);
  http_.begin(*upstream_stream_, true);
}

void ClientConnection::sweep(Steady::time_point now) {
  if (phase_ == Phase::kGone) {
    return;
  }
  if (http_.sweep(now)) {
    return;
  }
  if (phase_ == Phase::kHello) {
    return sweep_hello(now);
  }
  if (secret_) {
    secret_->sweep(now);
  }
  if (phase_ == Phase::kGone) {
    return;
  }
  const auto active = tunnel_   ? tunnel_->last_activity()
                      : secret_ ? secret_->last_activity()
                                : last_activity_;
  if (now - active > engine_.limits.idle || now - born_ > engine_.limits.lifetime ||
      (tunnel_ && engine_.tunnels.bytes_left == 0)) {
    return cut_off();
  }
  if (tunnel_) {
    tunnel_->rest(now);
  }
}

bool ClientConnection::still_allowed(bool stricter) const {
  if (secret_ || (stricter && !http_.is_in_exchange())) {
    return false;  // What it holds, or carries, is not known here: whoever asks again is judged.
  }
  return engine_.policy.decide(*target_).allowed && is_open_at(*target_, dialled_address_);
}

bool ClientConnection::is_open_at(const EgressTarget& target, const std::string& address) const {
  const auto dialled = IpAddress::parse(address);
  return engine_.hosts.contains(target.host()) || !dialled ||
         engine_.policy.decide_address(target, *dialled).allowed;
}

void ClientConnection::judge_again(bool stricter) {
  // What is between two requests is judged with the next one.
  if (http_.is_between_requests() || phase_ == Phase::kGone || !target_ ||
      still_allowed(stricter)) {
    return;
  }
  if (const EgressVerdict verdict = engine_.policy.decide(*target_); !verdict.allowed) {
    deny(engine_, *target_, verdict, dialled_address_);
  }
  cut_off();
}

void ClientConnection::log_end() {
  if (!tunnel_) {
    return;
  }
  engine_.stats.bytes_up += tunnel_->bytes_up();
  engine_.stats.bytes_down += tunnel_->bytes_down();
  const auto lived = std::chrono::duration_cast<std::chrono::milliseconds>(Steady::now() - born_);
  engine_.log.write(json::Object{{"time", to_rfc3339(engine_.clock.now())},
                                 {"event", "closed"},
                                 {"host", target_->host()},
                                 {"port", static_cast<int>(target_->port())},
                                 {"bytes_up", static_cast<std::int64_t>(tunnel_->bytes_up())},
                                 {"bytes_down", static_cast<std::int64_t>(tunnel_->bytes_down())},
                                 {"ms", static_cast<std::int64_t>(lived.count())}});
}

void ClientConnection::finish() {
  if (phase_ == Phase::kGone) {
    return;
  }
  log_end();
  if (http_.is_between_requests()) {
    park_upstream();
  }
  phase_ = Phase::kGone;
  http_.stop();
  const auto hold = shared_from_this();
  if (tunnel_) {
    // Closed, or writing out by itself what it still holds.
    upstream_.reset();
    tunnel_.reset();
  }
  secret_.reset();
  drop_upstream();
  client_->close_after_flush();
  if (const auto once = std::exchange(on_gone_, nullptr)) {
    once();
  }
}

void ClientConnection::close() {
  on_gone_ = nullptr;
  if (phase_ == Phase::kGone) {
    return;
  }
  phase_ = Phase::kGone;
  http_.stop();
  if (tunnel_) {
    tunnel_->close();
    tunnel_.reset();
  }
  if (secret_) {
    secret_->close();
    secret_.reset();
  }
  drop_upstream();
  client_->close();
}

}  // namespace sandboxkit::egress
