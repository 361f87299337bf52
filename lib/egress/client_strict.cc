// The half of ClientConnection that is strict TLS: a tunnel opens once its hello is judged.
//
// A server may answer with a HelloRetryRequest, and the client's second hello could then name
// another host. So what the client sends behind its hello waits until the server has said whether
// it wants a second one, which is judged like the first.

#include "egress/client_connection.h"
#include "policy/egress_check.h"

#include <utility>

namespace sandboxkit::egress {
namespace {

/// A fatal alert, `access_denied`: the client's TLS library then says so, instead of a bare EOF.
constexpr std::string_view kAccessDenied("\x15\x03\x03\x00\x02\x02\x31", 7);

}  // namespace

void ClientConnection::begin_hello() {
  phase_ = Phase::kHello;
  http_.stop();
  hello_.emplace(Hello{.began = Steady::now()});
  client_->resume_reading();
  read_hello();
  if (phase_ == Phase::kHello && http_.client_ended()) {
    finish();
  }
}

void ClientConnection::read_hello() {
  if (hello_->judged) {
    return;  // What comes now waits for the server.
  }
  const std::string& input = http_.input();
  std::string_view rest = std::string_view(input).substr(hello_->read);
  const auto state = hello_->reader.feed(rest);
  hello_->read = input.size() - rest.size();
  if (state == ClientHelloReader::State::kNotTls) {
    return deny_hello({false, EgressReason::kNotTls, verdict_.rule});
  }
  if (state == ClientHelloReader::State::kHello) {
    on_hello();
  }
}

void ClientConnection::on_hello() {
  const auto verdict = policy::judge_server_name(*target_, verdict_, hello_->reader.server_name());
  if (!verdict.allowed) {
    return deny_hello(verdict);
  }
  if (hello_->is_second) {
    return open_strict_tunnel();
  }
  hello_->judged = true;
  hello_->bytes_up += hello_->read;
  watch_upstream();
  std::string& input = http_.input();
  upstream_->write(input.substr(0, hello_->read));
  input.erase(0, std::exchange(hello_->read, 0));
}

void ClientConnection::on_server_flight(std::string_view bytes) {
  last_activity_ = Steady::now();
  hello_->server += bytes;
  switch (read_server_flight(hello_->server)) {
    case ServerFlight::kMore:
      return;
    case ServerFlight::kOther:
      return open_strict_tunnel();
    case ServerFlight::kRetry:
      break;
  }
  // It waits for the client now; what else it says is read when the tunnel is open.
  upstream_->pause_reading();
  hello_->bytes_down += hello_->server.size();
  client_->write(std::exchange(hello_->server, {}));
  hello_->reader = ClientHelloReader(ClientHelloReader::Flight::kSecond);
  hello_->is_second = true;
  hello_->judged = false;
  client_->resume_reading();
  read_hello();
}

void ClientConnection::open_strict_tunnel() { begin_tunnel({}, std::exchange(hello_->server, {})); }

void ClientConnection::deny_hello(const EgressVerdict& verdict) {
  // The words are for a client that could still be told in HTTP; this one gets an alert.
  [[maybe_unused]] const Refusal unsaid = deny(engine_, *target_, verdict, dialled_address_);
  if (verdict.reason != EgressReason::kNotTls) {
    client_->write(kAccessDenied);
  }
  finish();
}

void ClientConnection::give_up_hello() {
  // An alert, mostly: the server says why it does not want this hello.
  client_->write(std::exchange(hello_->server, {}));
  finish();
}

void ClientConnection::sweep_hello(Steady::time_point now) {
  if (now - hello_->began <= engine_.limits.hello) {
    return;
  }
  const bool began_to_speak = !hello_->judged && hello_->read > 0;
  return began_to_speak ? deny_hello({false, EgressReason::kNotTls, verdict_.rule})
                        : give_up_hello();
}

}  // namespace sandboxkit::egress
