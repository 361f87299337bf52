#pragma once

#include "sandboxkit/worker.h"

#include "base/guarded.h"

#include <optional>
#include <string>

namespace sandboxkit::work {

/// The worker's credential as the controller renews it.
///
/// The next one is on the disk before it is used, and the one before it stays there until the next
/// one worked: whatever dies in between, one of the two counts. Thread-safety: `current` from any
/// thread; the rest from one at a time. Blocking: what changes something waits for the disk.
class Credential {
 public:
  Credential(std::string state_dir, WorkerIdentity identity)
      : state_dir_(std::move(state_dir)), identity_(std::move(identity)) {}

  std::string current() const;
  /// The controller gave another one. Errors: it could not be kept; the old one stays current.
  Status take(const std::string& next);
  /// A call with `used` was taken: the one before it is forgotten.
  Status worked(const std::string& used);
  /// A call with `used` was refused as unknown: back to the one before it. False: there is none.
  Result<bool> refused(const std::string& used);

 private:
  Status keep(WorkerIdentity identity);

  const std::string state_dir_;
  Guarded<WorkerIdentity> identity_;
};

/// Nothing when the worker has not joined yet. Errors: `bad_identity`; those of the file.
Result<std::optional<WorkerIdentity>> read_identity(const std::string& state_dir);
Status write_identity(const std::string& state_dir, const WorkerIdentity& identity);

}  // namespace sandboxkit::work
