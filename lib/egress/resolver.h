#pragma once

#include "sandboxkit/egress.h"

#include "io/event_loop.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sandboxkit::egress {

/// Asks DNS for the addresses of a name, without blocking the loop: the name as it stands (no
/// search list, no hosts file), A and then, where there is none, AAAA; so one dial is mostly one
/// query. Thread-safety: the loop's thread.
class Resolver {
 public:
  static constexpr std::size_t kMaxAnswers = 64;
  static constexpr std::size_t kMaxPending = 512;

  using Addresses = std::vector<IpAddress>;
  using Callback = std::function<void(Result<Addresses>)>;

  /// `servers`: numeric, `address[:port]`; empty means /etc/resolv.conf. `timeout` is for one call,
  /// both of its queries and all tries together.
  /// Errors: kUnavailable when the resolver cannot be set up.
  static Result<std::unique_ptr<Resolver>> create(io::EventLoop& loop,
                                                  const std::vector<std::string>& servers,
                                                  io::EventLoop::Duration timeout);
  virtual ~Resolver() = default;

  /// Calls back once, from the loop, at most `timeout` later. Errors: kNotFound (no such name, or
  /// no address), kDeadlineExceeded, kUnavailable (the servers failed), kResourceExhausted.
  virtual void resolve(const std::string& name, Callback callback) = 0;
};

}  // namespace sandboxkit::egress
