#pragma once

#include "docker/helper_link.h"
#include "io/fd.h"

#include <cstdint>
#include <memory>
#include <string>

#include <sys/types.h>

namespace sandboxkit::docker {

/// Whether a descriptor that came out of a sandbox is what a guest should pass: an IPv4 TCP socket
/// that listens on that loopback address and port. Errors: kConflict, with what is wrong.
Status check_proxy_listener(int fd, const std::string& address, std::uint16_t port);

/// The proxy of one sandbox as a process of this host (sandboxkit-egress --listener-fd): started
/// when the guest passed its listening socket, started again when it ended, ended with `close` or
/// with this process. While it is away the sandbox's connects wait in the socket's backlog.
///
/// It is born with three descriptors besides 0 and 1: standard error (a pipe that is read when it
/// ended), the listening socket, and its end of the control pair. Its environment is empty.
/// Thread-safety: any thread, but `take_listener` the hub's own.
class ProxyProcess : public HelperLink {
 public:
  /// A proxy that ended so often is given up: everything stays denied.
  static constexpr int kMaxStarts = 100;

  /// Nothing is started yet. `folder` holds its `policy.json`.
  static std::shared_ptr<ProxyProcess> make(LinkHub& hub, std::string program, std::string folder);

  /// Takes the guest's socket; false when it is none that a guest should pass. The first one stays:
  /// a guest that dials again passes the same.
  virtual bool take_listener(io::Fd listener) = 0;
  /// Why it does not serve, as far as known; empty while it serves or nothing went wrong.
  virtual std::string problem() const = 0;
  /// Ended too often, or the guest passed a wrong socket: it does not come back.
  virtual bool given_up() const = 0;
  /// 0 while there is no process.
  virtual pid_t pid() const = 0;
};

}  // namespace sandboxkit::docker
