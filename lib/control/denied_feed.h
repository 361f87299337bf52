#pragma once

#include "sandboxkit/driver.h"

#include "control/services.h"
#include "io/http_server.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace sandboxkit::control {

/// Tells what is new in a list of counted refusals. Pure.
class DeniedDifference {
 public:
  /// The lines that were not there at the last call, or were counted less.
  std::vector<DeniedEgress> take(const std::vector<DeniedEgress>& denied);

 private:
  std::map<std::tuple<std::string, std::uint16_t, std::string>, std::int64_t> counts_;
};

/// Whose refusals are followed.
struct Followed {
  std::string worker;
  std::string sandbox;
  std::int64_t generation = 0;
  std::uint64_t lines = 0;               ///< The stream ends after so many.
  std::shared_ptr<const bool> draining;  // The gateway's own: true once the controller stops.
};

/// How often a worker is asked while somebody follows one of its sandboxes, and so how often a
/// follower is told.
inline constexpr std::chrono::milliseconds kFollowPause{1'000};

/// Answers with one line of JSON, `{"denied": [...]}`, for everything so far, and then one for
/// whatever was counted since, at most one a second, with an empty line after 15 seconds without
/// any. Nothing is asked of the worker but while somebody follows. The stream ends after `lines`
/// lines, with the sandbox, with its worker's tunnel, or with the client; `on_over` comes once.
/// Thread-safety: the loop's thread.
void follow_denied(Services& services, const std::shared_ptr<io::HttpExchange>& exchange,
                   Followed followed, std::function<void()> on_over);

}  // namespace sandboxkit::control
