#pragma once

#include "sandboxkit/driver.h"

#include "io/event_loop.h"
#include "io/fd.h"
#include "net/tunnel.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sandboxkit::work {

/// Passes streams of the tunnel to the guests: an HTTP/2 stream becomes one HTTP/1.1 request over a
/// connection of the driver, streamed both ways with back-pressure.
///
/// Keeps a few idle connections for each sandbox. One that turns out dead before any byte of the
/// answer is replaced once by a fresh one, when nothing of a request's body was sent.
/// Thread-safety: the loop's thread.
class GuestProxy {
 public:
  static constexpr std::size_t kMaxStreams = 256;  ///< Of one sandbox.
  static constexpr std::size_t kMaxIdle = 8;       ///< Of one sandbox.
  /// Shorter than a guest's own idle time, so that the guest is not the one who closes.
  static constexpr std::chrono::seconds kMaxIdleTime{30};

  GuestProxy(io::EventLoop& loop, Driver& driver) : loop_(loop), driver_(driver) {}

  /// `target` is what the guest sees: `/path?query`.
  void forward(std::shared_ptr<net::TunnelExchange> exchange, const SandboxId& sandbox,
               std::string target);
  /// A byte pipe to 127.0.0.1:port inside of the sandbox.
  void open_tcp(std::shared_ptr<net::TunnelExchange> exchange, const SandboxId& sandbox,
                std::uint16_t port);
  /// The sandbox is over: its idle connections are closed. Streams end with the guest.
  void forget(const std::string& sandbox) { idle_.erase(sandbox); }
  std::size_t streams(const std::string& sandbox) const;

  // For the streams.
  struct Connection {
    io::Fd fd;
    bool reused = false;
  };
  Result<Connection> connect(const SandboxId& sandbox, bool fresh);
  void give_back(const std::string& sandbox, io::Fd connection);
  void stream_over(const std::string& sandbox);
  io::EventLoop& loop() { return loop_; }

 private:
  struct Idle {
    io::Fd fd;
    std::chrono::steady_clock::time_point since;
  };
  /// Counts a stream, or answers 503 when there are too many.
  bool admit(net::TunnelExchange& exchange, const std::string& sandbox);

  io::EventLoop& loop_;
  Driver& driver_;
  std::map<std::string, std::vector<Idle>> idle_;
  std::map<std::string, std::size_t> streams_;
};

/// Answers an exchange of the tunnel with JSON.
void respond_json(net::TunnelExchange& exchange, int status, const std::string& json);
void respond_error(net::TunnelExchange& exchange, const Error& error);

}  // namespace sandboxkit::work
