#pragma once

#include "egress/authority.h"
#include "egress/openssl_types.h"
#include "io/fd.h"
#include "tests/unit/egress/proxy_world.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace sandboxkit::egress::test {

/// An authority for the hosts that is good now and for an hour.
CertifiedKey authority_for(const std::vector<std::string>& hosts);
CertifiedKey copy_of(const CertifiedKey& certified);

/// A blocking TLS server of this machine, each connection on a thread of its own, with a time limit
/// of five seconds on everything.
class TlsUpstream {
 public:
  struct Answer {
    std::string bytes;
    bool close = false;      ///< Says close_notify afterwards and closes.
    bool cut = false;        ///< Closes without close_notify.
    bool websocket = false;  ///< Echoes from then on.
  };
  /// Gets what was received and not answered yet; an empty answer waits for more.
  using Serve = std::function<Answer(const std::string& received)>;

  TlsUpstream(const CertifiedKey& certificate, Serve serve,
              const std::string& address = "127.0.0.1");
  ~TlsUpstream();
  TlsUpstream(const TlsUpstream&) = delete;
  TlsUpstream& operator=(const TlsUpstream&) = delete;

  std::uint16_t port() const { return port_; }
  std::size_t connections() const { return connections_; }
  /// Decoded application bytes of all connections.
  std::size_t bytes() const { return bytes_; }
  std::string last_server_name() const;

 private:
  void accept_all();
  void serve(int fd);
  Serve serve_;
  ContextPtr context_;
  io::Fd listener_;
  std::uint16_t port_ = 0;
  std::atomic<std::size_t> connections_{0};
  std::atomic<std::size_t> bytes_{0};
  mutable std::mutex mutex_;
  std::string server_name_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread accepter_;
  std::atomic<bool> over_{false};
};

/// 200 with the head as body, for each head.
TlsUpstream::Answer tls_mirror(const std::string& received);

struct TlsClientOptions {
  std::string server_name{};  ///< Empty: none is sent.
  std::string trusted{};      ///< PEM of the authority.
  int max_version = 0;        ///< 0: whatever OpenSSL has.
  std::string protocols{};    ///< ALPN, in its wire form.
};

/// A sandbox's program: CONNECT, then TLS, blocking, five seconds on everything.
class TlsClient {
 public:
  /// Sends CONNECT and reads its answer.
  TlsClient(const World& world, const std::string& target);
  ~TlsClient();
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  const std::string& connect_answer() const { return connect_answer_; }
  /// Empty when the handshake is done and the server proven, else OpenSSL's words.
  std::string shake(const TlsClientOptions& options);
  void send(std::string_view plain);
  std::string read_until(std::string_view text);
  std::string read_answer();
  std::string read_all();
  /// Whether the last end was a close_notify.
  bool ended_in_order() const { return in_order_; }
  std::string protocol() const;  ///< Chosen by ALPN.
  bool renegotiates();
  int fd() const { return fd_.get(); }
  SSL* ssl() const { return ssl_.get(); }

 private:
  bool read_some();
  io::Fd fd_;
  ContextPtr context_;
  SslPtr ssl_;
  std::string connect_answer_;
  std::string buffer_;
  bool in_order_ = false;
};

}  // namespace sandboxkit::egress::test
