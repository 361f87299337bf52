#pragma once

#include "sandboxkit/egress.h"

#include <chrono>
#include <vector>

namespace sandboxkit::egress {

/// The addresses that reach this very machine (or network namespace): those of its interfaces, and
/// all of loopback. No network of a policy lifts them.
/// Thread-safety: one thread at a time.
class LocalAddresses {
 public:
  /// Asks the kernel again when the last answer is older than a second.
  bool contains(const IpAddress& address);

 private:
  void refresh();
  std::vector<IpAddress> addresses_;
  bool known_ = false;
  std::chrono::steady_clock::time_point asked_{};
};

}  // namespace sandboxkit::egress
