#pragma once

#include "sandboxkit/result.h"

#include "io/event_loop.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sandboxkit::egress {

/// The answer REFUSED to a well-formed DNS query, its question repeated; nullopt for anything else,
/// which gets no answer at all. Pure.
std::optional<std::string> refuse_query(std::string_view query);

/// The only name server that a walled sandbox has: it refuses at once, so that a program that asks
/// DNS by itself fails in a millisecond and not after its time-outs, and nothing leaks.
/// Thread-safety: the loop's thread.
class DnsRefuser {
 public:
  static Result<std::unique_ptr<DnsRefuser>> start(io::EventLoop& loop, const std::string& address,
                                                   std::uint16_t port);
  virtual ~DnsRefuser() = default;
  virtual std::uint16_t port() const = 0;
  virtual std::uint64_t refused() const = 0;
};

}  // namespace sandboxkit::egress
