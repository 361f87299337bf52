#pragma once

#include "sandboxkit/grant_store.h"

#include "audit/writer.h"

#include <memory>
#include <mutex>
#include <string>

namespace sandboxkit::agent {

/// Notes changes of grants in the gate's audit log: kind `grant` or `revoke`, `gen` the generation
/// of the grants after it, `grant` the id, the items what it allows, `source` its tree.
class GrantLog final : public GrantAudit {
 public:
  /// Writes with a writer of its own, which is opened by the first change: who only reads leaves no
  /// chain behind. `state_folder` is the gate's; the log is `audit` in it, its key `grants.key`.
  explicit GrantLog(const std::string& state_folder);
  /// Writes with a session's writer, which outlives it.
  GrantLog(const std::string& state_folder, audit::Writer& writer);

  Status note(const GrantChange& change) override;
  /// Reads the whole log: for the beginning of a session.
  Result<std::uint64_t> last_generation() override;

 private:
  Result<audit::Writer*> writer();

  const std::string state_folder_;
  std::mutex opening_;
  std::unique_ptr<audit::Writer> own_;
  audit::Writer* writer_ = nullptr;
};

/// Where the log and its key are.
audit::LogOptions audit_options(const std::string& state_folder);

}  // namespace sandboxkit::agent
