#pragma once

#include "base/metrics.h"
#include "work/health.h"
#include "work/heartbeat.h"
#include "work/orders.h"
#include "work/uplink.h"

#include <string>

namespace sandboxkit::work {

/// Answers the monitors of a worker from what its parts know. Thread-safety: the loop's thread.
class Report {
 public:
  struct Parts {
    const Orders& orders;
    const Health& health;
    const Heartbeat& heartbeat;
    const Uplink& uplink;
  };

  explicit Report(Parts parts) : parts_(parts) {}

  std::string metrics() const;
  /// Empty: the driver is well and the tunnel stands. Else what lacks.
  std::string lack() const;

 private:
  Parts parts_;
};

}  // namespace sandboxkit::work
