#pragma once

#include "egress/stream.h"
#include "egress/tls_context.h"
#include "io/socket.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sandboxkit::egress {

/// TLS over a socket in the loop, with the socket's own rules: `write` always takes the bytes, a
/// writer stops at `is_full` (the mark is the socket's) until `on_drain`, a reader may pause. What
/// waits here is bounded: at most one read of the socket is undecoded, and a peer that makes us
/// answer without reading is not read on.
///
/// Ends: `on_end` is the peer's close_notify: an orderly half-close. An end of the connection
/// without it is `on_close` with reason `tls_truncated`, because somebody may have cut it off;
/// other reasons: `sni_mismatch`, `certificate_refused`, `tls_failed`, `connection_closed`. After
/// our own `close` no callback comes, and none comes from inside of a call.
/// Thread-safety: the loop's thread.
class TlsStream final : public Stream, public std::enable_shared_from_this<TlsStream> {
 public:
  struct Handlers {
    std::function<void()> on_open{};  ///< The handshake is done; only now may be written.
    std::function<void(std::string_view)> on_data{};
    std::function<void()> on_end{};
    std::function<void()> on_drain{};
    std::function<void(const Error&)> on_close{};
  };

  /// Takes the socket, which may be started, over. `early` was read from it already.
  static std::shared_ptr<TlsStream> start(std::shared_ptr<io::Socket> socket, TlsSession session,
                                          std::string early, Handlers handlers);

  void write(std::string_view plain) override;
  /// Says close_notify; the other direction goes on.
  void shutdown_write();
  void close();
  void close_after_flush();  ///< Says close_notify and writes out what is queued.
  void pause_reading() override;
  void resume_reading() override;
  bool is_full() const override { return socket_->is_full(); }
  bool is_open() const { return !over_; }

 private:
  TlsStream(std::shared_ptr<io::Socket> socket, TlsSession session, Handlers handlers)
      : socket_(std::move(socket)), session_(std::move(session)), handlers_(std::move(handlers)) {}

  void watch();
  void take(std::string_view cipher);
  /// Decodes what is there, as far as the reader takes it.
  void pump();
  bool finish_handshake();
  bool read_once();
  void send_out();
  void on_drained();
  void pump_soon();
  void fail(const char* reason, std::string message);
  void fail_tls();

  std::shared_ptr<io::Socket> socket_;
  TlsSession session_;
  Handlers handlers_;
  bool open_ = false;
  bool paused_ = false;     // by the reader
  bool congested_ = false;  // our own answers wait: nothing is read until they are gone
  bool eof_ = false;        // of the socket
  bool ended_ = false;      // close_notify came
  bool said_end_ = false;
  bool pumping_ = false;
  bool over_ = false;
};

}  // namespace sandboxkit::egress
