#pragma once

#include "io/socket.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sandboxkit::egress {

/// Copies bytes both ways until both ends are done, with back-pressure and half-close kept: an EOF
/// of one end is passed on and the other direction goes on. An end that breaks closes the other.
/// Thread-safety: the loop's thread.
class Tunnel : public std::enable_shared_from_this<Tunnel> {
 public:
  struct Ends {
    std::shared_ptr<io::Socket> client;
    std::shared_ptr<io::Socket> upstream;
    bool client_ended = false;   ///< The client's EOF was read before the tunnel stood.
    std::string early_up{};      ///< Read from the client already.
    std::string early_down{};    ///< Read from the upstream already.
    std::uint64_t bytes_up = 0;  ///< Passed on before the tunnel stood.
    std::uint64_t bytes_down = 0;
    /// Is shown the first bytes that the client sends, once, before they are passed on.
    std::function<void(std::string_view)> on_first_up{};
  };

  /// The sockets may be started already; the tunnel takes their handlers over. `on_done` comes
  /// once, from the loop, unless `close` was called.
  static std::shared_ptr<Tunnel> start(Ends ends, std::function<void()> on_done);

  void close();

  std::uint64_t bytes_up() const { return up_; }
  std::uint64_t bytes_down() const { return down_; }
  std::chrono::steady_clock::time_point last_activity() const { return last_activity_; }

 private:
  explicit Tunnel(Ends ends, std::function<void()> on_done)
      : ends_(std::move(ends)), on_done_(std::move(on_done)) {}
  void wire_up(const std::shared_ptr<io::Socket>& from, const std::shared_ptr<io::Socket>& to,
               std::uint64_t& counter);
  void on_closed(const std::shared_ptr<io::Socket>& other, const Error& error);
  void show_first_up(std::string_view bytes);
  void finish();

  Ends ends_;
  std::function<void()> on_done_;
  std::uint64_t up_ = 0;
  std::uint64_t down_ = 0;
  std::chrono::steady_clock::time_point last_activity_ = std::chrono::steady_clock::now();
};

}  // namespace sandboxkit::egress
