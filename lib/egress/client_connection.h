#pragma once

#include "egress/client_hello.h"
#include "egress/dialer.h"
#include "egress/engine.h"
#include "egress/http_relay.h"
#include "egress/secret_connection.h"
#include "egress/tunnel.h"
#include "io/socket.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sandboxkit::egress {

/// What a CONNECT is answered when its tunnel stands.
inline constexpr std::string_view kEstablished = "HTTP/1.1 200 Connection established\r\n\r\n";

/// One connection of the sandbox to its proxy: every request is judged by itself, plain ones are
/// passed on by an HttpRelay, a CONNECT becomes a tunnel or, where secrets are lent, a
/// SecretConnection.
///
/// http -> (hello ->) tunnel -> gone
/// Thread-safety: the loop's thread.
class ClientConnection final : public std::enable_shared_from_this<ClientConnection>,
                               private HttpRelay::Connection {
 public:
  using Steady = std::chrono::steady_clock;

  /// `on_gone` comes once; the caller then lets go of the connection, from the loop.
  static std::shared_ptr<ClientConnection> start(Engine& engine, io::Fd fd,
                                                 std::function<void()> on_gone);
  ~ClientConnection() override;

  /// Ends what is past its limits.
  void sweep(Steady::time_point now);
  /// The policy was narrowed: ends what it does not allow any more. `stricter`: it is strict about
  /// TLS, and was not when the tunnels that stand were opened.
  void judge_again(bool stricter);
  /// Drops everything now; no `on_gone`.
  void close();

 private:
  enum class Phase : std::uint8_t { kHttp, kHello, kTunnel, kGone };

  ClientConnection(Engine& engine, std::shared_ptr<io::Socket> client,
                   std::function<void()> on_gone);

  // What the client sends.
  void on_client_data(std::string_view bytes);
  void on_client_end();
  void on_request(const wire::RequestHead& head) override;
  void on_connect(const wire::RequestHead& head);
  void on_forward(ForwardRequest request, std::shared_ptr<const SecretMask> mask);
  /// A CONNECT to where secrets are lent: TLS ends in this proxy.
  void begin_secret(const EgressTarget& target);
  /// Adds what is lent for plain HTTP; answers and returns false when the destination is shut.
  bool lend_plain(const wire::RequestHead& head, ForwardRequest& request,
                  std::shared_ptr<const SecretMask>& mask);

  // Towards the upstream.
  /// Judges the name; answers and returns false when it is refused.
  std::optional<EgressVerdict> admit(const EgressTarget& target, bool keep_alive);
  void dial(const EgressTarget& target, EgressVerdict verdict);
  void redial() override;
  void on_dialled(Dial::Outcome outcome);
  /// To `upstream`, or to the socket that stands.
  void begin_tunnel(io::Fd upstream, std::string early_down);
  void on_upgrade(std::string_view early) override;
  void note_server_name(std::string_view first_bytes);
  void have_upstream(std::shared_ptr<io::Socket> socket, std::string of);
  void watch_upstream();
  void on_upstream_data(std::string_view bytes);
  void on_upstream_end();
  void on_upstream_lost();
  /// Takes over a connection to the request's target that stands, when one may be used.
  bool reuse_upstream();
  /// Leaves a quiet upstream to whoever asks for the same target next.
  void park_upstream();
  void drop_upstream() override;

  // Strict TLS: nothing is passed on before its hello is judged.
  void begin_hello();
  void read_hello();
  void on_hello();
  void on_server_flight(std::string_view bytes);
  void open_strict_tunnel();
  void deny_hello(const EgressVerdict& verdict);
  /// Ends it without a denial: the server closed, or nothing came in time.
  void give_up_hello();
  void sweep_hello(Steady::time_point now);

  // Ends.
  bool still_allowed(bool stricter) const;
  /// Whether the policy, as it is now, lets `target` be served from an address that was dialled.
  bool is_open_at(const EgressTarget& target, const std::string& address) const;
  void cut_off() override;
  void finish() override;
  void log_end();

  Engine& engine_;
  std::shared_ptr<io::Socket> client_;
  std::function<void()> on_gone_;
  Phase phase_ = Phase::kHttp;
  const Steady::time_point born_ = Steady::now();
  Steady::time_point last_activity_ = born_;
  PlainStream client_stream_;
  HttpRelay http_;

  std::shared_ptr<Dial> dial_;
  std::optional<EgressTarget> target_;
  std::string dialled_address_;

  std::shared_ptr<io::Socket> upstream_;
  std::optional<PlainStream> upstream_stream_;
  std::string upstream_of_;  // `host:port` of the upstream
  bool counted_ = false;     // in engine_.upstreams
  std::shared_ptr<Tunnel> tunnel_;
  std::shared_ptr<SecretConnection> secret_;  // in place of a tunnel

  /// What strict TLS looks at before a tunnel is open.
  struct Hello {
    ClientHelloReader reader{};
    bool is_second = false;      // After a HelloRetryRequest.
    bool judged = false;         // The server's word on it is waited for.
    std::size_t read = 0;        // of the client's input, by the reader
    std::string server{};        // what it said and the client has not got yet
    std::uint64_t bytes_up = 0;  // that went on already
    std::uint64_t bytes_down = 0;
    Steady::time_point began{};
  };
  std::optional<Hello> hello_;
  EgressVerdict verdict_{};  // of the tunnel
};

}  // namespace sandboxkit::egress
