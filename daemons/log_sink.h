#pragma once

#include "sandboxkit/events.h"

namespace sandboxkit::daemons {

/// Writes events as lines to standard error: `time level name: message key=value ...`.
/// Values with blanks or controls are quoted, so that one event stays one line. As JSON each line
/// is one object: `{"time", "level", "event", "message", ...fields}`.
class LogSink final : public EventSink {
 public:
  /// Events below `least` are dropped.
  explicit LogSink(Severity least, bool json = false);
  void tell(const Event& event) override;

 private:
  Severity least_;
  bool json_;
};

}  // namespace sandboxkit::daemons
