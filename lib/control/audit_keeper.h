#pragma once

#include "base/guarded.h"
#include "control/auth.h"
#include "control/context.h"
#include "net/api_server.h"
#include "policy/access.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace sandboxkit::control {

/// The audit log's care: refusals are noted without letting a flood of them fill the disk, and what
/// is past the retention goes.
///
/// The first refusal (403, or a join from a foreign network) of a credential and name is a line of
/// its own; what follows within the minute is counted, and becomes one more line. Whoever shows no
/// good credential leaves none. Thread-safety: `note` from any thread; `start` and `stop` on the
/// loop's; `flush` when nothing else runs any more.
class AuditKeeper {
 public:
  static constexpr std::chrono::seconds kWindow{60};
  /// Pairs of credential and name in one minute; what is above shares a line.
  static constexpr std::size_t kMaxCounted = 10'000;

  explicit AuditKeeper(Context& context) : context_(context) {}
  void start();
  void stop() { stopped_ = true; }
  /// Never blocks. `action` is what was asked for, `refusal` the stable name of the answer.
  void note(const Caller& caller, policy::Action action, const std::string& refusal);
  /// The same for an answer, which is noted when it is a 403.
  void note(const Caller& caller, policy::Action action, const net::ApiResponse& answer);
  /// Writes what is counted.
  void flush();
  /// Once a minute, on the pool: `flush`, and what is past the retention goes.
  void pass();

 private:
  struct Count {
    store::AuditRow row;
    std::int64_t more = 0;
  };
  void tick();
  void prune();

  Context& context_;
  bool stopped_ = false;
  WallTime next_prune_{};
  Guarded<std::map<std::string, Count>> counts_;
};

}  // namespace sandboxkit::control
