#pragma once

#include "sandboxkit/egress.h"

#include "policy/egress_address.h"

#include <chrono>
#include <utility>
#include <vector>

namespace sandboxkit::egress {

/// The addresses that reach this very machine (or network namespace): those of its interfaces, and
/// all of loopback. No network of a policy lifts them.
/// Thread-safety: one thread at a time.
class LocalAddresses {
 public:
  /// `also`: networks of the machine around this one (its host, its containers) that count as its
  /// own.
  explicit LocalAddresses(std::vector<policy::AddressBlock> also = {}) : also_(std::move(also)) {}

  /// Asks the kernel again when the last answer is older than a second.
  bool contains(const IpAddress& address);

 private:
  void refresh();
  const std::vector<policy::AddressBlock> also_;
  std::vector<IpAddress> addresses_;
  bool known_ = false;
  std::chrono::steady_clock::time_point asked_{};
};

}  // namespace sandboxkit::egress
