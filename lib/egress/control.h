#pragma once

#include "egress/proxy.h"
#include "io/event_loop.h"
#include "io/fd.h"
#include "io/guest_link.h"

#include <memory>
#include <string>

namespace sandboxkit::egress {

/// Answers the host's questions about a proxy: `GET /health` (204, the policy's hash in
/// `X-Sandboxkit-Policy-Hash`), `GET /denied`, `GET /stats`; takes secrets (`PUT /secrets`) for the
/// destinations that the policy file names; and narrows its policy on `POST /narrow` (204; 409
/// `policy_widens`). Over the host's own unix socket, which no sandbox reaches; there is nothing
/// here that opens anything.
/// Thread-safety: the loop's thread. Ownership: borrows the loop and the proxy.
class Control {
 public:
  Control(io::EventLoop& loop, Proxy& proxy, std::string policy_hash,
          const std::string& socket_path);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

 private:
  std::shared_ptr<io::GuestDialer> dialer_;
};

/// Serves one connection of the host.
void serve_control(io::EventLoop& loop, io::Fd connection, Proxy& proxy,
                   const std::string& policy_hash);

}  // namespace sandboxkit::egress
