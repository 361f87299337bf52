#pragma once

#include "sandboxkit/events.h"

#include "base/random.h"
#include "io/event_loop.h"
#include "net/tunnel.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace sandboxkit::work {

/// Keeps a tunnel to the controller: dials, serves what comes, dials again when it falls. Waits
/// between tries with full jitter, so that a fleet does not come back in one wave.
/// Thread-safety: the loop's thread.
class Uplink {
 public:
  static constexpr std::chrono::milliseconds kFirstWait{200};
  static constexpr std::chrono::milliseconds kLongestWait{15'000};

  using RequestHandler = std::function<void(std::shared_ptr<net::TunnelExchange>)>;

  /// `dial` says where and with which credential, each time anew.
  Uplink(io::EventLoop& loop, std::function<net::TunnelDial()> dial, Random& random,
         EventSink& events, RequestHandler on_request, std::function<void()> on_up);

  void start();
  /// Closes the tunnel and does not dial again.
  void stop();
  bool is_up() const { return tunnel_ != nullptr; }

  /// How long to wait before try number `attempt` (from 0), of which `random` picks a share.
  static std::chrono::milliseconds longest_wait(unsigned attempt);

 private:
  void dial();
  void connected(std::shared_ptr<io::Socket> socket, const std::string& early);
  void lost(const Error& error);
  void try_later();

  io::EventLoop& loop_;
  const std::function<net::TunnelDial()> dial_;
  Random& random_;
  EventSink& events_;
  const RequestHandler on_request_;
  const std::function<void()> on_up_;
  std::shared_ptr<net::TunnelServer> tunnel_;
  std::chrono::steady_clock::time_point up_since_{};
  unsigned attempt_ = 0;
  std::string last_problem_;
  io::EventLoop::TimerId timer_ = 0;
  bool stopped_ = false;
};

}  // namespace sandboxkit::work
