#pragma once

#include "sandboxkit/agent_session.h"

#include "audit/writer.h"

#include <optional>
#include <string>
#include <vector>

namespace sandboxkit::agent {

/// Who does something, and in which mode.
struct Actor {
  std::string agent;
  PermissionMode mode;
  /// The number of the request in its session: `r17`.
  std::string request{};
};

/// A decision on its way into the log.
struct Concluded {
  const GateDecision& decision;
  /// Of a file that was held while it was judged.
  std::optional<FileIdentity> object{};
  std::uint64_t took_us = 0;
};

/// What a session writes into the audit log. Each call is one record.
/// Source: design of the permission gate, section 6.
class Trail {
 public:
  Trail(audit::Writer& writer, const AgentSessionOptions& options)
      : writer_(writer),
        session_(options.session.session),
        source_(options.policy_source),
        generation_(options.policy_generation),
        box_(options.box) {}

  Status policy_loaded(const Actor& actor);
  Status mode_set(const Actor& actor);
  Status decided(const Actor& actor, const Concluded& concluded);
  Status asked(const Actor& actor, const Prompt& prompt, const GateDecision& decision);
  /// What became of a prompt: a choice's name, or why there was none.
  struct Answer {
    const Prompt& prompt;
    bool allows;
    std::string reason;
    std::string by;
  };
  Status answered(const Actor& actor, const Answer& answer);
  /// Grants of the session that are about to be made.
  struct Given {
    std::string id;
    std::vector<GrantedUse> uses;
    std::string reason;
    std::string by;
  };
  Status given(const Actor& actor, const Given& given);
  /// A grant that nobody kept although a person gave it.
  Status not_kept(const Actor& actor, const GrantToKeep& grant, const Error& why);
  /// All grants of the session are over.
  Status taken_back(const Actor& actor, const std::string& why);

 private:
  audit::Record record(audit::Kind kind, const Actor& actor) const;

  audit::Writer& writer_;
  const std::string session_;
  const std::string source_;
  const std::uint64_t generation_;
  const SessionBox box_;
};

/// Whether a request does nothing but read files: the only thing that may happen unrecorded.
bool only_reads_files(const GateDecision& decision);

}  // namespace sandboxkit::agent
