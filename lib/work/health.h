#pragma once

#include "sandboxkit/driver.h"
#include "sandboxkit/events.h"
#include "sandboxkit/result.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::work {

/// What a worker knows of itself between two heartbeats: what its driver proved, what is wrong with
/// it, and when it last had contact with its controller.
/// Thread-safety: the loop's thread.
class Health {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Health(EventSink& events, std::chrono::milliseconds start_lease)
      : events_(events), start_lease_(start_lease) {}

  /// Takes a probe's answer. A driver that fails leaves what it proved before, and is a problem.
  /// True when a heartbeat has something new to say.
  bool probed(const Result<DriverCapabilities>& answer);

  /// Nothing is known before the first probe that went well.
  const std::optional<DriverCapabilities>& capabilities() const { return capabilities_; }
  /// Empty: the worker is well.
  const std::string& problem() const { return problem_; }

  void contact(Time now) { last_contact_ = now; }
  /// Whether a create that is under way must be given up. The worker gives up before the controller
  /// counts it as gone: whatever the controller does then, the create is not made behind its back.
  bool is_out_of_reach(Time now) const { return now - last_contact_ > start_lease_; }

 private:
  EventSink& events_;
  const std::chrono::milliseconds start_lease_;
  std::optional<DriverCapabilities> capabilities_;
  std::string problem_;
  std::vector<std::string> missing_;
  Time last_contact_{};
};

}  // namespace sandboxkit::work
