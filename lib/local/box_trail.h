#pragma once

#include "sandboxkit/agent_session.h"
#include "sandboxkit/box_changes.h"

#include "audit/writer.h"

#include <memory>
#include <string>

namespace sandboxkit::local {

/// Whose box it is.
struct BoxOf {
  std::string session;
  std::string agent;
  SessionBox box;
};

/// Notes in the gate's audit log when boxes start and end, and what they left that nobody may make.
/// Thread-safety: any thread.
class BoxTrail {
 public:
  /// Errors: what the log says; without a log no box starts.
  static Result<std::unique_ptr<BoxTrail>> open(const std::string& gate_dir);

  Status started(const BoxOf& box);
  /// What cannot be written of an end is counted by the log itself.
  void ended(const BoxOf& box, const std::string& reason);
  void found(const BoxOf& box, const BoxSweep& swept);
  /// The look was not complete: somebody has to look.
  void not_swept(const BoxOf& box, const Error& why);

 private:
  explicit BoxTrail(std::unique_ptr<audit::Writer> writer) : writer_(std::move(writer)) {}
  const std::unique_ptr<audit::Writer> writer_;
};

}  // namespace sandboxkit::local
