#pragma once

#include "sandboxkit/egress.h"
#include "sandboxkit/result.h"

#include "io/fd.h"

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

namespace sandboxkit::box {

struct ProxyOrder {
  std::string program;  ///< sandboxkit-egress.
  std::string folder;   ///< Its own and empty; absolute. It gets `policy.json` and the log.
  EgressPolicy policy;
  std::vector<std::string> hosts;  ///< `NAME=ADDRESS` that somebody states; not resolved.
  std::uint16_t port;              ///< Where the listener listens, for its words.
};

/// A connection that was refused.
struct RefusedTarget {
  std::string target;  ///< `host:port`.
  std::string reason;
  std::uint64_t count;
};

/// The way out of one box: a process of our own proxy that serves the box's listening socket and
/// has no file. It ends with this object, and with the process that holds it.
class Proxy {
 public:
  /// `listener` is the box's. Errors: kUnavailable when it cannot be started.
  static Result<Proxy> start(const ProxyOrder& order, io::Fd listener);
  Proxy(Proxy&&) noexcept = default;
  Proxy& operator=(Proxy&&) noexcept = default;
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;
  ~Proxy() { stop(); }

  /// Ends it; what it wrote is whole then.
  void stop();
  /// What its log says it refused, after `stop`; the most frequent first.
  std::vector<RefusedTarget> refused() const;

 private:
  Proxy(std::string folder, io::Fd control, io::Fd pidfd)
      : folder_(std::move(folder)), control_(std::move(control)), pidfd_(std::move(pidfd)) {}
  std::string folder_;
  io::Fd control_;
  io::Fd pidfd_;
};

}  // namespace sandboxkit::box
