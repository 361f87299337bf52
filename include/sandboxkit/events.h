#pragma once

#include "sandboxkit/export.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sandboxkit {

enum class Severity : std::uint8_t { kDebug, kInfo, kWarning, kError };

SANDBOXKIT_API const char* name_of(Severity severity);

/// Something that an operator may want to read. Holds no secret.
struct Event {
  Severity severity = Severity::kInfo;
  /// Stable name: `worker_joined`, `sandbox_started`, ...
  std::string name;
  std::string message{};
  std::vector<std::pair<std::string, std::string>> fields{};
};

/// Where the library tells what happens; it does not log by itself.
/// Thread-safety: called from any thread; must not block for long and must not call back.
class SANDBOXKIT_API EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void tell(const Event& event) = 0;
};

}  // namespace sandboxkit
