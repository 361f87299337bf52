#pragma once

#include "egress/dialer.h"
#include "egress/engine.h"
#include "egress/http_relay.h"
#include "egress/tls_stream.h"
#include "io/socket.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sandboxkit::egress {

/// A sandbox's connection to a destination that has lent secrets, behind its CONNECT: TLS ends
/// here, every request is judged by itself and gets the secrets, and goes on over a TLS connection
/// of our own whose certificate was proven before a byte of the request leaves.
///
/// handshake -> http (of an HttpRelay) -> pipe (websocket) -> gone
/// Thread-safety: the loop's thread.
class SecretConnection final : public std::enable_shared_from_this<SecretConnection>,
                               private HttpRelay::Connection {
 public:
  using Steady = std::chrono::steady_clock;

  /// What the CONNECT left. The client has its 200.
  struct Begin {
    std::shared_ptr<io::Socket> client;
    EgressTarget target;
    TlsSession session;
    std::string early;  ///< Read from the client already.
  };

  /// `on_done` comes once, from the loop, unless `close` was called.
  static std::shared_ptr<SecretConnection> start(Engine& engine, Begin begin,
                                                 std::function<void()> on_done);
  ~SecretConnection() override;

  /// Ends what is past the limits of a handshake or a head.
  void sweep(Steady::time_point now);
  void close();
  Steady::time_point last_activity() const { return last_activity_; }

 private:
  enum class Phase : std::uint8_t { kHandshake, kHttp, kPipe, kGone };

  SecretConnection(Engine& engine, EgressTarget target, std::function<void()> on_done)
      : engine_(engine), target_(std::move(target)), on_done_(std::move(on_done)) {}

  // The sandbox's side.
  void watch_client(Begin begin);
  void on_client_open();
  void on_client_data(std::string_view bytes);
  void on_client_drained();
  void on_client_end();
  void on_client_closed(const Error& error);
  void on_request(const wire::RequestHead& head) override;

  // The upstream's side.
  void dial();
  void redial() override { dial(); }
  void on_dialled(Dial::Outcome outcome);
  void watch_upstream(std::shared_ptr<io::Socket> socket, TlsSession session);
  void on_upstream_open();
  void on_upstream_data(std::string_view bytes);
  void on_upstream_end();
  void on_upstream_closed(const Error& error);
  void on_upgrade(std::string_view early) override;
  void pass_down(std::string_view bytes);
  void drop_upstream() override;

  // Ends.
  /// Counts it among what the wall denied.
  void deny_here(const Refusal& refusal);
  void log_use(const SecretBook::Lent& lent);
  void cut_off() override;
  void finish() override;

  Engine& engine_;
  const EgressTarget target_;
  std::function<void()> on_done_;
  Phase phase_ = Phase::kHandshake;
  Steady::time_point phase_began_ = Steady::now();
  Steady::time_point last_activity_ = phase_began_;

  std::shared_ptr<TlsStream> client_;
  std::optional<HttpRelay> http_;  // once the client is there

  std::shared_ptr<Dial> dial_;
  std::shared_ptr<TlsStream> upstream_;
  bool upstream_open_ = false;  // its certificate is proven
};

}  // namespace sandboxkit::egress
