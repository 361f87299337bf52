#include "egress/client_connection.h"

#include "base/text.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::egress {
namespace {

constexpr int kBadRequest = 400;
constexpr int kTimeout = 408;
constexpr int kTooMany = 429;
constexpr int kHeadTooLarge = 431;
constexpr wire::HeadLimits kHeadLimits{.max_bytes = 16 * 1024, .max_fields = 100};
/// What a client may send ahead of its turn before we stop reading.
constexpr std::size_t kMaxEarlyBytes = 64 * 1024;

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
      .on_drain = with(&ClientConnection::on_client_drained),
      .on_close = [lost = with(&ClientConnection::finish)](const Error&) { lost(); },
  });
  return self;
}

ClientConnection::ClientConnection(Engine& engine, std::shared_ptr<io::Socket> client,
                                   std::function<void()> on_gone)
    : engine_(engine), client_(std::move(client)), on_gone_(std::move(on_gone)) {
  client_->set_high_water(kMaxQueuedBytes);
}

ClientConnection::~ClientConnection() { close(); }

void ClientConnection::on_client_data(std::string_view bytes) {
  last_activity_ = Steady::now();
  input_ += bytes;
  if (phase_ == Phase::kHead) {
    return read_heads();
  }
  if (phase_ == Phase::kExchange) {
    send_request_body();
  }
  if (phase_ == Phase::kHello) {
    read_hello();
  }
  if (input_.size() > kMaxEarlyBytes) {
    client_->pause_reading();
  }
}

void ClientConnection::on_client_drained() {
  if (upstream_) {
    upstream_->resume_reading();
  }
  if (phase_ == Phase::kHead) {
    client_->resume_reading();
    read_heads();
  }
}

void ClientConnection::on_client_end() {
  client_ended_ = true;
  if (phase_ == Phase::kHead) {
    return read_heads();
  }
  if (phase_ == Phase::kHello ||
      (phase_ == Phase::kExchange && request_body_ && !request_body_->done())) {
    finish();
  }
  // Else the answer to what was asked is still delivered.
}

std::optional<Refusal> ClientConnection::doubt_in_input() {
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

void ClientConnection::read_heads() {
  while (phase_ == Phase::kHead && !input_.empty()) {
    if (client_->is_full()) {
      // It asks and does not read: it is served on when it took what it asked for.
      return client_->pause_reading();
    }
    const std::size_t end = wire::find_head_end(input_);
    if (end == 0) {
      if (!head_began_) {
        head_began_ = Steady::now();
      }
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

void ClientConnection::on_head(const wire::RequestHead& head) {
  method_ = head.method;
  if (const auto refusal = out_of_bytes(engine_)) {
    return refuse(*refusal, false);
  }
  if (head.method == "CONNECT") {
    return on_connect(head);
  }
  auto plan = plan_forward(head);
  if (const auto* refusal = std::get_if<Refusal>(&plan)) {
    return refuse(*refusal, false);
  }
  auto& request = std::get<ForwardRequest>(plan);
  if (lend_plain(head, request)) {
    on_forward(std::move(request));
  }
}

std::optional<EgressVerdict> ClientConnection::admit(const EgressTarget& target, bool keep_alive) {
  EgressVerdict verdict = engine_.policy.decide(target);
  if (!verdict.allowed) {
    refuse(deny(engine_, target, verdict), keep_alive);
    return std::nullopt;
  }
  if (!counted_ && engine_.upstreams + engine_.parked.size() >= engine_.limits.max_upstreams &&
      !engine_.parked.drop_one()) {
    refuse({kTooMany, "too_many_connections",
            "This sandbox has too many connections open; close some and try again."},
           false);
    return std::nullopt;
  }
  return verdict;
}

void ClientConnection::on_connect(const wire::RequestHead& head) {
  const auto target = EgressTarget::from_authority(head.target);
  if (!target) {
    return refuse({kBadRequest, "bad_target",
                   "The request's target cannot be used: " + target.error().message + "."},
                  false);
  }
  // After a refused CONNECT what follows may be the client's early data: not a request to read.
  if (auto verdict = admit(*target, false)) {
    request_.reset();
    park_upstream();
    if (engine_.secrets.ends_tls(*target)) {
      return begin_secret(*target);
    }
    dial(*target, *std::move(verdict));
  }
}

void ClientConnection::on_forward(ForwardRequest request) {
  const bool has_body = request.body.kind != wire::Framing::kNone;
  // A refused body would have to be read to its end: closing is simpler and says the same.
  auto verdict = admit(request.target, request.client_keep_alive && !has_body);
  if (!verdict) {
    return;
  }
  request_.emplace(std::move(request));
  if (!reuse_upstream()) {
    park_upstream();
    return dial(request_->target, *std::move(verdict));
  }
  target_ = request_->target;
  ++engine_.stats.allowed;
  log_decision(engine_, *target_, true, *verdict, dialled_address_);
  begin_exchange();
}

void ClientConnection::refuse(const Refusal& refusal, bool keep_alive) {
  const bool with_body = method_ != "HEAD";
  engine_.stats.refused += refusal.status < 500 && refusal.status != 403 ? 1 : 0;
  client_->write(refusal_response(refusal, keep_alive, with_body));
  if (!keep_alive) {
    client_->close_after_flush();
    return finish();
  }
  phase_ = Phase::kHead;
  client_->resume_reading();
}

void ClientConnection::sweep(Steady::time_point now) {
  if (phase_ == Phase::kGone) {
    return;
  }
  if (head_began_ && phase_ == Phase::kHead && now - *head_began_ > engine_.limits.head) {
    return refuse({kTimeout, "head_timeout", "The request's head did not come in time."}, false);
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
  if (secret_ || (stricter && phase_ != Phase::kExchange)) {
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
  if (phase_ == Phase::kHead || phase_ == Phase::kGone || !target_ || still_allowed(stricter)) {
    return;
  }
  if (const EgressVerdict verdict = engine_.policy.decide(*target_); !verdict.allowed) {
    deny(engine_, *target_, verdict, dialled_address_);
  }
  if (tunnel_) {
    tunnel_->close();
  }
  if (secret_) {
    secret_->close();
  }
  client_->close();
  finish();
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
  if (phase_ == Phase::kHead) {
    park_upstream();
  }
  phase_ = Phase::kGone;
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
