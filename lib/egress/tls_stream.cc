#include "egress/tls_stream.h"

#include <array>
#include <utility>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

namespace sandboxkit::egress {
namespace {

constexpr std::size_t kRecordBytes = 16 * 1024;

}  // namespace

std::shared_ptr<TlsStream> TlsStream::start(std::shared_ptr<io::Socket> socket, TlsSession session,
                                            std::string early, Handlers handlers) {
  std::shared_ptr<TlsStream> stream(
      new TlsStream(std::move(socket), std::move(session), std::move(handlers)));
  stream->watch();
  if (!early.empty()) {
    BIO_write(SSL_get_rbio(stream->session_.ssl()), early.data(), static_cast<int>(early.size()));
  }
  stream->pump_soon();  // A client speaks first; a server may have its first message already.
  return stream;
}

void TlsStream::watch() {
  const std::weak_ptr<TlsStream> weak = weak_from_this();
  socket_->start({
      .on_data =
          [weak](std::string_view bytes) {
            if (const auto alive = weak.lock()) {
              alive->take(bytes);
            }
          },
      .on_end =
          [weak] {
            if (const auto alive = weak.lock()) {
              alive->eof_ = true;
              alive->pump();
            }
          },
      .on_drain =
          [weak] {
            if (const auto alive = weak.lock()) {
              alive->on_drained();
            }
          },
      .on_close =
          [weak](const Error& error) {
            if (const auto alive = weak.lock()) {
              alive->fail(
                  error.reason == "connection_closed" ? "connection_closed" : "tls_truncated",
                  error.message);
            }
          },
  });
}

void TlsStream::take(std::string_view cipher) {
  if (over_) {
    return;
  }
  BIO_write(SSL_get_rbio(session_.ssl()), cipher.data(), static_cast<int>(cipher.size()));
  pump();
}

void TlsStream::pump() {
  if (pumping_ || over_) {
    return;
  }
  const auto hold = shared_from_this();
  pumping_ = true;
  if (open_ || finish_handshake()) {
    while (!over_ && !paused_ && !ended_ && read_once()) {
    }
  }
  pumping_ = false;
  if (over_) {
    return;
  }
  send_out();
  const bool starved = BIO_pending(SSL_get_rbio(session_.ssl())) == 0;
  if (eof_ && !ended_ && (starved || !paused_)) {
    fail("tls_truncated", "the connection ended in the middle of TLS");
  }
}

bool TlsStream::finish_handshake() {
  ERR_clear_error();
  const int done = SSL_do_handshake(session_.ssl());
  if (done != 1) {
    if (SSL_get_error(session_.ssl(), done) != SSL_ERROR_WANT_READ) {
      fail_tls();
    }
    return false;
  }
  open_ = true;
  send_out();
  if (handlers_.on_open) {
    handlers_.on_open();
  }
  return true;
}

bool TlsStream::read_once() {
  std::array<char, kRecordBytes> plain;
  std::size_t got = 0;
  ERR_clear_error();
  const int done = SSL_read_ex(session_.ssl(), plain.data(), plain.size(), &got);
  if (done == 1) {
    if (handlers_.on_data) {
      handlers_.on_data({plain.data(), got});
    }
    return true;
  }
  switch (SSL_get_error(session_.ssl(), done)) {
    case SSL_ERROR_WANT_READ:
      break;
    case SSL_ERROR_ZERO_RETURN:
      ended_ = true;
      if (handlers_.on_end) {
        handlers_.on_end();
      }
      break;
    default:
      fail_tls();
  }
  return false;
}

void TlsStream::send_out() {
  BIO* out = SSL_get_wbio(session_.ssl());
  std::array<char, kRecordBytes> cipher;
  for (int got = 0; (got = BIO_read(out, cipher.data(), static_cast<int>(cipher.size()))) > 0;) {
    socket_->write(std::string_view(cipher.data(), static_cast<std::size_t>(got)));
  }
  if (socket_->is_full() && !congested_) {
    congested_ = true;
    socket_->pause_reading();
  }
}

void TlsStream::on_drained() {
  if (congested_) {
    congested_ = false;
    if (!paused_) {
      socket_->resume_reading();
    }
  }
  if (!over_ && handlers_.on_drain) {
    const auto hold = shared_from_this();
    handlers_.on_drain();
  }
}

void TlsStream::pump_soon() {
  socket_->loop().post([weak = weak_from_this()] {
    if (const auto alive = weak.lock()) {
      alive->pump();
    }
  });
}

void TlsStream::write(std::string_view plain) {
  if (over_ || !open_ || said_end_ || plain.empty()) {
    return;
  }
  std::size_t written = 0;
  ERR_clear_error();
  // The BIO behind it takes all, so this takes all.
  if (SSL_write_ex(session_.ssl(), plain.data(), plain.size(), &written) != 1) {
    socket_->close();  // Broken by what was read: the reader hears of it.
    return pump_soon();
  }
  send_out();
}

void TlsStream::shutdown_write() {
  if (over_ || !open_ || std::exchange(said_end_, true)) {
    return;
  }
  SSL_shutdown(session_.ssl());
  send_out();
  socket_->shutdown_write();
}

void TlsStream::close() {
  over_ = true;
  socket_->close();
}

void TlsStream::close_after_flush() {
  if (over_) {
    return;
  }
  shutdown_write();
  over_ = true;
  socket_->close_after_flush();
}

void TlsStream::pause_reading() {
  paused_ = true;
  socket_->pause_reading();
}

void TlsStream::resume_reading() {
  if (!std::exchange(paused_, false) || over_) {
    return;
  }
  if (!congested_) {
    socket_->resume_reading();
  }
  pump_soon();  // What was read before the pause waits here.
}

void TlsStream::fail(const char* reason, std::string message) {
  if (std::exchange(over_, true)) {
    return;
  }
  const auto hold = shared_from_this();
  send_out();  // The alert, if there is one.
  socket_->close_after_flush();
  if (handlers_.on_close) {
    handlers_.on_close(Error{ErrorCode::kUnavailable, std::move(message), reason});
  }
}

void TlsStream::fail_tls() {
  SSL* ssl = session_.ssl();
  const long verified = SSL_get_verify_result(ssl);
  if (session_.expected().name_refused) {
    return fail("sni_mismatch", "the client named another server in its first message, or none");
  }
  if (verified != X509_V_OK) {
    return fail("certificate_refused", X509_verify_cert_error_string(verified));
  }
  const char* words = ERR_reason_error_string(ERR_peek_error());
  fail("tls_failed", words != nullptr ? words : "the peer does not speak TLS as it should");
}

}  // namespace sandboxkit::egress
