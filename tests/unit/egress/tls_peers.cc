#include "tests/unit/egress/tls_peers.h"

#include "base/text.h"
#include "io/socket.h"
#include "wire/http.h"

#include <array>
#include <chrono>
#include <csignal>
#include <utility>

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace sandboxkit::egress::test {
namespace {

constexpr int kSeconds = 5;

void limit_waits(int fd) {
  // OpenSSL writes to sockets by itself here: a peer that is gone must be an error.
  std::signal(SIGPIPE, SIG_IGN);
  const timeval limit{kSeconds, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

std::string words_of_error() {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return text.data();
}

}  // namespace

CertifiedKey authority_for(const std::vector<std::string>& hosts) {
  const WallTime now = system_clock().now();
  return make_authority({hosts, now - std::chrono::minutes(5), now + std::chrono::hours(1)})
      .value();
}

CertifiedKey copy_of(const CertifiedKey& certified) {
  return {certified.certificate, SecretText(std::string(certified.key.view()))};
}

TlsUpstream::TlsUpstream(const CertifiedKey& certificate, Serve serve, const std::string& address)
    : serve_(std::move(serve)), context_(SSL_CTX_new(TLS_server_method())) {
  const CertificatePtr read = read_certificate(certificate.certificate);
  const KeyPtr key = read_key(certificate.key.view());
  REQUIRE(SSL_CTX_use_certificate(context_.get(), read.get()) == 1);
  REQUIRE(SSL_CTX_use_PrivateKey(context_.get(), key.get()) == 1);
  listener_ = io::listen_tcp(address, 0).value();
  REQUIRE(io::set_nonblocking(listener_.get(), false));
  port_ = io::local_port(listener_.get()).value();
  accepter_ = std::thread([this] { accept_all(); });
}

TlsUpstream::~TlsUpstream() {
  over_ = true;
  ::shutdown(listener_.get(), SHUT_RDWR);
  accepter_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int fd : open_) {
      ::shutdown(fd, SHUT_RDWR);
    }
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void TlsUpstream::accept_all() {
  while (!over_) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) {
      return;
    }
    ++connections_;
    limit_waits(fd);
    const std::lock_guard lock(mutex_);
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void TlsUpstream::serve(int fd) {
  const SslPtr ssl(SSL_new(context_.get()));
  SSL_set_fd(ssl.get(), fd);
  if (SSL_accept(ssl.get()) == 1) {
    const char* name = SSL_get_servername(ssl.get(), TLSEXT_NAMETYPE_host_name);
    {
      const std::lock_guard lock(mutex_);
      server_name_ = name != nullptr ? name : "";
    }
    std::string received;
    std::array<char, 16384> buffer{};
    bool echoes = false;
    for (int got = 0; (got = SSL_read(ssl.get(), buffer.data(), buffer.size())) > 0;) {
      bytes_ += static_cast<std::size_t>(got);
      received.append(buffer.data(), static_cast<std::size_t>(got));
      const Answer answer = echoes ? Answer{received} : serve_(received);
      if (answer.bytes.empty()) {
        continue;
      }
      received.clear();
      echoes = echoes || answer.websocket;
      SSL_write(ssl.get(), answer.bytes.data(), static_cast<int>(answer.bytes.size()));
      if (answer.close) {
        SSL_shutdown(ssl.get());
      }
      if (answer.close || answer.cut) {
        break;
      }
    }
  }
  const std::lock_guard lock(mutex_);
  std::erase(open_, fd);
  ::close(fd);
}

std::string TlsUpstream::last_server_name() const {
  const std::lock_guard lock(mutex_);
  return server_name_;
}

TlsUpstream::Answer tls_mirror(const std::string& received) {
  return {.bytes = mirror_head(received).bytes};
}

TlsClient::TlsClient(const World& world, const std::string& target) {
  fd_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  limit_waits(fd_.get());
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(world.proxy_port());
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0);
  const std::string request = "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n";
  REQUIRE(::send(fd_.get(), request.data(), request.size(), 0) > 0);
  char byte = 0;
  while (connect_answer_.find("\r\n\r\n") == std::string::npos &&
         ::recv(fd_.get(), &byte, 1, 0) == 1) {
    connect_answer_ += byte;
  }
}

TlsClient::~TlsClient() = default;

std::string TlsClient::shake(const TlsClientOptions& options) {
  context_.reset(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  if (options.max_version != 0) {
    SSL_CTX_set_max_proto_version(context_.get(), options.max_version);
  }
  if (const CertificatePtr root = read_certificate(options.trusted)) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), root.get());
  }
  ssl_.reset(SSL_new(context_.get()));
  SSL_set_fd(ssl_.get(), fd_.get());
  // As careful readers of certificates do (Python 3.13 by default).
  X509_VERIFY_PARAM_set_flags(SSL_get0_param(ssl_.get()), X509_V_FLAG_X509_STRICT);
  if (!options.server_name.empty()) {
    SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
             const_cast<char*>(options.server_name.c_str()));
    SSL_set1_host(ssl_.get(), options.server_name.c_str());
  }
  if (!options.protocols.empty()) {
    SSL_set_alpn_protos(ssl_.get(),
                        reinterpret_cast<const unsigned char*>(options.protocols.data()),
                        static_cast<unsigned>(options.protocols.size()));
  }
  ERR_clear_error();
  if (SSL_connect(ssl_.get()) == 1) {
    return {};
  }
  const long verified = SSL_get_verify_result(ssl_.get());
  return verified != X509_V_OK ? X509_verify_cert_error_string(verified) : words_of_error();
}

void TlsClient::send(std::string_view plain) {
  SSL_write(ssl_.get(), plain.data(), static_cast<int>(plain.size()));
}

bool TlsClient::read_some() {
  std::array<char, 16384> buffer{};
  ERR_clear_error();
  const int got = SSL_read(ssl_.get(), buffer.data(), buffer.size());
  if (got > 0) {
    buffer_.append(buffer.data(), static_cast<std::size_t>(got));
    return true;
  }
  in_order_ = SSL_get_error(ssl_.get(), got) == SSL_ERROR_ZERO_RETURN;
  return false;
}

std::string TlsClient::read_until(std::string_view text) {
  while (buffer_.find(text) == std::string::npos && read_some()) {
  }
  const auto at = buffer_.find(text);
  const std::size_t end = at == std::string::npos ? buffer_.size() : at + text.size();
  std::string out = buffer_.substr(0, end);
  buffer_.erase(0, end);
  return out;
}

std::string TlsClient::read_answer() {
  std::string out = read_until("\r\n\r\n");
  constexpr std::string_view kLength = "content-length: ";
  const auto at = ascii_lower(out).find(kLength);
  const std::size_t length =
      at == std::string::npos ? 0 : std::stoul(out.substr(at + kLength.size()));
  while (buffer_.size() < length && read_some()) {
  }
  out += buffer_.substr(0, length);
  buffer_.erase(0, std::min(length, buffer_.size()));
  return out;
}

std::string TlsClient::read_all() {
  while (read_some()) {
  }
  return std::exchange(buffer_, {});
}

std::string TlsClient::protocol() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

bool TlsClient::renegotiates() {
  ERR_clear_error();
  return SSL_renegotiate(ssl_.get()) == 1 && SSL_do_handshake(ssl_.get()) == 1;
}

}  // namespace sandboxkit::egress::test
