#pragma once

#include "io/event_loop.h"
#include "io/socket.h"

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <string>

namespace sandboxkit::egress {

/// A connection that served a plain request and can serve another one.
struct ParkedUpstream {
  std::string of;       ///< `host:port` as it was judged.
  std::string address;  ///< What it was dialled at.
  std::shared_ptr<io::Socket> socket;
};

/// Connections to upstreams that wait for another plain request of the same sandbox, whichever of
/// its clients asks: a client that makes a connection for each request does not make the proxy dial
/// for each, and the machine does not run out of ports that are free.
///
/// Bounded in number and time. An upstream that speaks or ends while it waits is let go.
/// Thread-safety: the loop's thread.
class UpstreamPool {
 public:
  using Steady = std::chrono::steady_clock;
  static constexpr std::size_t kMaxParked = 32;
  static constexpr std::chrono::seconds kLongestWait{15};

  UpstreamPool() = default;
  UpstreamPool(const UpstreamPool&) = delete;
  UpstreamPool& operator=(const UpstreamPool&) = delete;
  ~UpstreamPool() { clear(); }

  /// Takes a connection over that is quiet: nothing was asked, and nothing is owed. The one that
  /// waits longest makes room for it.
  void park(ParkedUpstream upstream, Steady::time_point now);
  /// The one to `of` that was used last; `socket` is empty when there is none.
  ParkedUpstream take(const std::string& of);
  /// Closes the one that waits longest; false when none waits.
  bool drop_one();
  void sweep(Steady::time_point now);
  void clear();
  std::size_t size() const { return waiting_.size(); }

 private:
  struct Waiting {
    ParkedUpstream upstream;
    Steady::time_point since;
  };
  void forget(const io::Socket* socket);

  std::list<Waiting> waiting_;  // who waits longest comes first
};

}  // namespace sandboxkit::egress
