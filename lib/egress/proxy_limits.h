#pragma once

#include "io/event_loop.h"

#include <cstddef>
#include <cstdint>

namespace sandboxkit::egress {

/// Limits of one proxy, which serves one sandbox. The counts can be set in `policy.json` under the
/// names that they have here; tests make the times short.
struct Limits {
  using Ms = io::EventLoop::Duration;
  std::size_t max_connections = 512;  ///< Accepted connections; one more is answered 429.
  std::size_t max_upstreams = 256;    ///< Connections that hold or dial an upstream; then 429.
  /// Names that are looked up; then 429. Under a `*.` entry a name may carry data to the servers of
  /// that domain: this bounds how fast.
  std::size_t max_lookups_per_minute = 1200;
  /// Bytes up and down, of tunnels and bodies, in the proxy's life; 0 is no limit. At the limit
  /// what runs is cut off and every request is answered 429 `byte_limit`.
  std::uint64_t max_bytes = 0;
  Ms head{10'000};   ///< From a head's first byte to its last.
  Ms hello{10'000};  ///< Strict TLS: from a tunnel's begin to the judged hello.
  Ms idle{300'000};  ///< Without a byte in either direction.
  Ms lifetime{86'400'000};
  Ms resolve{5'000};
  Ms connect{10'000};  ///< All addresses of a name together, after it is resolved.
  Ms sweep{1'000};     ///< How often the limits above are looked at.
};

}  // namespace sandboxkit::egress
