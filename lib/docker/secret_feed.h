#pragma once

#include "sandboxkit/result.h"

#include "docker/helper_link.h"

#include <memory>
#include <string>

namespace sandboxkit::docker {

/// Hands one sandbox's secrets to its proxy, and again whenever the proxy comes up anew: they live
/// in memory alone, here and there.
/// Thread-safety: any thread but the hub's own. Ownership: borrows the hub.
class SecretFeed {
 public:
  /// `proxy` is the way to the sidecar or to the process of this host.
  static std::shared_ptr<SecretFeed> start(LinkHub& hub, std::shared_ptr<HelperLink> proxy);
  virtual ~SecretFeed() = default;

  /// Gives an order (egress::write_secret_order) in place of the last one, and waits until the
  /// proxy took it. An order that it could not be asked to take yet is kept for when it comes.
  /// Errors: kConflict `worker_capability_unavailable` when the proxy refuses it; kUnavailable.
  virtual Status put(std::string order) = 0;
};

}  // namespace sandboxkit::docker
