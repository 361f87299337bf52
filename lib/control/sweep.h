#pragma once

#include "control/services.h"

#include <set>
#include <string>

namespace sandboxkit::control {

/// What no call and no report brings about: workers that stay away are lost, creates that nobody
/// waits for end with `create_wait`, drains come to their deadline, old tombstones are dropped.
class Sweep {
 public:
  explicit Sweep(Services& services) : services_(services) {}
  /// On the loop's thread, once; goes on until `stop`.
  void start();
  void stop() { stopped_ = true; }

 private:
  void tick();
  void pass();
  void end_lost(const Roster::Line& line);
  void end_drain(const Roster::Line& line);
  void end_late_creates(const std::string& worker);

  Services& services_;
  bool stopped_ = false;
  WallTime last_purge_{};
  /// Workers whose sandboxes are lost already; looked at by one pass at a time.
  std::set<std::string> lost_;
};

}  // namespace sandboxkit::control
