// What ClientConnection does where secrets are lent.

#include "egress/client_connection.h"

#include <utility>

namespace sandboxkit::egress {
namespace {

constexpr int kUnavailable = 503;

}  // namespace

void ClientConnection::begin_secret(const EgressTarget& target) {
  const auto found = engine_.secrets.find(target, engine_.clock.now());
  if (const auto* refusal = std::get_if<Refusal>(&found)) {
    engine_.denied.add(target, refusal->reason, engine_.clock.now());
    return http_.refuse(*refusal, false);
  }
  auto session = std::get<const SecretBook::Lent*>(found)->server->accept(target.host());
  if (!session) {
    return http_.refuse({kUnavailable, "secret_unavailable", "No TLS session could be begun."},
                        false);
  }
  phase_ = Phase::kTunnel;
  http_.stop();
  target_ = target;
  counted_ = true;  // It holds one upstream at most.
  ++engine_.upstreams;
  client_->write(kEstablished);
  secret_ = SecretConnection::start(engine_,
                                    {.client = client_,
                                     .target = target,
                                     .session = *std::move(session),
                                     .early = std::exchange(http_.input(), {})},
                                    [weak = weak_from_this()] {
                                      if (const auto alive = weak.lock()) {
                                        alive->finish();
                                      }
                                    });
}

bool ClientConnection::lend_plain(const wire::RequestHead& head, ForwardRequest& request,
                                  std::shared_ptr<const SecretMask>& mask) {
  // The policy speaks first: a denied name is denied for that reason.
  if (!engine_.secrets.lends_to_host(request.target.host()) ||
      !engine_.policy.decide(request.target).allowed) {
    return true;
  }
  const auto found = engine_.secrets.find(request.target, engine_.clock.now());
  if (const auto* refusal = std::get_if<Refusal>(&found)) {
    engine_.denied.add(request.target, refusal->reason, engine_.clock.now());
    http_.refuse(*refusal, false);
    return false;
  }
  const SecretBook::Lent& lent = *std::get<const SecretBook::Lent*>(found);
  auto plan = plan_lent_plain(head, lent.secrets);
  if (const auto* refusal = std::get_if<Refusal>(&plan)) {
    http_.refuse(*refusal, false);
    return false;
  }
  request = std::get<ForwardRequest>(std::move(plan));
  mask = lent.mask;
  engine_.secrets.count(lent, engine_.clock.now());
  return true;
}

}  // namespace sandboxkit::egress
