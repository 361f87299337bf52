#pragma once

#include "egress/config.h"
#include "egress/engine.h"
#include "io/fd.h"
#include "json/value.h"

#include <cstdint>
#include <functional>
#include <memory>

namespace sandboxkit::egress {

/// What a proxy is made of besides its configuration.
struct ProxyParts {
  io::EventLoop& loop;
  /// Decisions, one JSON line each, go to this descriptor.
  int log_fd;
  Clock& clock;
  /// Whether an address is this machine's own (LocalAddresses in the sidecar).
  std::function<bool(const IpAddress&)> is_local;
  Limits limits{};
  /// A socket that listens already is used in place of `Config::listen`.
  io::Fd listener{};
  /// A second file for the log, which the two then take turns in (LineLog); -1: none.
  int spare_log_fd = -1;
};

/// The HTTP/1.1 proxy of one sandbox: CONNECT and absolute URIs, each request judged by the policy
/// before any name is resolved, each address judged before it is dialled.
/// Thread-safety: the loop's thread. Ownership: borrows the loop and the clock.
class Proxy {
 public:
  /// Listens at once. Errors: kUnavailable when an address cannot be bound.
  static Result<std::unique_ptr<Proxy>> start(const Config& config, ProxyParts parts);
  virtual ~Proxy() = default;

  virtual std::uint16_t port() const = 0;
  virtual std::uint16_t dns_port() const = 0;  ///< 0 without `dns_listen`.
  virtual json::Value denied() const = 0;
  virtual json::Value stats() const = 0;
  /// As SecretBook::put: takes secrets in place of all that it has.
  virtual Status lend(SecretOrder order) = 0;
  /// Puts a policy in the place of the one in force, which it must narrow. What is open to a target
  /// that it does not allow is closed before this returns. Errors: kConflict `policy_widens`.
  virtual Status narrow(const NarrowedPolicy& narrowed) = 0;
  /// The hash of the last narrowing; empty: none since the start.
  virtual const std::string& narrowed_to() const = 0;
};

}  // namespace sandboxkit::egress
