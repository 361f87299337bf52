#pragma once

#include "base/metrics.h"
#include "control/refusals.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <string_view>

namespace sandboxkit::control {

/// What the controller counts while it works. Counting is relaxed additions; what can be looked up
/// (states, tunnels, queues) is looked up when it is asked for.
/// Thread-safety: any thread.
class Metrics {
 public:
  Metrics();

  /// One answer: its route by the table, never by the path that was sent.
  void answered(std::string_view method, std::string_view target, int status,
                std::chrono::microseconds taken);
  /// The end of a create: the name of its refusal, or empty when it was decided for.
  void create_decided(std::string_view refusal);
  void write(Exposition& out) const;

  Counter auth_failures;
  Counter rate_limited;
  Counter orders_sent;
  Counter orders_retried;
  Counter orders_given_up;
  Histogram loop_lag{kMicrosecondBounds};
  Histogram store_writes{kMicrosecondBounds};
  Histogram store_groups;

 private:
  static constexpr std::size_t kClasses = 6;  ///< 1xx to 5xx, and what is none of them.
  struct RouteMetrics {
    std::array<Counter, kClasses> answers;
    Histogram seconds{kMicrosecondBounds};
  };
  void write_routes(Exposition& out) const;
  void write_creates(Exposition& out) const;

  /// As the table has them, the open ones, and one for all that is no route.
  std::deque<RouteMetrics> routes_;
  std::deque<Counter> refused_creates_;  ///< As `refusal_names`, and one for other names.
  Counter created_;
};

}  // namespace sandboxkit::control
