#include "work/health.h"

#include <utility>

namespace sandboxkit::work {

bool Health::probed(const Result<DriverCapabilities>& answer) {
  const std::string problem = answer ? std::string() : answer.error().message;
  const bool changed = problem != problem_;
  if (changed) {
    events_.tell(answer ? Event{Severity::kInfo, "engine_well", "the driver answers again"}
                        : Event{Severity::kError, "engine_unwell", problem});
    problem_ = problem;
  }
  if (!answer) {
    return changed;
  }
  if (answer->problems != missing_) {
    missing_ = answer->problems;
    for (const std::string& what : missing_) {
      events_.tell(Event{Severity::kWarning, "capability_missing", what});
    }
  }
  capabilities_ = *answer;
  return true;
}

}  // namespace sandboxkit::work
