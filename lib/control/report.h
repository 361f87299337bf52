#pragma once

#include "control/gateway.h"
#include "control/services.h"
#include "net/ops_server.h"

#include <string>

namespace sandboxkit::control {

/// Answers the monitors: what was counted, what stands now, and whether calls can be served.
/// Thread-safety: the loop's thread.
class Report {
 public:
  Report(Services& services, const Gateway& gateway) : services_(services), gateway_(gateway) {}

  /// Measures the loop from now on, and says so when strangers may read the metrics.
  void start();
  void write_metrics(net::OpsServer::Done done);
  /// Ready: not stopping, and the store reads.
  void tell_readiness(bool stopping, net::OpsServer::Done done);

 private:
  void measure_loop();
  void write_now(Exposition& out) const;
  static void write_counts(Exposition& out, const store::Tx::Counts& counts);

  Services& services_;
  const Gateway& gateway_;
};

}  // namespace sandboxkit::control
