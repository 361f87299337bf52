#pragma once

#include "sandboxkit/result.h"

#include "egress/authority.h"

#include <memory>
#include <string>
#include <string_view>

#include <openssl/types.h>

namespace sandboxkit::egress {

/// One TLS connection before it has a socket: the state machine, and which host it is about.
class TlsSession {
 public:
  /// What the handshake is held to. At a fixed address, because OpenSSL's callbacks read it.
  struct Expected {
    std::string host;
    bool name_refused = false;  ///< The client named another server, or none.
  };

  TlsSession(SSL* ssl, std::unique_ptr<Expected> expected)
      : ssl_(ssl), expected_(std::move(expected)) {}
  TlsSession(TlsSession&& other) noexcept;
  TlsSession& operator=(TlsSession&& other) noexcept;
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;
  ~TlsSession();

  SSL* ssl() const { return ssl_; }
  const Expected& expected() const { return *expected_; }

 private:
  SSL* ssl_;  // Owned; freed before what its callbacks read.
  std::unique_ptr<Expected> expected_;
};

/// What sessions of one kind share. TLS 1.2 and 1.3, HTTP/1.1 as the only protocol inside, no
/// renegotiation, no compression, no tickets and no cache: nothing of one connection lives on in
/// another.
/// Thread-safety: one thread at a time.
class TlsContext {
 public:
  /// Of a server that shows this certificate.
  static Result<TlsContext> for_server(const CertifiedKey& certified);
  /// Of a client that believes these roots (PEM, 1 to 2000 certificates).
  static Result<TlsContext> for_client(std::string_view roots);

  TlsContext(TlsContext&& other) noexcept;
  TlsContext& operator=(TlsContext&& other) noexcept;
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();

  /// A server's session: a client that does not name `host` (SNI) is refused in its first message.
  Result<TlsSession> accept(const std::string& host) const;
  /// A client's session: names `host`, and ends unless the chain and that very name are proven.
  Result<TlsSession> connect(const std::string& host) const;

 private:
  explicit TlsContext(SSL_CTX* context) : context_(context) {}
  SSL_CTX* context_;  // Owned.
};

}  // namespace sandboxkit::egress
