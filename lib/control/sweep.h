#pragma once

#include "control/services.h"

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <utility>

namespace sandboxkit::control {

/// Tombstones are kept this long, so that a late caller still learns why.
inline constexpr std::chrono::hours kTombstones{24 * 7};

/// What no call and no report brings about: workers that stay away are lost, creates that nobody
/// waits for end with `create_wait`, drains come to their deadline, old tombstones are dropped.
/// One pass looks at all of it. No threads or tunnels in here, so that a model can drive it.
class SweepPass {
 public:
  struct Told {
    std::function<void(const store::SandboxRow&)> changed;
    std::function<void(const std::string& worker)> queued;  ///< Something waits to be sent to it.
  };
  SweepPass(Context& context, Told told) : context_(context), told_(std::move(told)) {}
  /// One at a time.
  void run();

 private:
  void end_lost(const Roster::Line& line);
  void end_drain(const Roster::Line& line);
  void end_late_creates(const std::string& worker);

  Context& context_;
  const Told told_;
  WallTime last_purge_{};
  /// Workers whose sandboxes are lost already.
  std::set<std::string> lost_;
};

/// A pass every now and then.
class Sweep {
 public:
  explicit Sweep(Services& services)
      : services_(services),
        pass_(services.context,
              {[&services](const store::SandboxRow& row) { services.deliverer.tell(row); },
               [&services](const std::string& worker) { services.deliverer.wake(worker); }}) {}
  /// On the loop's thread, once; goes on until `stop`.
  void start();
  void stop() { stopped_ = true; }

 private:
  void tick();

  Services& services_;
  SweepPass pass_;
  bool stopped_ = false;
};

}  // namespace sandboxkit::control
