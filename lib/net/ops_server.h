#pragma once

#include "sandboxkit/result.h"

#include "io/event_loop.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace sandboxkit::net {

/// `/healthz`, `/readyz` and `/metrics` on a port of their own, without credentials: for the
/// machine's own monitoring, so it belongs on a loopback address.
///
/// Thread-safety: the loop's thread; `port` any thread. Lifetime: ends before its loop.
class OpsServer {
 public:
  static constexpr std::size_t kMaxConnections = 32;
  /// What is not answered by then is 503.
  static constexpr std::chrono::milliseconds kPatience{2'000};

  /// Takes a text once, from any thread; later ones are dropped.
  using Done = std::function<void(std::string text)>;
  struct Questions {
    std::function<void(Done)> metrics;
    /// Empty text: ready. Else why not.
    std::function<void(Done)> ready;
  };

  /// Errors: as `io::listen_tcp`.
  static Result<std::unique_ptr<OpsServer>> listen(io::EventLoop& loop, const std::string& address,
                                                   std::uint16_t port, Questions questions);
  ~OpsServer();
  /// Whether only this machine reaches the address.
  static bool is_loopback(const std::string& address);
  std::uint16_t port() const;

 private:
  struct Impl;
  explicit OpsServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // Shared with answers that are under way in other threads.
};

}  // namespace sandboxkit::net
