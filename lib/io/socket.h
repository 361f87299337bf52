#pragma once

#include "io/event_loop.h"
#include "io/fd.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sandboxkit::io {

/// A connected stream socket (or pipe end) in a loop: reads with pauses, writes with a buffer.
///
/// Back-pressure: `write` always takes the bytes; when `queued_bytes()` passes `kHighWater`, stop
/// feeding until `on_drain` is called (below `kLowWater`). A reader that cannot take more calls
/// `pause_reading`.
/// Ends: `on_end` is the peer's half-close (EOF); `on_close` comes once, for an error or after both
/// halves are closed (reason `connection_closed`: an orderly end); after our own `close()` no
/// callback comes. No callback comes from inside of `write` and the other calls.
/// Thread-safety: the loop's thread.
class Socket : public std::enable_shared_from_this<Socket> {
 public:
  static constexpr std::size_t kHighWater = 256 * 1024;
  static constexpr std::size_t kLowWater = 64 * 1024;
  static constexpr std::size_t kReadBytes = 64 * 1024;

  struct Handlers {
    /// The bytes are valid during the call only.
    std::function<void(std::string_view)> on_data{};
    std::function<void()> on_end{};
    std::function<void()> on_drain{};
    std::function<void(const Error&)> on_close{};
    /// The peer sent its EOF or is gone, noticed although reading is paused (what it sent before
    /// can still be read). At most once.
    std::function<void()> on_hangup{};
  };

  /// Takes the descriptor, makes it non-blocking, and starts reading once `start` is called.
  static std::shared_ptr<Socket> adopt(EventLoop& loop, Fd fd);
  ~Socket();

  /// Also takes over a connection that was handed on (an upgrade): reading goes on from here.
  void start(Handlers handlers);
  /// Replaces the handlers; a paused socket stays paused.
  void set_handlers(Handlers handlers);

  void write(std::string_view bytes);
  void write(std::string&& bytes);
  void write(const char* text) { write(std::string_view(text)); }
  /// Sends EOF once the buffer is empty.
  void shutdown_write();
  /// Gives the descriptor up (it stays non-blocking); the socket is closed then. Only when nothing
  /// is queued.
  Fd release();
  /// Takes what is not written yet out of the buffer, for whom the descriptor goes to.
  std::string take_queued();
  /// Closes now; what is buffered is lost. `close_after_flush` writes it out first (at most 10 s),
  /// and needs no owner for that.
  void close();
  void close_after_flush();

  void pause_reading();
  void resume_reading();
  bool reading_paused() const;
  /// Lets `on_drain` and `is_full` go by another mark than `kHighWater`.
  void set_high_water(std::size_t bytes);
  /// Whether more is queued than the mark: stop feeding.
  bool is_full() const;
  std::size_t queued_bytes() const;
  bool is_open() const;
  int fd() const;
  EventLoop& loop() const;

 private:
  struct Impl;
  explicit Socket(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Copies both ways with back-pressure and half-close until both ends are done; then calls
/// `on_done` once. `early_a` was read from `a` already and belongs to `b`.
void pipe_sockets(std::shared_ptr<Socket> a, std::shared_ptr<Socket> b, std::string early_a,
                  std::function<void()> on_done);

/// A listening TCP socket (SO_REUSEADDR, backlog 1024, close-on-exec, non-blocking).
/// Errors: kInvalidArgument for a bad address; kUnavailable when it cannot be bound.
Result<Fd> listen_tcp(const std::string& address, std::uint16_t port);
Result<std::uint16_t> local_port(int fd);
/// A listening unix socket; an old socket file at the path is replaced. Mode as given.
Result<Fd> listen_unix(const std::string& path, unsigned mode, int backlog);
/// Blocking connect to a unix socket.
Result<Fd> connect_unix(const std::string& path);
/// Non-blocking connect to a numeric address; `on_done` gets the connected descriptor or the error,
/// on the loop.
void connect_tcp(EventLoop& loop, const std::string& address, std::uint16_t port,
                 EventLoop::Duration timeout, std::function<void(Result<Fd>)> on_done);

}  // namespace sandboxkit::io
