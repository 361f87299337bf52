#pragma once

#include "io/event_loop.h"
#include "io/socket.h"
#include "wire/http.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sandboxkit::net {

/// Token of the `Upgrade` field with which a worker opens its tunnel.
inline constexpr const char* kTunnelProtocol = "sandboxkit-tunnel/1";

/// Limits and windows of one tunnel. Source: design of the control plane, 1.5 and 5.6.
struct TunnelLimits {
  std::int32_t stream_window_bytes = 256 * 1024;
  std::int32_t connection_window_bytes = 16 * 1024 * 1024;
  std::uint32_t max_streams = 10'000;
  std::uint32_t max_frame_bytes = 64 * 1024;
  std::size_t max_header_bytes = 32 * 1024;
  std::chrono::milliseconds ping_interval{10'000};
  /// No frame for this long (a PING's answer counts) ends the tunnel.
  std::chrono::milliseconds dead_after{30'000};
  /// A stream without an answer's head after this long is reset; 0: none.
  std::chrono::milliseconds open_timeout{0};
};

struct TunnelRequest {
  std::string method = "GET";
  std::string path;
  wire::Headers headers{};  ///< Connection-level fields are left out by the tunnel itself.
  bool has_body = false;
};

/// The controller's end of one stream.
class TunnelStream {
 public:
  virtual ~TunnelStream() = default;
  virtual void write(std::string_view bytes) = 0;
  virtual void end_body() = 0;
  virtual std::size_t queued_bytes() const = 0;
  /// Stops giving credit: at most one stream window of the answer is then in flight.
  virtual void pause() = 0;
  virtual void resume() = 0;
  /// Ends the stream; no callback comes any more.
  virtual void reset() = 0;
};

/// No callback comes from inside of a call on the stream. While paused none of `on_data` and
/// `on_end` comes.
struct TunnelHandlers {
  std::function<void(int status, const wire::Headers&)> on_head{};
  std::function<void(std::string_view)> on_data{};
  std::function<void()> on_end{};
  /// Before the end: reset by the worker, or the tunnel is gone. Instead of on_end.
  std::function<void(const Error&)> on_error{};
  std::function<void()> on_drain{};
};

/// The controller's end of a tunnel: an HTTP/2 client over a connection that the worker dialled.
/// `on_closed` comes once at its end, also after `close` (kCancelled `tunnel_closed`), when all
/// streams were told. Letting go of it ends it at once: streams are told, `on_closed` is not
/// called. Thread-safety: the loop's thread.
class TunnelClient {
 public:
  static std::shared_ptr<TunnelClient> start(io::EventLoop& loop,
                                             std::shared_ptr<io::Socket> socket,
                                             const std::string& early, const TunnelLimits& limits,
                                             std::function<void(const Error&)> on_closed);
  virtual ~TunnelClient() = default;
  /// Errors: kUnavailable `tunnel_gone`, kResourceExhausted `tunnel_streams` at the cap.
  virtual Result<std::shared_ptr<TunnelStream>> open(const TunnelRequest& request,
                                                     TunnelHandlers handlers) = 0;
  virtual std::size_t open_streams() const = 0;
  virtual bool is_open() const = 0;
  /// GOAWAY, then closes when the open streams are done or after `grace`.
  virtual void close(std::chrono::milliseconds grace) = 0;
};

/// The worker's end of one stream. As with an HTTP exchange, the first answer counts, a call that
/// comes too late does nothing, and `collect_body` answers 413 by itself. A complete answer ends
/// the whole stream: the rest of a request's body is not waited for.
class TunnelExchange {
 public:
  virtual ~TunnelExchange() = default;
  virtual const TunnelRequest& request() const = 0;
  virtual void read_body(std::function<void(std::string_view)> on_data,
                         std::function<void()> on_end) = 0;
  virtual void collect_body(std::size_t max_bytes, std::function<void(std::string)> on_body) = 0;
  virtual void pause_body() = 0;
  virtual void resume_body() = 0;
  virtual void begin(int status, const wire::Headers& headers) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void end() = 0;
  virtual void respond(int status, const wire::Headers& headers, std::string_view body) = 0;
  virtual std::size_t queued_bytes() const = 0;
  virtual void on_drain(std::function<void()> handler) = 0;
  /// Cuts the stream: the other side sees an error, not an end.
  virtual void reset() = 0;
  /// Once, when the stream is over before our end, or before the end of a body that is being read:
  /// the controller reset it, the tunnel is gone, or our own answer ended it.
  virtual void on_gone(std::function<void()> handler) = 0;
};

/// The worker's end of a tunnel: an HTTP/2 server over the connection that it dialled itself. The
/// library's reset-rate limiter is off: cancels of the controller are normal work, not an attack.
class TunnelServer {
 public:
  static std::shared_ptr<TunnelServer> start(
      io::EventLoop& loop, std::shared_ptr<io::Socket> socket, const std::string& early,
      const TunnelLimits& limits, std::function<void(std::shared_ptr<TunnelExchange>)> on_request,
      std::function<void(const Error&)> on_closed);
  virtual ~TunnelServer() = default;
  virtual bool is_open() const = 0;
  virtual void close(std::chrono::milliseconds grace) = 0;
};

struct TunnelDial {
  std::string url;         ///< `http://host:port` of the controller.
  std::string credential;  ///< `wk_...`
  std::chrono::milliseconds timeout{10'000};
};

/// Dials `GET /v1/worker/tunnel` with the upgrade; gives the raw connection and what came after the
/// 101. Errors: kUnavailable; kUnauthenticated / kPermissionDenied with the controller's reason.
void dial_tunnel(
    io::EventLoop& loop, const TunnelDial& dial,
    std::function<void(Result<std::shared_ptr<io::Socket>>, std::string early)> on_done);

}  // namespace sandboxkit::net
